# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance's ``args`` and ``extra_args`` as one command line of its engine version (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import options
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings, Table

# Arguments that a key of the instance sets, and what to write there instead.
_TAKEN = {
    "model_path": "model_path of the instance",
    "api_key": "api_key of the instance, from a vault: an argument stands in the unit, in ps and in the engine's log",
    "admin_api_key": "nothing here: an argument stands in the unit, in ps and in the engine's log",
    "ssl_keyfile_password": "a key file without password, for the service user: an argument stands in ps and logs",
    "config": "args of the instance: what a file adds cannot be checked",
}
# An engine built from a fork knows more than the published table.
_LIFTABLE = ("unknown_argument", "fork_only", "argument_choice")


@dataclasses.dataclass
class Command:
    """A checked command line.

    ``args`` are the values in force by field name (``extra_args`` included, defaults of host and port put in);
    ``plain`` are those that come from ``args``, ``extra`` the words appended as they are. ``unread`` are fields that
    were given with a value that could not be read: they are neither set nor left to the engine.
    """

    args: Table
    plain: Table
    extra: list[str]
    version: str | None
    unread: frozenset[str] = frozenset()

    def argv(self, model_path: str) -> list[str]:
        """The words after ``-m sglang.launch_server``: model path, options sorted by field, the extra words."""
        words, _troubles = options.to_argv(self.plain, self.version)
        return ["--model-path", model_path, *words, *self.extra]


@dataclasses.dataclass(frozen=True)
class Request:
    """What an instance asks for. ``where`` is its variable path, ``lifted`` the ids of the exceptions in force."""

    args: Table
    extra: list[t.Any]
    version: str | None
    where: str
    lifted: frozenset[str] = frozenset()


def merge(base: Table, over: Table, version: str | None) -> Table:
    """``over`` laid over ``base``: a key replaces every key that sets the same field; null removes it."""
    replaced = {options.field_of_key(str(key), version) for key in over}
    kept = {key: value for key, value in base.items() if options.field_of_key(str(key), version) not in replaced}
    return {str(key): value for key, value in {**kept, **over}.items() if value is not None}


def read(request: Request, findings: Findings, defaults: Table) -> Command:
    """Check arguments against the version's table and merge them with the extra words.

    What is wrong is collected under ``args`` and ``extra_args`` of the instance. Defaults are put in for fields that
    neither sets.
    """
    version, where = request.version, request.where
    stand_in, exact = options.nearest_table(version)
    if (request.args or request.extra) and not exact:
        findings.warn(
            f"{where}.args",
            f"the option table of sglang {version or '(version unknown)'} is not known here; {stand_in}'s stands in",
            fix="nothing; the installed engine's own parser checks the arguments before a server is stopped",
            id="version_unread",
        )
    free = {key: value for key, value in request.args.items() if not _taken(key, f"{where}.args.{key}", findings)}
    from_args, troubles = options.normalise(free, version)
    unread = {options.field_of_key(trouble.key, version) for trouble in troubles}
    for trouble in troubles:
        _tell(trouble, f"{where}.args.{trouble.key}", request, findings)
    appended, troubles = options.parse_argv(request.extra, version)
    unread |= {options.field_for_spelling(str(request.extra[int(trouble.key)]), version) or "" for trouble in troubles}
    for trouble in troubles:
        _tell(trouble, f"{where}.extra_args[{trouble.key}]", request, findings)
    for field in sorted(set(from_args) & set(appended)):
        findings.problem(
            f"{where}.extra_args",
            f"sets {field}, which args sets too",
            "each argument once",
            "remove it from one of the two",
            "argument_twice",
        )
    words = [word for word in request.extra if isinstance(word, str)]
    for field in [field for field in appended if _taken(field, f"{where}.extra_args", findings)]:
        appended.pop(field)
        words = []  # what must not stand on a command line does not reach the result either
    for field, value in defaults.items():
        if field not in appended:
            from_args.setdefault(field, value)
    args = {**from_args, **appended}
    return Command(args, from_args, words, version, frozenset(unread - set(args)))


def _taken(field: str, where: str, findings: Findings) -> bool:
    if field not in _TAKEN:
        return False
    findings.problem(where, f"{field} cannot be given as an argument", _TAKEN[field], "remove it", "argument_taken")
    return True


def _tell(trouble: options.Trouble, where: str, request: Request, findings: Findings) -> None:
    if trouble.warning or trouble.id in request.lifted:
        findings.warn(where, trouble.what, trouble.expected, trouble.fix, trouble.id)
        return
    exception = ""
    if trouble.id in _LIFTABLE:
        exception = f"; for an engine that knows it, write it in extra_args and grant the exception {trouble.id}"
    findings.problem(where, trouble.what, trouble.expected, trouble.fix + exception, trouble.id)

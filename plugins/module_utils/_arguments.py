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
    "ssl_keyfile_password": "a key file without password, readable by the service user: an argument stands in ps and in the log",
    "config": "args of the instance: what a file adds cannot be checked",
}


@dataclasses.dataclass
class Command:
    """A checked command line.

    ``args`` are the values in force by field name (``extra_args`` included, defaults of host and port put in);
    ``plain`` are those that come from ``args``, ``extra`` the words appended as they are.
    """

    args: Table
    plain: Table
    extra: list[str]
    version: str | None

    def argv(self, model_path: str) -> list[str]:
        """The words after ``-m sglang.launch_server``: model path, then options sorted by field, then the extra words."""
        words, _ = options.to_argv(self.plain, self.version)
        return ["--model-path", model_path, *words, *self.extra]


def read(
    args: Table, extra: list[t.Any], version: str | None, where: str, findings: Findings, defaults: Table
) -> Command:
    """Check arguments against the version's table and merge them; what is wrong is collected under ``where``.args[...]."""
    exact = options.nearest_table(version)[1]
    if (args or extra) and not exact:
        findings.warn(
            f"{where}.args",
            f"cannot be checked yet: no option table for sglang {version or 'of an unknown version'}, "
            f"{options.nearest_table(version)[0]} stands in",
            fix="none needed; the installed engine's own parser checks them before anything is stopped",
            id="version_unread",
        )
    free = {key: value for key, value in args.items() if not _taken(key, f"{where}.args.{key}", findings)}
    plain, troubles = options.normalise(free, version)
    for trouble in troubles:
        _tell(trouble, f"{where}.args.{trouble.key}", findings)
    appended, troubles = options.parse_argv(extra, version)
    for trouble in troubles:
        _tell(trouble, f"{where}.extra_args[{trouble.key}]", findings)
    for field in sorted(set(plain) & set(appended)):
        findings.problem(
            f"{where}.extra_args",
            f"sets {field}, which args sets too",
            "each argument once",
            "remove it from one of the two",
            "argument_twice",
        )
    for field in [field for field in appended if _taken(field, f"{where}.extra_args", findings)]:
        appended.pop(field)
        extra = []  # what must not stand on the command line does not reach the result either
    for field, value in defaults.items():
        if field not in appended:
            plain.setdefault(field, value)
    return Command({**plain, **appended}, plain, [word for word in extra if isinstance(word, str)], version)


def _taken(field: str, where: str, findings: Findings) -> bool:
    if field not in _TAKEN:
        return False
    findings.problem(where, f"{field} cannot be given as an argument", _TAKEN[field], "remove it", "argument_taken")
    return True


def _tell(trouble: options.Trouble, where: str, findings: Findings) -> None:
    tell = findings.warn if trouble.warning else findings.problem
    tell(where, trouble.what, trouble.expected, trouble.fix, trouble.id)

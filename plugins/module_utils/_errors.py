# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that say what is wrong, where, what was expected and what to write (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t


class SglangError(Exception):
    """A failure that an operator can act on.

    Args:
        what: what is wrong, one sentence without a full stop.
        where: file and key, variable path, URL or host; empty when the sentence already says it.
        expected: what would have been right; empty when obvious.
        fix: what to write or run; empty when nothing can be said.
        kind: a short machine-readable word (for instance ``unreachable``), for callers that branch on it.
    """

    def __init__(self, what: str, where: str = "", expected: str = "", fix: str = "", kind: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.fix = fix
        self.kind = kind

    def __str__(self) -> str:
        return sentence(self.what, self.where, self.expected, self.fix)

    def as_dict(self) -> dict[str, str]:
        """The fields, for a module's result."""
        return {
            "what": self.what,
            "where": self.where,
            "expected": self.expected,
            "fix": self.fix,
            "kind": self.kind,
        }


@dataclasses.dataclass(frozen=True)
class Problem:
    """One finding about the input of a run; many of them make one message.

    ``host`` is the inventory host (empty for the whole inventory), ``where`` a variable path such as
    ``sglang_instances[0].args.kv_cache_dtype``, ``id`` the name by which an exception can lift it.
    """

    host: str
    where: str
    what: str
    expected: str = ""
    fix: str = ""
    id: str = ""

    def text(self) -> str:
        """One paragraph that a person can act on."""
        place = ": ".join(part for part in (self.host, self.where) if part)
        return sentence(self.what, place, self.expected, self.fix)

    def as_dict(self) -> dict[str, t.Any]:
        """The fields, for a result that roles and reports read."""
        return dataclasses.asdict(self)


def sentence(what: str, where: str = "", expected: str = "", fix: str = "") -> str:
    """Join the parts of a message: ``where: what. Expected: ... Fix: ...``."""
    text = f"{where}: {what}" if where else what
    text = _stop(text)
    if expected:
        text += f" Expected: {_stop(expected)}"
    if fix:
        text += f" Fix: {_stop(fix)}"
    return text


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "\n")) else text + "."

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects every problem of an input instead of stopping at the first (private to the collection).

The readers return a usable value in any case, so that the rest of the input is still checked.
"""

from __future__ import annotations

import datetime
import difflib
import math
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import Problem

Table = dict[str, t.Any]


class Findings:
    """Problems (they refuse) and warnings (they are told) about the variables of one host."""

    def __init__(self, host: str = "") -> None:
        self.host = host
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def problem(self, where: str, what: str, expected: str = "", fix: str = "", id: str = "") -> None:
        """Add something that must be put right before anything is changed."""
        self.problems.append(Problem(self.host, where, what, expected, fix, id))

    def warn(self, where: str, what: str, expected: str = "", fix: str = "", id: str = "") -> None:
        """Add something that an operator should know and that stops nothing."""
        self.warnings.append(Problem(self.host, where, what, expected, fix, id))

    def table(self, value: t.Any, where: str, example: str = "{key: value}") -> Table:
        """The value as a dictionary with text keys; anything else is a problem and yields an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(where, f"is {kind_of(value)}", "a dictionary", f"write {where}: {example}", "type")
            return {}
        found: Table = {}
        for key, entry in value.items():
            if isinstance(key, str):
                found[str(key)] = entry
            else:
                self.problem(
                    where,
                    f"has the key {shown(key)}, which is {kind_of(key)}",
                    "keys that are text",
                    f'quote it: "{shown(key)}"',
                    "type",
                )
        return found

    def listing(self, value: t.Any, where: str, example: str = "[one, two]") -> list[t.Any]:
        """The value as a list; anything else is a problem and yields an empty one."""
        if value is None:
            return []
        if not isinstance(value, (list, tuple)):
            self.problem(where, f"is {kind_of(value)}", "a list", f"write {where}: {example}", "type")
            return []
        return list(value)

    def text(self, value: t.Any, where: str, example: str, default: str = "") -> str:
        """The value as a non-empty line of text; anything else is a problem and yields the default."""
        if isinstance(value, str) and value.strip() and not has_control(value):
            return str(value)
        seen = "is empty" if value == "" else f"is {kind_of(value)}"
        if isinstance(value, str) and value:
            seen = "is blank or holds a line break or a control character"
        self.problem(where, seen, "one line of text", f"write {where}: {example}", "type")
        return default

    def integer(self, value: t.Any, where: str, least: int, most: int, example: int) -> int | None:
        """The value as an integer within bounds (both included); anything else is a problem and yields None.

        A text of digits counts, since ``-e`` on the command line passes text.
        """
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if least <= value <= most:
                return int(value)
            self.problem(
                where, f"is {value}", f"a whole number from {least} to {most}", f"write {where}: {example}", "type"
            )
            return None
        self.problem(
            where, f"is {kind_of(value)}", f"a whole number from {least} to {most}", f"write {where}: {example}", "type"
        )
        return None

    def choice(self, value: t.Any, where: str, choices: t.Sequence[str], default: str) -> str:
        """The value if it is one of the choices; anything else is a problem and yields the default."""
        if isinstance(value, str) and value in choices:
            return str(value)
        said = shown(value) if isinstance(value, str) else kind_of(value)
        hint = nearest(str(value), choices) if isinstance(value, str) else []
        self.problem(
            where,
            f"is {said}",
            "one of " + ", ".join(choices),
            f"write {where}: {hint[0] if hint else default}",
            "choice",
        )
        return default

    def known_keys(self, table: Table, where: str, known: t.Iterable[str], listed: str = "") -> None:
        """Report keys that nobody reads, with the nearest name that is read."""
        names = sorted(known)
        for key in table:
            if key not in names:
                place = f"{where}.{key}" if where else key
                self.problem(
                    place,
                    "is not a key that is read here",
                    listed or "one of " + ", ".join(names),
                    did_you_mean(key, names),
                    "unknown_key",
                )


def nearest(word: str, names: t.Iterable[str], cutoff: float = 0.6, count: int = 3) -> list[str]:
    """The names nearest to a misspelt word, best first; the far ones are left out where one is clearly meant."""
    word = word[:100]
    close = difflib.get_close_matches(word, list(names), n=count, cutoff=cutoff)
    ratios = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    return [name for name, ratio in zip(close, ratios, strict=True) if ratio >= ratios[0] - 0.1]


def did_you_mean(word: str, names: t.Iterable[str], otherwise: str = "remove it") -> str:
    """A fix that names the nearest known names, or the given text where none is near."""
    close = nearest(word, names)
    return f"write {' or '.join(close)}" if close else otherwise


def kind_of(value: t.Any) -> str:
    """What a YAML value is, in words an operator uses; text itself is not repeated, it may be a secret."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true or false, not text or a number"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number with a fraction"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "a dictionary"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return "a date"
    return f"a value of type {type(value).__name__}"


def shown(value: t.Any) -> str:
    """A value for a message: short, on one line."""
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def has_control(text: str) -> bool:
    """Whether a text holds a line break or a control character, which no unit or environment file can carry."""
    return any(ord(char) < 32 or ord(char) == 127 for char in text)


def plain(value: t.Any) -> t.Any:
    """A YAML value with only what JSON has: keys as text, dates as ISO text, anything else by its ``str``."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if isinstance(value, (datetime.date, datetime.datetime)) else str(value)


def deep_merge(base: t.Any, over: t.Any) -> t.Any:
    """``over`` laid over ``base``: dictionaries key by key at every depth, null removes a key, the rest replaces.

    Neither argument is changed; values are shared, not copied.
    """
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif key in merged:
            merged[key] = deep_merge(merged[key], value)
        else:
            merged[key] = value
    return merged

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which options each version of the engine has (private to the collection; used on the controller).

``options.json`` beside this file is generated from the published packages' source by ``tools/engine_options.py``: one
row per option and range of versions. Only Python files travel to a target, so modules that run there cannot read it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion

TABLE_FILE = pathlib.Path(__file__).parent / "options.json"


@dataclasses.dataclass(frozen=True)
class Option:
    """One option of one version.

    ``kind`` is ``flag`` (takes no value, true when given), ``toggle`` (``--x`` and ``--no-x``), ``value`` (one value),
    ``optional`` (a value or none, then ``const``), ``list`` (one value or more) or ``list0`` (any number of values).
    ``type`` names how a word is read: str, int, float, json (a JSON object or list in one word), or human_int (a whole
    number, or one with a suffix such as 32k). ``sets`` is the field that an old spelling sets, if not its own.
    """

    field: str
    spellings: tuple[str, ...]
    kind: str = "value"
    type: str = "str"
    choices: tuple[t.Any, ...] = ()
    default: t.Any = None
    const: t.Any = None
    required: bool = False
    deprecated: str = ""
    sets: str = ""

    @property
    def spelling(self) -> str:
        """The spelling to write: the first one, which is what ``--help`` shows."""
        return self.spellings[0]


@functools.cache
def _table() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads(TABLE_FILE.read_text(encoding="utf-8")))


def table_versions() -> tuple[str, ...]:
    """The versions whose options were read from source, oldest first."""
    return tuple(_table()["versions"])


@functools.cache
def nearest_table(version: str | None) -> tuple[str, bool]:
    """The version whose table stands in for the given one, and whether it is that very version.

    An unread version (``main``, a development build, None) is judged by the newest read one that is not newer, since
    options are added far more often than taken away; the caller then warns instead of refusing.
    """
    known = table_versions()
    wanted = EngineVersion.try_parse(version)
    if wanted is None:
        return known[-1], False
    older = [name for name in known if EngineVersion.parse(name) <= wanted]
    name = older[-1] if older else known[0]
    return name, EngineVersion.parse(name) == wanted


@functools.cache
def options_for(version: str | None) -> dict[str, Option]:
    """Field name to option, for a version or its stand-in (:func:`nearest_table`)."""
    table = _table()
    position = table["versions"].index(nearest_table(version)[0])
    found: dict[str, Option] = {}
    for field, rows in table["options"].items():
        for row in rows:
            if any(first <= position <= last for first, last in row["in"]):
                found[field] = _option(field, row, table["choices"])
    return found


def _option(field: str, row: dict[str, t.Any], choices: list[list[t.Any]]) -> Option:
    return Option(
        field=field,
        spellings=tuple(row["spellings"]),
        kind=row.get("kind", "value"),
        type=row.get("type", "str"),
        choices=tuple(choices[row["choices"]]) if "choices" in row else (),
        default=row.get("default"),
        const=row.get("const"),
        required=row.get("required", False),
        deprecated=row.get("deprecated", ""),
        sets=row.get("sets", ""),
    )


@functools.cache
def spellings_for(version: str | None) -> dict[str, str]:
    """Every spelling of a version's command line (``--no-x`` of toggles included) to its field."""
    found = {}
    for field, option in options_for(version).items():
        for spelling in option.spellings:
            found[spelling] = field
            if option.kind == "toggle" and spelling.startswith("--"):
                found["--no-" + spelling[2:]] = field
    return found


def field_for_spelling(spelling: str, version: str | None) -> str | None:
    """The field that a flag sets (``--tensor-parallel-size``: tp_size); a beginning counts if only one flag has it."""
    fields = candidates(spelling.partition("=")[0], version)
    return next(iter(fields)) if len(fields) == 1 else None


def candidates(spelling: str, version: str | None) -> set[str]:
    """The fields a flag may mean: one if it is known, several if it is an ambiguous beginning, none if unknown."""
    known = spellings_for(version)
    if spelling in known:
        return {known[spelling]}
    if not spelling.startswith("--") or len(spelling) < 3:
        return set()
    # argparse counts spellings, not fields: two spellings of one field are ambiguous to it as well.
    matches = [name for name in known if name.startswith(spelling)]
    return {known[matches[0]]} if len(matches) == 1 else {f"{known[name]} ({name})" for name in matches}


def versions_with(field: str) -> tuple[str, ...]:
    """The read versions that know a field, oldest first."""
    table = _table()
    rows = table["options"].get(field, [])
    return tuple(
        name
        for position, name in enumerate(table["versions"])
        if any(first <= position <= last for row in rows for first, last in row["in"])
    )

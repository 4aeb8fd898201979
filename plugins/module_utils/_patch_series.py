# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An operator's own series of patches: unified diffs, applied to a clean source as a whole or not at all (private).

Every line of context must be there; a hunk may only have moved up or down, as git allows it. The series is worked out
in memory before a file is written, so a hunk that fails leaves the source as it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_release import write_json

MARKER = ".blackwell-sglang-series.json"
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_UNABLE = ("GIT binary patch", "Binary files ", "rename from ", "copy from ", "old mode ", "new file mode 120000")


@dataclasses.dataclass
class Hunk:
    """A hunk: ``number`` within its file from 1, ``start`` the line it was made for, lines before and after."""

    number: int
    start: int
    before: list[str] = dataclasses.field(default_factory=list)
    after: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class FilePatch:
    """What a patch does to one file; ``old`` or ``new`` is None where it creates or removes it."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = dataclasses.field(default_factory=list)


Texts: t.TypeAlias = "dict[str, str | None]"


def digest(series: t.Sequence[t.Mapping[str, str]]) -> str:
    """First 12 hex digits over the texts of a series in their order; names do not count. Empty for an empty series."""
    whole = hashlib.sha256()
    for patch in series:
        whole.update(hashlib.sha256(patch["text"].encode()).digest())
    return whole.hexdigest()[:12] if series else ""


def read(name: str, text: str) -> list[FilePatch]:
    """Read a patch as ``git diff``, ``git format-patch`` or ``diff -u`` write it.

    Raises:
        SglangError: it holds no hunk, one that is cut off, or something that is no change of text.
    """
    files: list[FilePatch] = []
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith(_UNABLE):
            raise SglangError(
                f"{name} holds {line.split()[0]!r}, which is no change of text",
                where=f"line {index + 1}",
                fix="make it with git diff --no-renames --no-binary, and leave binary files and modes out",
                kind="patch",
            )
        if line.startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ "):
            files.append(FilePatch(_path(line), _path(lines[index + 1])))
            index += 2
            continue
        match = _HUNK.match(line)
        if match and files:
            hunk = Hunk(len(files[-1].hunks) + 1, int(match[1]))
            index = _read_hunk(name, lines, index + 1, hunk, (int(match[2] or 1), int(match[4] or 1)))
            files[-1].hunks.append(hunk)
            continue
        index += 1
    if not any(patch.hunks for patch in files):
        raise SglangError(f"{name} holds no change", expected="a unified diff, as git diff writes it", kind="patch")
    return files


def work_out(root: str | pathlib.Path, series: t.Sequence[t.Mapping[str, str]]) -> tuple[Texts, Texts]:
    """Texts of the changed files (before, after) by their path under ``root``; None is a file that is not there.

    Raises:
        SglangError: a hunk does not apply; the message names patch, file, hunk and the line that it was made for.
    """
    before: Texts = {}
    now: Texts = {}
    for patch in series:
        for change in read(patch["name"], patch["text"]):
            name = change.old or change.new or ""
            path = _inside(pathlib.Path(root), name, patch["name"])
            if name not in now:
                now[name] = before[name] = _text(path)
            now[name] = _apply(now[name], change, name, patch["name"])
    changed = [name for name in now if now[name] != before[name]]
    return {name: before[name] for name in changed}, {name: now[name] for name in changed}


def write(root: str | pathlib.Path, after: Texts, series: t.Sequence[t.Mapping[str, str]]) -> None:
    """Write what :func:`work_out` gave, and note which series the source holds now."""
    for name, text in after.items():
        path = pathlib.Path(root, name)
        if text is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    write_json(pathlib.Path(root, MARKER), {"digest": digest(series), "patches": [patch["name"] for patch in series]})


def _read_hunk(name: str, lines: list[str], index: int, hunk: Hunk, counts: tuple[int, int]) -> int:
    old, new = counts
    while old > 0 or new > 0:
        line = lines[index] if index < len(lines) else None
        mark = line[:1] if line else " "
        if line is None or mark not in " +-\\":
            raise SglangError(f"hunk {hunk.number} of {name} is cut off", where=f"line {index + 1}", kind="patch")
        if mark in " -":
            hunk.before.append(line[1:])
            old -= 1
        if mark in " +":
            hunk.after.append(line[1:])
            new -= 1
        index += 1
    return index


def _apply(text: str | None, change: FilePatch, name: str, patch: str) -> str | None:
    if change.old is None:
        if text is not None:
            raise _failed(patch, name, change.hunks[0], "creates the file, which is there already")
        return "\n".join(change.hunks[0].after) + "\n"
    if text is None:
        raise _failed(patch, name, change.hunks[0], "changes the file, which is not there")
    lines = text.split("\n")
    shift = 0
    for hunk in change.hunks:
        # A hunk without old lines is inserted after the line that it names.
        expected = max(0, hunk.start - (1 if hunk.before else 0) + shift)
        at = _find(lines, hunk.before, expected)
        if at is None:
            raise _failed(patch, name, hunk, "does not find its lines", hunk.before)
        lines[at : at + len(hunk.before)] = hunk.after
        shift = at - (hunk.start - (1 if hunk.before else 0)) + len(hunk.after) - len(hunk.before)
    return None if change.new is None else "\n".join(lines)


def _find(lines: list[str], wanted: list[str], expected: int) -> int | None:
    """Where the wanted lines stand, the place nearest to the expected one."""
    last = len(lines) - len(wanted)
    places = sorted(range(last + 1), key=lambda place: abs(place - expected))
    return next((place for place in places if lines[place : place + len(wanted)] == wanted), None)


def _failed(patch: str, name: str, hunk: Hunk, why: str, wanted: t.Sequence[str] = ()) -> SglangError:
    first = next((line.strip() for line in wanted if line.strip()), "")
    return SglangError(
        f"hunk {hunk.number} of {patch} no longer applies to {name}: it {why}",
        where=f"{name}, about line {hunk.start}",
        expected=f"lines that begin with {first!r}" if first else "",
        fix="make the patch anew against this commit, or take it out of kernel.series if upstream has the change",
        kind="patch",
    )


def _path(line: str) -> str | None:
    """The path of a ``---`` or ``+++`` line without its first folder, as ``patch -p1`` reads it."""
    path = line[4:].split("\t", maxsplit=1)[0].strip().strip('"')
    if path == "/dev/null":
        return None
    _prefix, slash, rest = path.partition("/")
    return rest if slash else path


def _inside(root: pathlib.Path, name: str, patch: str) -> pathlib.Path:
    path = (root / name).resolve()
    if not name or root.resolve() not in path.parents:
        raise SglangError(f"{patch} names {name!r}, which lies outside of the source", kind="patch")
    return path


def _text(path: pathlib.Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None

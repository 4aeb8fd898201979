# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies patches of the catalogue to a kernel source and takes them back to the byte (private to the collection).

Originals are kept under ``FOLDER/.blackwell-sglang``, which is written before any file is changed, so an interrupted
call can be reverted too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _patches
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_release import write_json

KEPT = ".blackwell-sglang"


@dataclasses.dataclass
class Outcome:
    """What a call did or would do: per patch ``id``, ``status``, ``why``; texts of changed files before and after."""

    patches: list[dict[str, t.Any]]
    before: dict[str, str]
    after: dict[str, str]
    digest: str

    @property
    def changed(self) -> bool:
        """Whether any file differs."""
        return bool(self.after)


def plan(folder: str | pathlib.Path, names: t.Sequence[str] | None) -> Outcome:
    """Probe a source and work out what the patches make of it; changes nothing.

    Args:
        folder: the kernel's folder, the one with CMakeLists.txt.
        names: ids; None means all that are needed.

    Raises:
        SglangError: the folder is no kernel source, an id is unknown, or a patch that is asked for by name does not
            recognise the source.
    """
    root = pathlib.Path(folder)
    if not (root / "CMakeLists.txt").is_file():
        raise SglangError(
            "no CMakeLists.txt here",
            where=str(root),
            expected="sgl-kernel/ or python/sglang/kernels/aot/ of a checkout",
            fix="set kernel.subdirectory of the stack to the folder of the kernel",
        )
    try:
        chosen = _patches.by_id(names)
    except KeyError as error:
        known = ", ".join(patch.id for patch in _patches.CATALOGUE)
        raise SglangError(
            f"there is no patch {error.args[0]}", where="kernel.patches", expected=f"auto or some of {known}"
        ) from error
    before: dict[str, str] = {}
    texts: dict[str, str] = {}
    statuses: list[dict[str, t.Any]] = []
    applied: dict[str, str] = _manifest(root)["applied"]
    for patch in chosen:
        text = texts.get(patch.file)
        if text is None:
            text = _patches.read(root / patch.file)
        if text is None:
            verdict = _patches.Verdict(_patches.OBSOLETE, f"{patch.file} is not there")
        else:
            verdict = patch.probe(text)
        if verdict.text is not None and text is not None:
            before.setdefault(patch.file, text)
            texts[patch.file] = verdict.text
        if verdict.status == _patches.UNRECOGNISED and names is not None:
            raise SglangError(
                f"patch {patch.id} does not recognise this source: {verdict.why}",
                where=str(root / patch.file),
                fix=f"leave it out of kernel.patches; without it: {patch.without}",
            )
        statuses.append(
            {
                "id": patch.id,
                "status": verdict.status,
                # On a later call the probe finds the cure; that it is ours is known from the first one.
                "applied": verdict.status == _patches.NEEDED or patch.id in applied,
                "why": applied.get(patch.id, verdict.why),
                "file": patch.file,
                "cures": patch.cures,
                "without": patch.without,
            }
        )
    return Outcome(statuses, before, texts, _digest(root, chosen, texts))


def apply(folder: str | pathlib.Path, outcome: Outcome) -> None:
    """Write what :func:`plan` worked out, originals first."""
    root = pathlib.Path(folder)
    kept = root / KEPT
    manifest = _manifest(root)
    manifest["applied"].update({patch["id"]: patch["why"] for patch in outcome.patches if patch["applied"]})
    for name, text in outcome.before.items():
        if name not in manifest["files"]:
            copy = kept / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text.encode())
        manifest["files"][name] = _sha(outcome.after[name])
    kept.mkdir(exist_ok=True)
    write_json(kept / "manifest.json", manifest)
    for name, text in outcome.after.items():
        (root / name).write_bytes(text.encode())


def revert(folder: str | pathlib.Path, check: bool = False) -> Outcome:
    """Restore the files as they were before the first patch.

    Raises:
        SglangError: a file was changed by somebody else since, whose work would be lost.
    """
    root = pathlib.Path(folder)
    before, after = {}, {}
    for name, digest in _manifest(root)["files"].items():
        current = _patches.read(root / name)
        original = _patches.read(root / KEPT / name)
        if current is None or original is None:
            raise SglangError(
                "the file or its original is gone", where=str(root / name), fix="check the source out anew"
            )
        if _sha(current) not in (digest, _sha(original)):
            raise SglangError(
                "the file was changed after it was patched",
                where=str(root / name),
                fix=f"save that change; the original is {root / KEPT / name}",
            )
        if current != original:
            before[name], after[name] = current, original
    if not check:
        for name, text in after.items():
            (root / name).write_bytes(text.encode())
        shutil.rmtree(root / KEPT, ignore_errors=True)
    return Outcome([], before, after, "")


def _manifest(root: pathlib.Path) -> dict[str, dict[str, str]]:
    """``files``: name to the digest of the patched text; ``applied``: id to what its probe saw then."""
    try:
        value = json.loads((root / KEPT / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        value = {}
    return {"files": dict(value.get("files") or {}), "applied": dict(value.get("applied") or {})}


def _digest(root: pathlib.Path, chosen: list[_patches.Patch], texts: t.Mapping[str, str]) -> str:
    """First 12 hex digits over the patched files as they are, or will be; the same before and after applying."""
    whole = hashlib.sha256()
    for name in sorted({patch.file for patch in chosen}):
        text = texts.get(name) or _patches.read(root / name) or ""
        whole.update(f"{name}\0{_sha(text)}\0".encode())
    return whole.hexdigest()[:12]


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An operator's own patches as an inventory names them, read on the controller (private to the collection).

Their texts become part of the resolved stack and of its digest, so an edited patch builds a new release.
"""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _patch_series
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings, shown

SUFFIXES = (".patch", ".diff")


def load(given: t.Any, where: str, findings: Findings) -> list[dict[str, str]]:
    """The patches of ``kernel.series`` in their order, each with ``name`` and ``text``; what is wrong is a problem.

    Args:
        given: a folder (its file ``series`` gives the order, else the names do), or a list of files. Paths are
            absolute: the inventory writes ``{{ inventory_dir }}/patches``.
        where: path of the variable.
        findings: gets the problems.
    """
    entries = given if isinstance(given, list) else [given]
    files: list[pathlib.Path] = []
    for index, entry in enumerate(entries):
        place = f"{where}[{index}]" if isinstance(given, list) else where
        if not isinstance(entry, str) or not entry.startswith("/"):
            findings.problem(
                place,
                f"is {shown(entry)}",
                "the absolute path of a folder of patches, or a list of files",
                'write "{{ inventory_dir }}/patches"',
                "type",
            )
            continue
        path = pathlib.Path(entry)
        files += _folder(path) if path.is_dir() else [path]
    return [patch for path in files if (patch := _read(path, where, findings)) is not None]


def _folder(folder: pathlib.Path) -> list[pathlib.Path]:
    order = folder / "series"
    if order.is_file():
        names = (line.split("#")[0].strip() for line in order.read_text(encoding="utf-8").splitlines())
        return [folder / name for name in names if name]
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)


def _read(path: pathlib.Path, where: str, findings: Findings) -> dict[str, str] | None:
    try:
        text = path.read_text(encoding="utf-8")
        _patch_series.read(path.name, text)
    except (OSError, UnicodeDecodeError, SglangError) as error:
        what = error.what if isinstance(error, SglangError) else getattr(error, "strerror", None) or "is no text"
        findings.problem(
            where,
            f"{path}: {what}",
            "a unified diff",
            "correct the path, or make the patch anew with git diff",
            "patch",
        )
        return None
    return {"name": path.name, "text": text}

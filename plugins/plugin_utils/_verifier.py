# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack the verifier and the module_utils that it imports into one archive (private to the collection)."""

from __future__ import annotations

import ast
import io
import pathlib
import re
import typing as t
import zipfile

PACKAGE = "ansible_collections.blackwell.sglang.plugins.module_utils"
MODULE_UTILS = pathlib.Path(__file__).resolve().parents[1] / "module_utils"
_FROM_COLLECTION = re.compile(rf"^[ \t]*from {re.escape(PACKAGE)}[\w.]* import (?:\([^)]*\)|.*)", re.MULTILINE)
# The same input must give the same bytes, so that a digest says whether the host has it.
_TIME = (2026, 1, 1, 0, 0, 0)


def archive(main: pathlib.Path, module_utils: pathlib.Path = MODULE_UTILS) -> bytes:
    """A zip that ``python3`` runs: ``main`` as ``__main__.py``, and all that it imports from the collection.

    Raises:
        FileNotFoundError: something that is imported is not there.
    """
    sources: dict[str, bytes] = {"__main__.py": main.read_bytes()}
    todo = imported(main.read_text(encoding="utf-8"))
    while todo:
        name = todo.pop()
        path = module_utils.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        target = "/".join(PACKAGE.split(".")) + "/" + file.relative_to(module_utils).as_posix()
        if target in sources:
            continue
        sources[target] = file.read_bytes()
        todo |= imported(file.read_text(encoding="utf-8"))
    for name in list(sources):
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            sources.setdefault("/".join([*parts[:depth], "__init__.py"]), b"")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target_zip:
        for name in sorted(sources):
            target_zip.writestr(zipfile.ZipInfo(name, _TIME), sources[name])
    return buffer.getvalue()


def imported(source: str) -> set[str]:
    """Names below module_utils that a source imports anywhere, dotted.

    Only these statements are parsed: a run that changes nothing packs the archive for its digest, and to parse all of
    sixty modules takes half a second.
    """
    found: set[str] = set()
    for statement in _FROM_COLLECTION.findall(source):
        node = t.cast("ast.ImportFrom", ast.parse(statement.lstrip()).body[0])
        base = str(node.module)[len(PACKAGE) :].lstrip(".")
        for alias in node.names:
            dotted = f"{base}.{alias.name}" if base else alias.name
            path = MODULE_UTILS.joinpath(*dotted.split("."))
            found.add(dotted if path.is_dir() or path.with_suffix(".py").is_file() else base)
    return found

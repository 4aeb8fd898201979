# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How uv is called, and what its errors mean to an operator (private to the collection)."""

from __future__ import annotations

import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

Run = t.Callable[..., tuple[int, str, str]]
_URL = re.compile(r"https?://[^\s`'\")>]+")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_UNREACHABLE = ("connection refused", "dns error", "connect error", "timed out", "reset by peer", "unexpected eof")
_NOT_FOUND = re.compile(r"\b([A-Za-z0-9][A-Za-z0-9._-]*) was not found in the (?:package registry|cache)")


def environment(root: str | pathlib.Path) -> dict[str, str]:
    """Environment of every call of uv: its cache lies beside the releases, so that files can be linked, not copied."""
    return {
        "UV_CACHE_DIR": str(pathlib.Path(root, "cache", "uv")),
        "UV_PYTHON_INSTALL_DIR": str(pathlib.Path(root, "python")),
        "UV_NO_PROGRESS": "1",
        "UV_HTTP_TIMEOUT": "120",
        "UV_LINK_MODE": "hardlink",
        "NO_COLOR": "1",
    }


def resolve(run: Run, uv: str, project: str | pathlib.Path, *, python: str, root: str) -> tuple[str, str]:
    """Resolve a project with uv, install nothing; returns (requirements with hashes, uv.lock).

    Args:
        run: AnsibleModule.run_command.
        uv: path of uv.
        project: folder with pyproject.toml; uv.lock is written there.
        python: interpreter that will be used.
        root: the collection's root on the host.

    Raises:
        SglangError: with what uv printed.
    """
    folder = pathlib.Path(project)
    common = ["--quiet", "--no-python-downloads", "--python", python, "--project", str(folder)]
    export = ["export", "--frozen", "--format", "requirements.txt", "--no-header", "--no-emit-project"]
    printed = ""
    for command in ([uv, "lock", *common], [uv, *export, *common]):
        rc, printed, err = run(command, cwd=str(folder), environ_update=environment(root))
        if rc != 0:
            raise SglangError((err or printed).strip(), kind="uv")
    return printed, (folder / "uv.lock").read_text(encoding="utf-8")


def hide_credentials(text: str) -> str:
    """Text without user names and passwords of URLs."""
    return _CREDENTIALS.sub("***@", text)


def explain(text: str, stack: t.Mapping[str, t.Any], name: str) -> SglangError:
    """Turn what uv printed into one error that names the index, the variable and what to write."""
    text = hide_credentials(text)
    indexes = {key: hide_credentials(url) for key, url in (stack.get("indexes") or {}).items()}
    index, url = _index_of(text, indexes)
    variable = f"sglang_indexes.{index}" if index else "sglang_indexes.default"
    place = f"index {index or 'default'} ({url or indexes.get('default', 'the default of this host')})"
    lowered = text.lower()
    gone = _NOT_FOUND.search(text)
    if "no space left" in lowered:
        fix = "free space under sglang_root, then run again"
        return SglangError("the disk is full", where="uv", fix=fix, kind="disk")
    if "hash mismatch" in lowered:
        return SglangError(
            "a downloaded wheel does not have the hash of the lock", where=place, expected=_line(text, "hash mismatch"),
            fix="find out why the index changed; remove the lock beside the inventory only if the change is wanted",
            kind="hash",
        )  # fmt: skip
    if any(word in lowered for word in _UNREACHABLE):
        return SglangError(
            f"the {place} cannot be reached ({_line(text, 'error')})", where=variable,
            fix=f"check the URL in {variable} and the way to it from this host", kind="unreachable",
        )  # fmt: skip
    if "401" in text or "403" in text:
        return SglangError(f"the {place} refuses access", where=variable, fix=f"check {variable}", kind="forbidden")
    if gone or "404" in text:
        package = gone.group(1) if gone else "a package"
        asked = (stack.get("requirements") or {}).get(package) or {}
        index = index or asked.get("index") or "default"
        place = f"index {index} ({indexes.get(index, 'the default of this host')})"
        return SglangError(
            f"the {place} answers 404 for {package}", where=f"sglang_indexes.{index}",
            expected="a PEP 503 index that lists it",
            fix=f"check the URL in sglang_indexes.{index}, or the name in sglang_stacks.{name}.requirements",
            kind="not_found",
        )  # fmt: skip
    if "no solution found" in lowered or "unsatisfiable" in lowered:
        return SglangError(
            f"the stack {name} has no solution: {_reason(text)}", where=f"sglang_stacks.{name}.requirements",
            fix="change the pin that is named, or let it win by naming the package in the stack's overrides",
            kind="conflict",
        )  # fmt: skip
    return SglangError(f"uv failed: {text.strip()[:2000]}", where=f"sglang_stacks.{name}", kind="uv")


def _index_of(text: str, indexes: t.Mapping[str, str]) -> tuple[str | None, str | None]:
    for url in _URL.findall(text):
        best = [(len(base), key, base) for key, base in indexes.items() if url.startswith(base.rstrip("/"))]
        if best:
            return max(best)[1], max(best)[2]
    return None, None


def _line(text: str, word: str) -> str:
    for line in text.splitlines():
        if word in line.lower():
            return line.strip()[:300]
    return ""


def _reason(text: str) -> str:
    start = text.find("Because")
    words = " ".join((text[start:] if start >= 0 else text).split())
    return words.split(" hint:", maxsplit=1)[0][:1200]

"""Hash of source trees, so that what is built from them is built again when they change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def files_below(root: Path) -> list[Path]:
    """Source files below a folder, sorted; byte code and build leftovers are no sources."""
    skip = {"__pycache__", ".git", "build", "dist", "_skbuild"}
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and not skip & set(path.relative_to(root).parts) and path.suffix != ".pyc"
    )


def of_trees(roots: Iterable[Path], *words: str) -> str:
    """First 12 hex digits of a hash over names and bytes of all files below the folders, and the words."""
    digest = hashlib.sha256()
    for root in roots:
        for path in files_below(root):
            digest.update(f"{path.relative_to(root.parent)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for word in words:
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:12]

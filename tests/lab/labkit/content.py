"""What all labs share and is built once into the cache: CUDA, wheel index, kernel repository, checkpoint."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import checkpoint, cuda, index, kernel_repo
from .names import cache_root


@dataclass(frozen=True)
class Content:
    """Folders that a lab's server and guests use."""

    index: Path
    git: Path
    models: Path
    toolkit: cuda.Toolkit

    def as_dict(self) -> dict[str, str]:
        return {"index": str(self.index), "git": str(self.git), "models": str(self.models)}


def build() -> Content:
    """Build what is missing, each part by the hash of its sources; return where it lies."""
    with ThreadPoolExecutor(3) as pool:
        git, models = pool.submit(kernel_repo.build), pool.submit(checkpoint.build)
        toolkit = cuda.toolkit()  # the index's kernel wheel is compiled with it
        return Content(index.build(toolkit.nvcc), git.result(), models.result(), toolkit)


def clean() -> None:
    """Remove the cache: root filesystems, packages, index, checkpoint, keys."""
    shutil.rmtree(cache_root(), ignore_errors=True)

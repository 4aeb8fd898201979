"""The checkpoint that guests see under /models, written by tests/lab/checkpoint."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from . import digest
from .names import cache_root, repository
from .shell import locked, run, say

MODEL = "Qwen3.5-397B-A17B-NVFP4"


def build() -> Path:
    """Return the folder that becomes /models."""
    writer = repository() / "tests/lab/checkpoint"
    models = cache_root() / "models"
    models.mkdir(parents=True, exist_ok=True)
    if not (writer / "write.py").exists():
        return models
    target = models / digest.of_trees([writer])
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/models"):
        if target.is_dir():
            return target
        say("writing the lab's checkpoint (once)")
        tmp = target.with_name(target.name + ".tmp")
        shutil.rmtree(tmp, ignore_errors=True)
        tmp.mkdir()
        run([sys.executable, writer / "write.py", tmp / MODEL], tied=True)
        tmp.rename(target)
    return target

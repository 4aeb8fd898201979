"""A pip to download with."""

from __future__ import annotations

import os
import shutil
import sys

from .names import cache_root, repository
from .shell import LabError, run


def pip() -> list[str]:
    """This interpreter's pip, else one that uv installs into the cache."""
    if run([sys.executable, "-m", "pip", "--version"], check=False).returncode == 0:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    uv = shutil.which("uv") or str(repository() / ".tools/uv/bin/uv")
    if not os.access(uv, os.X_OK):
        raise LabError("neither pip nor uv is here to download build tools with: run `make setup` first")
    venv = cache_root() / "pip"
    if not (venv / "bin/pip").exists():
        run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, venv], tied=True)
    return [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check"]

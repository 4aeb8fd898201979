#!/usr/bin/env python3
"""The real benchmark client of SGLang 0.5.9 in a virtual environment of its own, without torch.

    python3 tests/lab/bench_client.py        # makes it if need be and prints its interpreter

The wheel of 0.5.9 is the last whose client needs no torch. It is installed without dependencies; what the client itself
imports is locked beside this file. The environment lies in the lab's cache and is made once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "tests/lab/bench-client/requirements.txt"
SGLANG = "sglang==0.5.9"


def cache() -> Path:
    """The folder in which the lab keeps what survives a clone."""
    own = os.environ.get("SGLANG_LAB_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(own) if own else base / "blackwell-sglang-lab"


def interpreter() -> Path:
    """Make the environment unless it is there, and return its interpreter.

    Raises:
        RuntimeError: it could not be made; the message holds the installer's last lines.
    """
    digest = hashlib.sha256(LOCK.read_bytes() + SGLANG.encode() + sys.version.encode()).hexdigest()[:12]
    folder = cache() / "bench-client" / digest
    python = folder / "venv/bin/python"
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    uv = ROOT / ".tools/uv/bin/uv"
    steps = (
        [str(uv), "venv", "--quiet", "--python", sys.executable, str(folder / "venv")],
        [str(uv), "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(LOCK)],
        [str(uv), "pip", "install", "--quiet", "--python", str(python), "--no-deps", SGLANG],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(step[1:4])}: {done.stderr.strip()[-800:]}")
    (folder / "complete").touch()
    return python


if __name__ == "__main__":
    print(interpreter())

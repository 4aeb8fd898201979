"""Puts the lab's own code on the path, and runs the GPU stand-in without a lab."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[3] / "lab"
STANDINS = LAB / "standins/lib"
sys.path.append(str(LAB))

# The driver's files and nodes live at fixed places of a host; here they stand below a folder instead.
_RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import gpus, smi
root = Path(sys.argv[2])
gpus.HOLDERS, gpus.STUCK = root / "holders", root / "stuck.json"
gpus.SOCKET = root / "driver/socket"
gpus.PROC_VERSION, gpus.HYPERVISOR_MARK = root / "version", root / "hypervisor"
smi.CONTROL = root / "dev/nvidiactl"
gpus.Gpu.node = property(lambda self: root / f"dev/nvidia{self.index}")
sys.exit(smi.main(sys.argv[3:]))
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with the driver and eight cards, as a folder."""
    (tmp_path / "version").write_text("NVRM version\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "holders").mkdir()
    for name in ("nvidiactl", *(f"nvidia{index}" for index in range(8))):
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.fixture
def smi(host: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the stand-in for nvidia-smi on that host."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", _RUN, str(STANDINS), str(host), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    return run

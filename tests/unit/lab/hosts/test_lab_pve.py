"""The stand-ins for pct's and qm's files: pending changes, snapshots and notes as Proxmox VE keeps them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[3] / "lab/standins/lib"
CONFIG = (
    "# a note\narch: amd64\ndev0: /dev/nvidia0,mode=0666\ndev1: /dev/nvidiactl\nhostname: sglang1\n"
    "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.apparmor.profile: unconfined\n\n[before]\ndev0: /dev/nvidia7\n"
)
# The guest's leader and the making of a node are replaced: there is no guest here.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import pct, pve
folder = Path(sys.argv[2])
old, pve.LXC = pve.LXC, folder
pve.PENDING[folder] = pve.PENDING[old]
pve.leader = lambda vmid: int(sys.argv[3]) or None
pct.hot_add = lambda leader, given: print("hot", given)
pct.main(sys.argv[4:])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of configurations with one guest."""
    (tmp_path / "101.conf").write_text(CONFIG)
    return tmp_path


def pct(folder: Path, running: bool, *words: str) -> str:
    """Output of a pct command."""
    argv = [sys.executable, "-c", RUN, str(LIB), str(folder), "7" if running else "0", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_a_running_container_gets_new_devices_at_once_and_other_changes_later(folder: Path) -> None:
    assert "hot" in pct(folder, True, "set", "101", "--dev2", "/dev/nvidia1,mode=0666")
    assert pct(folder, True, "set", "101", "--dev1", "/dev/nvidiactl,mode=0666", "--delete", "dev0") == ""
    text = (folder / "101.conf").read_text()
    assert "dev0: /dev/nvidia0,mode=0666\ndev1: /dev/nvidiactl\ndev2: /dev/nvidia1,mode=0666\n" in text
    assert "[pve:pending]\ndelete: dev0\ndev1: /dev/nvidiactl,mode=0666\n" in text
    shown = pct(folder, True, "pending", "101").splitlines()
    assert "del dev0: /dev/nvidia0,mode=0666" in shown
    assert shown[shown.index("cur dev1: /dev/nvidiactl") + 1] == "new dev1: /dev/nvidiactl,mode=0666"


def test_a_stopped_container_is_changed_at_once_and_keeps_notes_and_snapshots(folder: Path) -> None:
    pct(folder, False, "set", "101", "--dev1", "/dev/nvidiactl,mode=0666", "--delete", "dev0")
    assert (folder / "101.conf").read_text() == (
        "# a note\narch: amd64\ndev1: /dev/nvidiactl,mode=0666\nhostname: sglang1\n"
        "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.apparmor.profile: unconfined\n\n[before]\ndev0: /dev/nvidia7\n"
    )

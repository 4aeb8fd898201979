"""The lab itself, on this machine: it boots, what it imitates answers, and it leaves no trace. Needs root.

.venv/bin/pytest tests/lab/tests
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAB = "selftest"
CLI = [sys.executable, str(ROOT / "tests/lab/lab.py"), "--lab", LAB]

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root")]


def lab(*words: str, check: bool = True) -> str:
    done = subprocess.run([*CLI, *words], capture_output=True, text=True, check=False, timeout=600)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def status() -> dict[str, object]:
    return dict(json.loads(lab("status", check=False)))


@pytest.fixture(scope="module")
def up() -> Iterator[None]:
    lab("down")
    lab("up", "--hosts", "pve1,sglang1,sglang2", "--prepared")
    yield
    lab("down")


def until(host: str, command: str, seconds: float = 40.0) -> str:
    """Output of a command on a host, tried again while it fails."""
    deadline = time.monotonic() + seconds
    while True:
        done = subprocess.run([*CLI, "ssh", host, command], capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0 or time.monotonic() > deadline:
            return done.stdout
        time.sleep(0.3)


def test_hosts_run_systemd_to_the_end(up: None) -> None:
    for host in ("pve1", "sglang1", "sglang2"):
        assert until(host, "systemctl is-system-running --wait").strip() == "running", host


def test_a_second_up_changes_nothing(up: None) -> None:
    boot = lab("ssh", "sglang1", "systemctl show -P UserspaceTimestampMonotonic")
    assert "up already" in lab("up", "--hosts", "pve1,sglang1,sglang2", "--prepared")
    assert lab("ssh", "sglang1", "systemctl show -P UserspaceTimestampMonotonic") == boot


def test_index_and_git_answer_guests(up: None) -> None:
    server = str(status()["index"])
    fetch = "python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())'"
    assert "cmake/" in lab("ssh", "sglang1", f"{fetch} {server}/simple/")
    assert "refs/tags/v0.4.2.post2" in lab("ssh", "sglang1", f"git ls-remote {server}/git/sgl-kernel.git")
    assert lab(
        "ssh", "sglang1", f"rm -rf /tmp/k; git clone -q --depth 1 {server}/git/sgl-kernel.git /tmp/k && ls /tmp/k"
    )


def test_the_hypervisor_sees_its_guests(up: None) -> None:
    rows = [line.split() for line in lab("ssh", "pve1", "pct list").splitlines()[1:]]
    assert rows == [["101", "running", "sglang1"], ["102", "running", "sglang2"]]
    assert lab("ssh", "pve1", "pct exec 102 -- hostname") == "sglang2\n"
    groups = lab("ssh", "pve1", "cat /proc/[0-9]*/cgroup | sort -u")
    assert "/lxc/101/" in groups and "/lxc/102/" in groups


HOLD = """python3 - <<'PY'
import json, subprocess
p = subprocess.Popen(["sleep", "300"], stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
start = int(open(f"/proc/{p.pid}/stat").read().rpartition(")")[2].split()[19])
entry = {"pid": p.pid, "starttime": start, "name": "sglang::scheduler_TP0", "gpus": {"3": 50000}}
json.dump(entry, open(f"/run/lab-gpus/holders/{p.pid}.json", "w"))
print(p.pid)
PY"""


def test_memory_is_counted_everywhere_and_processes_where_they_run(up: None) -> None:
    inside = lab("ssh", "sglang1", HOLD).strip()
    used = "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 3"
    apps = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits"
    assert [lab("ssh", host, used) for host in ("pve1", "sglang1", "sglang2")] == ["50000\n"] * 3
    assert lab("ssh", "sglang1", apps) == f"{inside}, 50000\n"
    assert lab("ssh", "sglang2", apps) == ""
    outside = lab("ssh", "pve1", apps).split(",")[0]
    assert "/lxc/101/" in lab("ssh", "pve1", f"cat /proc/{outside}/cgroup")
    lab("ssh", "pve1", f"kill {outside}")
    assert until("sglang2", f"{used} | grep -x 0") == "0\n"


def test_a_guest_keeps_its_disk_over_a_reboot(up: None) -> None:
    lab("ssh", "sglang1", "echo kept > /root/kept; cat /proc/sys/kernel/random/boot_id > /dev/null")
    before = lab("ssh", "pve1", "systemctl show -P MainPID pve-container@101")
    lab("ssh", "sglang1", "systemctl reboot", check=False)
    changed = f"test $(systemctl show -P MainPID pve-container@101) != {before.strip()}"
    until("pve1", changed)
    assert until("sglang1", "cat /root/kept") == "kept\n"


def test_a_guest_without_a_node_does_not_see_the_card(up: None) -> None:
    lab("ssh", "pve1", "pct set 102 --delete dev7 && pct reboot 102")
    assert until("sglang2", "systemctl is-active -q lab-nvidia && nvidia-smi -L | wc -l").strip() == "7"
    lab("ssh", "pve1", "pct set 102 --dev7 /dev/nvidia7 && pct reboot 102")
    assert until("sglang2", "systemctl is-active -q lab-nvidia && nvidia-smi -L | wc -l").strip() == "8"


def traces() -> list[str]:
    """Whatever names the lab on this machine."""
    shown = status()
    ident = "sglab" + str(shown["subnet"]).split(".")[2]
    found = []
    for argv in (["ip", "-br", "link"], ["ip", "netns"], ["nft", "list", "tables"]):
        shows = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        found += [line for line in shows.splitlines() if ident in line.replace("@", " ").split()]
    found += [
        line for line in Path("/proc/mounts").read_text().splitlines() if f"/labs/{LAB}/" in line or ident in line
    ]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{ident}")]
    found += [str(path) for path in (Path("/run/blackwell-sglang-lab") / LAB,) if path.exists()]
    return found + list(map(str, shown["leftovers"]))  # type: ignore[call-overload]


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.3, 2.0])
def test_down_removes_an_interrupted_up(seconds: float) -> None:
    lab("down")
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    others = Path("/run/blackwell-sglang-lab/ip_forward.json").exists()
    before = forwarding.read_text()
    with subprocess.Popen([*CLI, "up"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    lab("down")
    assert traces() == []
    if not others:
        assert forwarding.read_text() == before
    lab("down")

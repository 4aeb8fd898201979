"""Holders of GPUs by guest, and their end."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_holders as holders
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

HERE = Host()


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/lxc/129/ns/system.slice/sglang-qwen.service\n", ("lxc", 129)),
        ("0::/lxc.payload.129/system.slice\n", ("lxc", 129)),
        ("12:devices:/lxc/7/ns\n1:name=systemd:/lxc/7/ns/init.scope\n0::/\n", ("lxc", 7)),
        ("0::/lxc.monitor.129\n", ("host", None)),
        ("0::/lxc.monitor/129\n", ("host", None)),
        ("0::/qemu.slice/900.scope\n", ("qemu", 900)),
        ("0::/system.slice/nvidia-persistenced.service\n", ("host", None)),
        ("", ("host", None)),
    ],
)
def test_the_control_group_tells_the_guest(cgroup: str, expected: tuple[str, int | None]) -> None:
    assert holders.guest(cgroup) == expected


def process(
    root: pathlib.Path, pid: int, cgroup: str, nodes: tuple[str, ...] = (), *, pgrp: int = 0, inner: int = 50
) -> None:
    """A process of a saved /proc."""
    place = root / f"proc/{pid}"
    (place / "fd").mkdir(parents=True)
    for number, node in enumerate(nodes):
        (place / f"fd/{number}").symlink_to(node)
    fields = ["S", "1", str(pgrp or pid), *["0"] * 16, str(1000 + pid), "0"]
    (place / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
    (place / "cgroup").write_text(f"0::{cgroup}\n")
    (place / "cmdline").write_bytes(b"sglang::scheduler_TP0\0--secret\0")
    (place / "status").write_text(f"NSpid:\t{pid}\t{inner}\n")


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> Host:
    """Two containers, a VM and the hypervisor's own daemon on the same cards."""
    unit = "/lxc/101/ns/system.slice/sglang-qwen.service"
    process(tmp_path, 11, "/lxc/101/ns/init.scope", ("/dev/nvidia0",), inner=1)
    process(tmp_path, 12, unit, ("/dev/nvidia0", "/dev/nvidiactl"))
    process(tmp_path, 13, "/lxc/101/ns/user.slice/session-4.scope", ("/dev/nvidia1", "/dev/null"), pgrp=14)
    process(tmp_path, 14, "/lxc/101/ns/user.slice/session-4.scope", pgrp=14)
    process(tmp_path, 15, "/lxc/102/ns/x.service", pgrp=14)
    process(tmp_path, 16, "/lxc/102/ns/system.slice/sglang-qwen.service", ("/dev/nvidia0",))
    process(tmp_path, 17, "/system.slice/nvidia-persistenced.service", ("/dev/nvidia0",))
    process(tmp_path, 18, "/lxc/101/ns/system.slice/cron.service", ("/dev/nvidiactl",))
    process(tmp_path, 19, "/lxc/101/ns/system.slice/cron.service", ("/dev/null",))
    return Host(None, str(tmp_path))


def test_holders_are_told_by_guest_and_card(saved: Host) -> None:
    found = {each["pid"]: (each["vmid"], each["minors"]) for each in holders.read(saved)}
    assert found == {
        11: (101, [0]),
        12: (101, [0]),
        13: (101, [1]),
        16: (102, [0]),
        17: (None, [0]),
        18: (101, []),
    }
    assert holders.read(saved, [1])[0]["name"] == "sglang::scheduler_TP0"
    assert [each["pid"] for each in holders.read(saved, [1])] == [13]


def test_only_the_guests_own_are_ended_with_their_groups_and_never_its_init(saved: Host) -> None:
    mine, others = holders.targets(saved, holders.read(saved), 101)
    assert [each["pid"] for each in mine] == [12, 13, 14, 18]
    assert [each["pid"] for each in others] == [11, 16, 17]


def test_a_unit_that_serves_is_spared(saved: Host) -> None:
    mine, others = holders.targets(saved, holders.read(saved), 101, ["sglang-qwen.service"])
    assert [each["pid"] for each in mine] == [13, 14, 18]
    assert [each["pid"] for each in others] == [11, 12, 16, 17]


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
MEEK = "import time; print('x', flush=True); time.sleep(60)"


def start(code: str) -> subprocess.Popen[str]:
    """A real process in a group of its own that is ready."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_term_comes_first_and_kill_for_what_does_not_listen() -> None:
    children = [start(MEEK), start(STUBBORN), start(MEEK)]
    try:
        seen = [holders.describe(HERE, child.pid) for child in children[:2]]
        begun = time.monotonic()
        assert holders.end([each for each in seen if each], 1.0, HERE) == []
        assert time.monotonic() - begun >= 1.0
        assert [child.wait(5) for child in children[:2]] == [-signal.SIGTERM, -signal.SIGKILL]
        assert children[2].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_another_process_with_the_same_number_is_not_hit() -> None:
    child = start(MEEK)
    try:
        seen = holders.describe(HERE, child.pid)
        assert seen is not None
        seen["starttime"] -= 1
        assert holders.end([seen], 0.2, HERE) == []
        assert child.poll() is None
        assert os.getpgid(child.pid) == child.pid
    finally:
        child.kill()
        child.wait()


def held(pid: int, minors: list[int], name: str = "sglang::scheduler_TP0") -> holders.Holder:
    """A holder of which only cards and name matter."""
    found = holders.describe(HERE, os.getpid())
    assert found is not None
    return {**found, "pid": pid, "minors": minors, "name": name}


@pytest.mark.parametrize(
    ("used", "by_pid", "found", "wedged"),
    [
        ({0: 624}, {}, [], [0]),
        ({0: 40}, {}, [], []),
        # A server beside it that holds its own share, with what the driver adds and without.
        ({0: 90624}, {7: {0: 90000}}, [held(7, [0])], [0]),
        ({0: 90300}, {7: {0: 90000}}, [held(7, [0])], []),
        ({0: 90624, 1: 90000}, {7: {0: 45000, 1: 90000}, 8: {0: 45000}}, [held(7, [0, 1]), held(8, [0])], [0]),
        # nvidia-smi tells no memory of a holder: nothing can be said.
        ({0: 90624}, {}, [held(7, [0])], []),
        ({0: 90624}, {7: {0: 0}}, [held(7, [0])], []),
        # A daemon that keeps the card open hides nothing.
        ({0: 624}, {}, [held(9, [0], "nvidia-persistenced")], [0]),
    ],
)
def test_memory_that_nobody_holds_shows_beside_those_that_serve(
    used: dict[int, int], by_pid: dict[int, dict[int, int]], found: list[holders.Holder], wedged: list[int]
) -> None:
    assert holders.wedged(used, by_pid, found) == wedged

"""Which interpreter a release gets, and how much memory a build may count on."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_host

GIB = 2**30


def python(version: str, managed: bool = False) -> dict[str, t.Any]:
    folder = "/opt/sglang/python/x/bin" if managed else "/usr/bin"
    return {"version": version, "path": f"{folder}/python{version}", "managed": managed, "headers": True}


def run(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


HOST = [python("3.9"), python("3.11"), python("3.13"), python("3.14"), python("3.12", managed=True)]


@pytest.mark.parametrize(
    ("wanted", "named", "path"),
    [
        (["3.12", "3.11", "3.13"], "", "/usr/bin/python3.13"),  # the host's newest, whatever the order of the stack
        (["3.12", "3.11"], "", "/usr/bin/python3.11"),  # what the wheels allow; the host's own before a managed one
        (["3.12"], "", "/opt/sglang/python/x/bin/python3.12"),
        (["3.12", "3.13"], "3.11", "/usr/bin/python3.11"),  # the inventory's word is the last one
        (["3.12"], "/usr/bin/python3.9", "/usr/bin/python3.9"),
        (["3.10"], "", None),
        (["3.11"], "3.10", None),
        (["3.11"], "/nowhere/python", None),
    ],
)
def test_the_order_of_interpreters(wanted: list[str], named: str, path: str | None) -> None:
    chosen = _stack_host.choose_interpreter(wanted, HOST, named, run)
    assert (chosen["path"] if chosen else None) == path


def test_3_10_is_newer_than_3_9() -> None:
    chosen = _stack_host.choose_interpreter(["3.9", "3.10"], [python("3.10"), python("3.9")])
    assert chosen is not None
    assert chosen["version"] == "3.10"


def test_a_named_path_is_asked_for_its_version() -> None:
    chosen = _stack_host.choose_interpreter([], [], sys.executable, run)
    assert chosen is not None
    assert chosen["version"] == ".".join(map(str, sys.version_info[:2]))


def tree(folder: pathlib.Path, groups: str, limits: dict[str, str]) -> int:
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "meminfo").write_text(f"MemTotal:       {256 * GIB // 1024} kB\nMemFree: 1 kB\n")
    (folder / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in limits.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return _stack_host.memory_limit(str(folder / "proc"), str(folder / "cgroup"))


@pytest.mark.parametrize(
    ("groups", "limits", "gib"),
    [
        ("0::/s/a.service\n", {"s/memory.max": str(32 * GIB), "s/a.service/memory.max": "max"}, 32),
        ("0::/a/b\n", {"memory.max": str(64 * GIB), "a/memory.max": str(48 * GIB), "a/b/memory.max": str(2**60)}, 48),
        ("0::/../../other\n", {"memory.max": str(16 * GIB)}, 16),
        ("9:cpu,cpuacct:/x\n4:memory:/lxc/101\n", {"memory/lxc/101/memory.limit_in_bytes": str(24 * GIB)}, 24),
        ("4:memory:/lxc/101\n", {"memory/memory.limit_in_bytes": str(24 * GIB)}, 24),  # the container's own view
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, 256),
        ("4:memory:/x\n0::/x\n", {"unified/x/cgroup.procs": "1", "memory/x/memory.limit_in_bytes": str(8 * GIB)}, 8),
        ("0::/a\n", {}, 256),
    ],
)  # fmt: skip
def test_the_smallest_limit_around_us_counts(
    tmp_path: pathlib.Path, groups: str, limits: dict[str, str], gib: int
) -> None:
    assert tree(tmp_path, groups, limits) == gib * GIB


@pytest.mark.parametrize(("cores", "gib", "jobs"), [(32, 256, 32), (32, 40, 8), (4, 256, 4), (16, 3, 1)])
def test_jobs_fit_cores_and_memory(cores: int, gib: int, jobs: int) -> None:
    assert _stack_host.build_jobs(cores, gib * GIB) == jobs

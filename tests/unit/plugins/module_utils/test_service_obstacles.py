"""What stands in the way of a start, and what a stop leaves: real processes, only the rows of nvidia-smi are ours."""

from __future__ import annotations

import getpass
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _procs,
    _service_adopt,
    _service_gpus,
    _service_obstacles,
    _service_stop,
)

ME = getpass.getuser()
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A parent waits for its vfork child inside the kernel, in state D: no signal ends it while the child runs.
VFORK = "import ctypes, os, time\nif ctypes.PyDLL(None).vfork() == 0:\n    time.sleep(8)\n    os._exit(0)"
QWEN = {"name": "qwen", "port": 1, "gpus": "all", "model_path": ""}


class Smi:
    """nvidia-smi that shows given holders of one GPU; every other program is the real one."""

    def __init__(self, *holders: tuple[int, int], used: int | None = None) -> None:
        self.holders = holders
        self.used = sum(mib for _pid, mib in holders) if used is None else used

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] != "nvidia-smi":
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        if words[1].startswith("--query-gpu"):
            return 0, f"0, GPU-0, {self.used}, 97887\n", ""
        return 0, "".join(f"{pid}, GPU-0, {mib}\n" for pid, mib in self.holders), ""


@pytest.fixture(autouse=True)
def no_other_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of a lab on this machine have its device nodes open, in units of the same name."""
    monkeypatch.setattr(_procs, "gpu_users", dict)


@pytest.fixture
def started() -> Iterator[Any]:
    """Start processes that end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(words: list[str], **keys: Any) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen(words, **keys))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def left(run: Smi, user: str = ME) -> dict[str, Any]:
    (entry,) = _service_stop.leftovers(run, "sglang-qwen.service", "all", user, 512)
    return entry


def test_a_process_that_lives_on_is_orphaned_and_described(started: Any) -> None:
    pid = started(SLEEP).pid
    entry = left(Smi((pid, 9000)))
    assert (entry["kind"], entry["mib"]) == ("orphaned", 9000)
    assert f"pid {pid}: state" in entry["words"]
    assert entry["holders"][0]["ppid"] == os.getpid()


def test_a_process_inside_the_kernel_is_wedged(started: Any) -> None:
    process = started([sys.executable, "-c", VFORK])
    deadline = time.monotonic() + 5
    while _procs.describe(process.pid)["state"] != "D" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left(Smi((process.pid, 9000)))["kind"] == "wedged"


def test_a_zombie_is_releasing(started: Any) -> None:
    process = started(["true"])
    deadline = time.monotonic() + 5
    while _procs.describe(process.pid)["state"] != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left(Smi((process.pid, 9000)))["kind"] == "releasing"


def test_somebody_elses_process_is_foreign(started: Any) -> None:
    assert left(Smi((started(SLEEP).pid, 9000)), user="sglang-of-the-test")["kind"] == "foreign"


def test_memory_without_a_visible_holder_is_unseen() -> None:
    assert left(Smi(used=624))["kind"] == "unseen"


def test_memory_that_becomes_less_is_being_released() -> None:
    class Falling(Smi):
        def __call__(self, words: list[str]) -> tuple[int, str, str]:
            if words[0] == "systemctl":
                return 0, "Id=sglang-qwen.service\nLoadState=loaded\nActiveState=inactive\n", ""
            self.used = max(self.used - 50, 600)
            return super().__call__(words)

    result = _service_stop.stop(Falling(used=2000), "sglang-qwen.service", "all", "sglang", wait=1.2)
    assert [each["kind"] for each in result["left"]] == ["releasing"]
    assert not result["free"]


def obstacles(run: Smi, **keys: Any) -> list[dict[str, str]]:
    each = {**QWEN, "user": ME, **keys}
    return _service_obstacles.find(run, each, _procs.listeners(each["port"]), _service_gpus.read(run), set())


def test_what_the_service_user_left_outside_of_any_unit_is_no_obstacle_since_the_stop_ends_it(started: Any) -> None:
    pid = started(SLEEP).pid
    unit = _procs.unit_of(pid)
    run = Smi((pid, 9000))
    assert not unit.startswith("sglang-")
    assert obstacles(run) == []
    assert [each["id"] for each in obstacles(run, user="sglang-of-the-test")] == ["gpu_taken"]
    ended = _service_stop.end_orphans(run, "sglang-qwen.service", "all", ME)
    assert [each["pid"] for each in ended] == [pid]


def test_a_server_started_by_hand_is_named_with_the_entry_that_takes_it_over(started: Any) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    words = [
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/models/X",
        "--tp-size",
        "8",
        f"--port={port}",
        "--trust-remote-code",
    ]
    started([*SLEEP, *words, "--api-key", "s3cr3t"], pass_fds=(server.fileno(),))
    server.close()
    time.sleep(0.3)
    (found,) = obstacles(Smi(), port=port)
    assert found["id"] == "port_taken"
    entry = json.loads(found["fix"].split("sglang_instances: ", 1)[1].split(", then ", 1)[0])
    assert entry["model_path"] == "/models/X"
    assert entry["args"] == {"tp_size": 8, "port": port, "trust_remote_code": True}
    assert "vault" in entry["api_key"]
    assert "s3cr3t" not in json.dumps(found)


def test_a_rank_leads_to_the_server_that_started_it(started: Any) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    server = started([sys.executable, "-c", code, "-m", "sglang.launch_server"], start_new_session=True)
    deadline = time.monotonic() + 5
    children: list[int] = []
    while not children and time.monotonic() < deadline:
        children = [pid for pid in _procs.pids() if _procs.describe(pid)["ppid"] == server.pid]
    assert _service_adopt.server_pid(children[0]) == server.pid
    assert _service_adopt.server_pid(os.getpid()) == 0
    os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("sglang-old.service", "old"),
        ("My_LLM.service", "my-llm"),
        ("session-4.scope", "session-4"),
        ("", "qwen"),
    ],
)
def test_the_name_of_a_unit_becomes_that_of_an_instance(unit: str, name: str) -> None:
    assert _service_adopt.name_of(unit) == name


@pytest.mark.skipif(os.geteuid() != 0, reason="asks the kernel as another user")
def test_a_checkpoint_that_the_service_user_cannot_read_is_found(tmp_path: pathlib.Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    model = tmp_path / "model"
    model.mkdir(mode=0o755)
    (model / "config.json").write_text("{}")
    (model / "config.json").chmod(0o644)
    run = Smi()
    assert _service_obstacles.first_unreadable(run, str(model), "sglang-of-the-test") == ""
    (model / "model-1.safetensors").write_text("x")
    (model / "model-1.safetensors").chmod(0o600)
    assert _service_obstacles.first_unreadable(run, str(model), "nobody").endswith("model-1.safetensors")
    model.chmod(0o700)
    assert _service_obstacles.first_unreadable(run, str(model), "nobody") == str(model)
    assert _service_obstacles.first_unreadable(run, str(tmp_path / "absent"), "nobody") == ""

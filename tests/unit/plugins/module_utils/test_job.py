"""Jobs: the real shell commands on this machine, and what is made of a log."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import time

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _job

ARGV = ["sh", "-c", 'echo "[1/2] Building $WHAT"; sleep 0.6; echo "done, $(pwd)"; exit 3']

needs_setsid = pytest.mark.skipif(
    shutil.which("setsid") is None or pathlib.Path("/run/systemd/system").exists(),
    reason="jobs are units of systemd here; the lab's tests run those",
)


def shell(command: str) -> str:
    """What a target's shell prints."""
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def log(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log file; jobs keep their state beside it."""
    monkeypatch.setattr(_job, "FOLDER", str(tmp_path / "jobs"))
    return str(tmp_path / "build log.txt")


def start(log: str, argv: list[str], folder: pathlib.Path) -> str:
    """Start or attach to the job `work`."""
    environment = {"WHAT": "it's"}
    text = _job.script("work", argv, environment, str(folder), log)
    return shell(_job.start_command("work", log, text, _job.digest(argv, environment, str(folder)))).strip()


def wait(log: str) -> tuple[str, str]:
    """Poll until the job ended."""
    for _rest in range(100):
        status, _newline, tail = shell(_job.poll_command("work", log)).partition("\n")
        if status != "running":
            return status, tail
        time.sleep(0.1)
    raise AssertionError("the job does not end")


@needs_setsid
def test_a_job_runs_apart_and_tells_how_it_ended(tmp_path: pathlib.Path, log: str) -> None:
    assert start(log, ARGV, tmp_path) == "started"
    status, tail = wait(log)
    assert status == "ended 3"
    assert tail == f"[1/2] Building it's\ndone, {tmp_path}\n"


@needs_setsid
def test_a_second_run_attaches_and_another_command_does_not(tmp_path: pathlib.Path, log: str) -> None:
    assert start(log, ARGV, tmp_path) == "started"
    assert start(log, ARGV, tmp_path) == "attached"
    assert start(log, ["true"], tmp_path) == "other"
    assert wait(log)[0] == "ended 3"
    assert start(log, ["true"], tmp_path) == "started"
    assert wait(log)[0] == "ended 0"


@needs_setsid
def test_a_killed_job_is_noticed(tmp_path: pathlib.Path, log: str) -> None:
    start(log, ["sleep", "60"], tmp_path)
    while not (tmp_path / "jobs/work/pid").read_text().strip():
        time.sleep(0.05)
    shell(_job.stop_command("work"))
    assert wait(log)[0] == "vanished"


LOGS = {
    "[1/3] Building a\nFAILED: [code=1] a.o\n/usr/bin/g++ -Werror -c a.cpp\na.cpp:2:10: fatal error: cuda/atomic: No "
    "such file or directory\nninja: build stopped\n": "cuda/atomic",
    "-- The CXX compiler\nCMake Error at CMakeLists.txt:9 (cmake_policy):\n  Policy CMP0177 is not known\n": "CMP0177",
    'Traceback (most recent call last):\n  File "a.py", line 1\n    x\nAttributeError: no x\nerror: failed\n': (
        "AttributeError: no x"
    ),
    "-Werror -Wno-error=foo error_code.h\nerror: Hash mismatch for `torch`\n": "Hash mismatch",
    "a\nnvcc fatal\nKilled\n": "Killed",
    "all went well until now\n": "all went well until now",
    "": "the log is empty",
}


@pytest.mark.parametrize(("text", "expected"), LOGS.items())
def test_the_first_real_error_is_found(tmp_path: pathlib.Path, text: str, expected: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    found = shell(_job.error_command(str(path)))
    assert expected in _job.first_error(found, text)


def test_the_line_with_a_counter_is_shown() -> None:
    tail = "[3/8] Linking CXX\nwarning: something\n"
    assert _job.interesting(tail) == "[3/8] Linking CXX"
    assert _job.interesting("only this\n") == "only this"
    assert _job.interesting("") == ""


def test_environment_and_folder_make_another_job() -> None:
    assert _job.digest(["a"], {}, None) != _job.digest(["a"], {"X": "1"}, None)
    assert _job.digest(["a"], {}, None) != _job.digest(["a"], {}, "/tmp")

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines belong to a start: by a real process for files, by InvocationID for units."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _unit_log
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from kv_logs import log


@pytest.fixture
def process(tmp_path: pathlib.Path) -> t.Iterator[subprocess.Popen[bytes]]:
    """A process that writes to server.log and stays."""
    with (tmp_path / "server.log").open("ab") as handle:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=handle)
    yield child
    child.kill()
    child.wait()


def write(folder: pathlib.Path, *starts: list[str]) -> str:
    path = folder / "server.log"
    path.write_text("\n".join(line for start in starts for line in start) + "\n")
    return str(path)


def test_a_log_that_names_the_running_process_is_its_own(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    read = _unit_log.read_file(write(tmp_path, log(["bfloat16"], pid=process.pid)), process.pid)
    assert (read.belongs, read.active_state, read.complete) == ("yes", "active", True)


def test_a_process_that_writes_to_the_file_owns_its_only_start(
    process: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    nameless = [line for line in log(["bfloat16"]) if "Started server" not in line]
    assert _unit_log.read_file(write(tmp_path, nameless), process.pid).belongs == "yes"
    # Of two starts the newest may be one that died before this process wrote a line.
    assert _unit_log.read_file(write(tmp_path, nameless, nameless), process.pid).belongs == "unknown"


def test_the_newest_start_of_a_file_is_read(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, log(["float8_e4m3fn"], pid=1), log(["bfloat16"], pid=process.pid))
    read = _unit_log.read_file(path, process.pid)
    assert read.belongs == "yes" and not any("float8" in line for line in read.lines)
    older = write(tmp_path, log(["bfloat16"], pid=process.pid), log(["float8_e4m3fn"], pid=1))
    assert _unit_log.read_file(older, process.pid).belongs == "no"


def test_a_process_that_is_gone_owns_nothing(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, log(["bfloat16"], pid=process.pid))
    process.kill()
    process.wait()
    read = _unit_log.read_file(path, process.pid)
    assert (read.belongs, read.active_state) == ("unknown", "inactive")


def test_a_file_older_than_the_process_is_not_its_log(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    """Process ids come again, in containers nearly always: an old log may name the number of a new process."""
    path = write(tmp_path, log(["bfloat16"], pid=process.pid))
    past = time.time() - 3600
    os.utime(path, (past, past))
    assert _unit_log.read_file(path, process.pid).belongs == "unknown"


def test_without_a_process_nothing_is_tied(tmp_path: pathlib.Path) -> None:
    assert _unit_log.read_file(write(tmp_path, log(["bfloat16"]))).belongs == "unknown"


def test_files_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match=r"none\.log"):
        _unit_log.read_file(str(tmp_path / "none.log"), 1)


# --- units --------------------------------------------------------------------------------------------------------

INVOCATION = "0123456789abcdef0123456789abcdef"
STATE = (
    f"InvocationID={INVOCATION}\nLoadState=loaded\nActiveState=active\nSubState=running\nMainPID=0\n"
    "ControlGroup=\nNRestarts=2\nInactiveExitTimestamp=@1764438000\n"
)
STARTED = {"MESSAGE": "Started sglang", "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf", "_PID": "1"}


class Systemd:
    """systemctl and journalctl as far as their output goes; systemd 252 takes --lines=+N for the newest N."""

    def __init__(self, entries: list[dict[str, t.Any]], state: str = STATE, old: bool = False) -> None:
        self.entries, self.state, self.old = entries, state, old
        self.calls: list[list[str]] = []

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        self.calls.append(words)
        if words[0] == "systemctl":
            return (1, "", "unknown") if self.old and "--timestamp=unix" in words else (0, self.state, "")
        if words[1] == "--version":
            return 0, "systemd 252 (252.39-1~deb12u2)\n" if self.old else "systemd 255 (255.4-1ubuntu8)\n", ""
        shown = self.entries
        for word in words:
            if word.startswith("--lines="):
                count = int(word.partition("=")[2])
                oldest = "+" in word and not self.old
                shown = shown[:count] if oldest else shown[-count:]
        return 0, "\n".join(map(json.dumps, shown)), ""


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def entries(lines: list[str]) -> list[dict[str, t.Any]]:
    return [STARTED, *({"MESSAGE": line, "_PID": "100", "_STREAM_ID": "s"} for line in lines)]


@pytest.mark.parametrize("old", [False, True])
def test_a_units_lines_are_those_of_its_invocation(old: bool) -> None:
    run = Systemd(entries(log(["bfloat16"])), old=old)
    read = _unit_log.read_unit(run, "sglang-qwen.service")
    assert (read.invocation_id, read.active_state, read.complete, read.belongs) == (INVOCATION, "active", True, "yes")
    assert read.lines == log(["bfloat16"]) and read.restarts == 2
    assert all(
        f"_SYSTEMD_INVOCATION_ID={INVOCATION}" in call
        for call in run.calls
        if call[0] == "journalctl" and "--version" not in call
    )


@pytest.mark.parametrize("old", [False, True])
def test_the_oldest_lines_are_read_and_the_newest_on_request(old: bool) -> None:
    busy = [*log(["bfloat16"]), *(f"INFO: request {i}" for i in range(500))]
    read = _unit_log.read_unit(Systemd(entries(busy), old=old), "u.service", tail=2, head=50)
    assert read.complete and read.lines[:4] == busy[:4] and len(read.lines) == 49
    assert read.tail == busy[-2:]


def test_a_rotated_journal_and_dropped_messages_are_not_complete() -> None:
    rotated = _unit_log.read_unit(Systemd(entries(log(["bfloat16"]))[3:]), "u.service")
    assert not rotated.complete and "rotated" in rotated.notes[0]
    dropped = [*entries(log(["bfloat16"])), {"MESSAGE": "Suppressed 9 messages", "N_DROPPED": "9", "_PID": "50"}]
    assert not _unit_log.read_unit(Systemd(dropped), "u.service").complete


def test_long_lines_and_bytes_are_put_together() -> None:
    parts = [
        STARTED,
        {"MESSAGE": "[a] server_args=", "_PID": "100", "_STREAM_ID": "s", "_LINE_BREAK": "line-max"},
        {"MESSAGE": "ServerArgs(x)", "_PID": "100", "_STREAM_ID": "s"},
        {"MESSAGE": [27, 91, 51, 51, 109, 120], "_PID": "100", "_STREAM_ID": "s"},
        {"MESSAGE": None, "_PID": "100", "_STREAM_ID": "s"},
    ]
    assert _unit_log.read_unit(Systemd(parts), "u.service").lines == ["[a] server_args=ServerArgs(x)", "\x1b[33mx", ""]


def test_a_unit_that_never_started_or_is_not_known() -> None:
    never = _unit_log.read_unit(Systemd([], STATE.replace(INVOCATION, "")), "u.service")
    assert never.belongs == "no" and not never.lines
    with pytest.raises(SglangError, match=r"u\.service: systemd does not know the unit"):
        _unit_log.read_unit(Systemd([], "LoadState=not-found\n"), "u.service")

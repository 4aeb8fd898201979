"""What the screen shows while a server starts: the action plugin over the real gate, on a clock of the test's own.

Only two things are stood in for: the transfer of the module to a host, and time. The words come from run_gate, which
reads a journal that grows line by line as that of a starting server does.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import sys
import types
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.loader import connection_loader
from ansible.template import Templar
from ansible_collections.blackwell.sglang.plugins.action import sglang_gate
from ansible_collections.blackwell.sglang.plugins.module_utils import _gate_run, _service, _unit_log

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "lab" / "engine"))

from lab_engine_kit import free_port

UNIT = "sglang-qwen.service"
INVOCATION = "0123456789abcdef0123456789abcdef"
SHARDS = "Multi-thread loading shards: {percent:3d}% Completed | {done}/4 [00:{second:02d}<00:10,  1.2it/s]"
# (second, line) of a start, in the words of the captured servers.
START = [
    (2, "[2026-11-29 17:56:43] server_args=ServerArgs(model_path='/models/x', tp_size=8)"),
    (11, "[2026-11-29 17:56:52 TP0] Load weight begin. avail mem=93.40 GB"),
    *(
        (second, SHARDS.format(percent=25 * done, done=done, second=second))
        for done, second in ((1, 16), (2, 28), (3, 29))
    ),
    (40, "[2026-11-29 17:57:21 TP0] KV Cache is allocated. #tokens: 1251491, K size: 17.90 GB, V size: 17.90 GB"),
]


class Started:
    """A host on which a server starts: systemd's answers, and the journal as it is at the clock's time."""

    def __init__(self, lines: list[tuple[float, str]], folder: pathlib.Path) -> None:
        self.lines = lines
        self.folder = folder
        self.now = 0.0
        self.active = "active"
        self.calls: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.port = free_port()

    def run(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] == "systemctl":
            state = {"Id": UNIT, "LoadState": "loaded", "ActiveState": self.active, "SubState": "running"}
            state |= {"Result": "exit-code", "InvocationID": INVOCATION, "MainPID": "7", "ExecMainStatus": "1"}
            return 0, "".join(f"{key}={value}\n" for key, value in state.items()), ""
        if words[0] == "journalctl":
            lines = [line for second, line in self.lines if second <= self.now]
            wanted = (
                ["\n".join(lines)] if "--output=cat" in words else [json.dumps({"MESSAGE": line}) for line in lines]
            )
            return 0, "\n".join(wanted), ""
        return 127, "", ""

    def module(self, module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        """What the module does with these arguments; each call takes as long as its slice."""
        self.calls.append(module_args)
        places = _service.Places(
            "qwen", **{f"{name}root": str(self.folder) for name in ("", "state_", "config_", "unit_")}
        )
        context = _gate_run.context_of(self.run, module_args["instance"], places, None)
        result = _gate_run.run_gate(
            context,
            quick="slice" not in module_args,
            invocation_id=module_args.get("invocation_id", ""),
            waited=module_args.get("waited", 0.0),
            slice_seconds=module_args.get("slice", 0.0) / 1000,
        )
        self.now += module_args.get("slice", 0.0)
        return {"changed": False, **result}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Started:
    host = Started(START, tmp_path)
    monkeypatch.setattr(sglang_gate, "time", types.SimpleNamespace(monotonic=lambda: host.now))
    monkeypatch.setattr(sglang_gate.display, "display", lambda text, *_args, **_more: host.shown.append(text))
    monkeypatch.setattr(_unit_log.shutil, "which", lambda name: f"/usr/bin/{name}")
    return host


def gate(host: Started, monkeypatch: pytest.MonkeyPatch, check_mode: bool = False, **args: Any) -> dict[str, Any]:
    instance = {
        "name": "qwen",
        "model_path": "/models/x",
        "listen": {"host": "127.0.0.1", "port": host.port},
        "gate": {"ready_timeout": 150},
        "env": {"HF_TOKEN": "t0ken"},
    }
    task = Task()
    task.args = {"instance": instance, **args}
    task._check_mode = check_mode
    loader = DataLoader()
    plugin = sglang_gate.ActionModule(
        task, connection_loader.get("local", PlayContext()), PlayContext(), loader, Templar(loader), None
    )
    monkeypatch.setattr(plugin, "_execute_module", host.module)
    return plugin.run(task_vars={"inventory_hostname": "llm1"})


def said(host: Started) -> list[tuple[int, str]]:
    """Seconds and words of each line that was shown, without the limit."""
    found = [
        re.fullmatch(r"    llm1 qwen after (\d+) s: port closed; (.*) \(limit 150 s: .*\)", line) for line in host.shown
    ]
    assert all(found), host.shown
    return [(int(match[1]), match[2]) for match in found if match]


def test_each_change_is_shown_once_and_what_stands_still_once_a_minute(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = gate(started, monkeypatch)
    assert said(started) == [
        (5, "starting Python and importing the engine"),
        (10, "arguments accepted"),
        (20, "loading weights (93.40 GB free before)"),
        (25, "loading shard 1 of 4"),
        (35, "loading shard 3 of 4"),  # shard 2 came and went between two looks
        (45, "KV cache allocated, 1251491 tokens"),
        (105, "KV cache allocated, 1251491 tokens"),
    ]
    assert not result["passed"]
    assert not result["waiting"]
    assert "not ready after 150 s" in result["checks"][0]["seen"]
    assert result["ready_seconds"] == 155


def test_the_wait_is_of_one_start_and_tells_the_module_how_long_it_took(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate(started, monkeypatch)
    first, *others = started.calls
    assert first.get("invocation_id", "") == ""
    assert {call["invocation_id"] for call in others} == {INVOCATION}
    assert [call["waited"] for call in started.calls] == [5.0 * number for number in range(len(started.calls))]


def test_no_environment_reaches_the_host_whose_journal_keeps_the_arguments_of_modules(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate(started, monkeypatch)
    assert started.calls
    assert [call for call in started.calls if "t0ken" in str(call)] == []


def test_a_unit_that_fails_ends_the_wait_at_once_with_its_diagnosis(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = started.module

    def dies(module_args: dict[str, Any], **more: Any) -> dict[str, Any]:
        if started.now >= 20:
            started.active = "failed"
            started.lines.append((20, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."))
        return slices(module_args, **more)

    monkeypatch.setattr(started, "module", dies)
    result = gate(started, monkeypatch)
    assert len(started.calls) == 5
    assert result["checks"][0]["id"] == "ready.started"
    assert result["diagnosis"]["id"] not in ("nothing", "unknown")


@pytest.mark.parametrize("how", [{"check_mode": True}, {"quick": True}, {"quick": "true"}])
def test_a_look_and_check_mode_ask_once_wait_for_nothing_and_show_nothing(
    how: dict[str, Any], started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = gate(started, monkeypatch, **how)
    (call,) = started.calls
    assert "slice" not in call
    assert started.shown == []
    assert "not ready yet" in result["checks"][0]["seen"]


def test_a_quick_that_is_no_waits(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    gate(started, monkeypatch, quick="no")
    assert len(started.calls) > 1


def test_a_module_that_cannot_ask_is_not_asked_again(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        started.calls.append(module_args)
        return {"failed": True, "msg": "unknown gate setting promt"}

    monkeypatch.setattr(started, "module", refuses)
    assert gate(started, monkeypatch)["msg"] == "unknown gate setting promt"
    assert len(started.calls) == 1


def test_a_captured_start_is_told_as_it_went(
    started: Started, monkeypatch: pytest.MonkeyPatch, shared: pathlib.Path
) -> None:
    text = (shared / "captures" / "kv_auto_fp8_checkpoint_0.5.16" / "server.log").read_text(encoding="utf-8")
    started.lines, begun, second = [], None, 0.0
    for line in text.replace("\r", "\n").splitlines():
        stamp = re.match(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", line)
        if stamp:
            moment = datetime.datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S")
            begun = begun or moment
            second = (moment - begun).total_seconds()
        started.lines.append((second, line))
    gate(started, monkeypatch)
    words = [each for _second, each in said(started)]
    assert list(dict.fromkeys(words)) == [
        "starting Python and importing the engine",
        "arguments accepted",
        "ranks connected",
        "loading weights (139.09 GB free before)",
        "capturing CUDA graph 0 of 58",
        "capturing CUDA graph 58 of 58",
    ]

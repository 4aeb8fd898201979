"""One look at a host: what runs is asked, what should run and does not is diagnosed, and nothing is written."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import gate_kit
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate_run,
    _service,
    _service_failure,
    _service_plan,
    _service_status,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from gate_kit import ROOT, UNIT, Host, Serve, failed


def look(host: Host, model: pathlib.Path, wanted: str = "started", **gate: Any) -> dict[str, Any]:
    """What the module does, over one instance."""
    run = _service_status.at_once(host.run)
    roots = {name: getattr(host.places, name) for name in ("state_root", "config_root", "unit_root")}
    instances = [
        {
            "name": "qwen",
            "state": wanted,
            "port": host.engine.port,
            "gpus": "all",
            "files": [],
            "user": "sglang",
            "groups": [],
        }
    ]
    state = _service_plan.probe(run, instances, host.places.root, [], roots)
    resolved = [{**gate_kit.instance(host.engine, model, gate), "state": wanted}]
    return {**state, **_service_status.ask(run, state, resolved, host.places.root, roots)}


def test_what_runs_is_asked_and_nothing_is_written(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    host.engine.wait()
    seen = look(host, model)
    gate = seen["gates"]["qwen"]
    assert gate["passed"], gate["checks"]
    assert (gate["error"], gate["proof"]["kv"]["effective_dtype"]) == ("", "bfloat16")
    assert seen["diagnoses"] == {}
    assert not host.places.proof.exists(), "a look proves nothing for others"


def test_one_look_asks_each_command_once() -> None:
    asked: list[list[str]] = []

    def run(words: list[str]) -> tuple[int, str, str]:
        asked.append(words)
        return len(asked), "", ""

    look_once = _service_status.at_once(run)
    assert [look_once(["a"]), look_once(["a", "b"]), look_once(["a"])] == [(1, "", ""), (2, "", ""), (1, "", "")]
    assert asked == [["a"], ["a", "b"]]


def test_a_running_server_that_is_wrong_is_shown_with_its_diagnosis(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="ignore_kv_flag")
    host.engine.wait()
    gate = look(host, model)["gates"]["qwen"]
    assert failed(gate) == ["ordered.kv"]
    assert gate["diagnosis"]["id"] == "gate_kv"


def test_what_should_run_and_does_not_is_diagnosed(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="no_memory")
    host.engine.process.wait(30)
    seen = look(host, model)
    assert seen["gates"] == {}
    assert seen["diagnoses"]["qwen"]["id"] not in ("nothing", "unknown")
    assert look(host, model, wanted="stopped")["diagnoses"] == {}, "nobody wants it to run"


def test_one_that_cannot_be_asked_is_said_and_spoils_nothing(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    gate = look(host, model, no_such_setting=1)["gates"]["qwen"]
    assert (gate["passed"], gate["checks"]) == (False, [])
    assert "no_such_setting" in gate["error"]


def test_an_instance_that_only_one_of_the_lists_holds_is_named() -> None:
    with pytest.raises(SglangError, match=r"kimi is not among instances.*name kimi in instances too"):
        _service_status.ask(lambda words: (0, "", ""), {"instances": {}}, [{"name": "kimi"}], "/opt/sglang", {})


FAILED_START = "f" * 32
# What journald holds of a start that ended by itself, newest first: systemd's own messages of the captured kind.
ENDED = [
    {
        "INVOCATION_ID": FAILED_START,
        "UNIT_RESULT": "exit-code",
        "__REALTIME_TIMESTAMP": "1796018602000000",
    },
    {"INVOCATION_ID": FAILED_START, "EXIT_STATUS": "1", "__REALTIME_TIMESTAMP": "1796018601000000"},
]
FIRST_LINES = [
    "[2026-11-30 05:20:01 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "sglang/srt/managers/scheduler.py", line 4051, in run_scheduler_process',
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
]


def restarted(host: Host, times: int, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The host as it is after systemd restarted the unit so many times; the journal's commands that are asked."""
    well, asked = host.run, []

    def run(words: list[str]) -> tuple[int, str, str]:
        if words[0] == "journalctl":
            asked.append(words)
        if words[0] == "journalctl" and f"UNIT={UNIT}" in words:
            return 0, "\n".join(map(json.dumps, ENDED)), ""
        if words[0] == "journalctl" and f"_SYSTEMD_INVOCATION_ID={FAILED_START}" in words:
            return 0, "\n".join(FIRST_LINES), ""
        status, out, err = well(words)
        return status, out.replace("NRestarts=0", f"NRestarts={times}"), err

    monkeypatch.setattr(host, "run", run)
    return asked


def test_a_unit_that_systemd_restarted_shows_why_its_start_before_failed(
    serve: Serve, model: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = serve()
    host.engine.wait()
    restarted(host, 2, monkeypatch)
    seen = look(host, model)
    assert seen["gates"]["qwen"]["passed"]
    error = seen["last_errors"]["qwen"]
    assert (error["restarts"], error["at"]) == (2, "2026-11-30T06:03:22Z")
    assert error["diagnosis"]["id"] == "illegal_memory_access"
    assert error["diagnosis"]["invocation_id"] == FAILED_START


def test_a_unit_that_was_not_restarted_costs_no_look_into_the_journal(
    serve: Serve, model: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = serve()
    host.engine.wait()
    asked = restarted(host, 0, monkeypatch)
    assert look(host, model)["last_errors"] == {}
    assert not [words for words in asked if f"UNIT={UNIT}" in words]


def test_the_start_that_is_looked_at_is_not_told_as_an_earlier_one(
    serve: Serve, model: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = serve()
    host.engine.wait()
    host.invocation = FAILED_START
    restarted(host, 1, monkeypatch)
    assert look(host, model)["last_errors"] == {}


@pytest.mark.parametrize(
    "out",
    ["", "no json", "[]", json.dumps({"INVOCATION_ID": FAILED_START, "EXIT_STATUS": "1"})],
    ids=["empty", "text", "another shape", "no failure"],
)
def test_a_journal_that_tells_no_failure(out: str) -> None:
    assert _service_failure.last_failure(lambda words: (0, out, ""), UNIT) is None


def test_how_it_ended_goes_into_the_diagnosis() -> None:
    entries = "\n".join(map(json.dumps, ENDED))
    found = _service_failure.last_failure(lambda words: (0, entries, ""), UNIT)
    assert found == {
        "invocation_id": FAILED_START,
        "at": "2026-11-30T06:03:22Z",
        "result": "exit-code",
        "exit_status": 1,
    }


def test_a_deployment_that_a_boot_cut_off_is_shown_until_a_run_has_proved_something(
    serve: Serve, model: pathlib.Path
) -> None:
    host = serve()
    host.engine.wait()
    cut = {"release": "r2", "at": "2026-11-29T18:00:00Z", "recovered": "2026-11-29T18:07:31Z"}
    assert look(host, model)["interrupted"] == {}
    _service.write_json(host.places.interrupted, {**cut, "boot_id": "b"})
    assert look(host, model)["interrupted"] == {"qwen": cut}
    proof = {"invocation_id": gate_kit.INVOCATION, "passed": True, "release": "r1"}
    for by, at, shown in (
        ("run", "2026-11-29T17:00:00Z", True),
        ("verifier", "2026-11-29T19:00:00Z", True),
        ("run", "2026-11-29T19:00:00Z", False),
    ):
        _service.write_json(host.places.proof, {**proof, "by": by, "at": at})
        assert bool(look(host, model)["interrupted"]) == shown, (by, at)


def holder(pid: int, name: str, mib: int | None, user: str = "sglang", unit: str = UNIT) -> dict[str, Any]:
    return {"index": 0, "pid": pid, "name": name, "mib": mib, "user": user, "unit": unit}


@pytest.mark.parametrize(
    ("holders", "words"),
    [
        ([], ""),
        (
            [holder(11, "sglang::scheduler_TP0", 90112)],
            "sglang::scheduler_TP0 pid 11 (sglang, sglang-qwen.service)",
        ),
        (
            [holder(11, "sglang::scheduler_TP0", 90112), holder(7, "train.py", 3000, "eve", "")],
            "sglang::scheduler_TP0 pid 11 (sglang, sglang-qwen.service, 90112 MiB),"
            " train.py pid 7 (eve, no unit, 3000 MiB)",
        ),
        (
            [holder(pid, f"sglang::scheduler_TP{pid}", 10) for pid in range(1, 8)],
            "sglang::scheduler_TP* pids 1, 2, 3, 4 and 3 more (sglang, sglang-qwen.service)",
        ),
        ([holder(1, "gone", None, "", "")], "gone pid 1 (unknown user, no unit)"),
    ],
    ids=["nobody", "one", "a stranger", "many", "gone"],
)
def test_who_uses_a_gpu_is_one_line(holders: list[dict[str, Any]], words: str) -> None:
    cards = [{"index": index, "uuid": f"GPU-{index}", "used_mib": 1, "total_mib": 2} for index in range(2)]
    assert _service_status.users({"gpus": cards, "holders": holders}) == {"0": words, "1": ""}


def test_a_look_at_what_runs_well_does_not_load_the_catalogue_of_failures() -> None:
    """Modules are compiled anew by every call on a host: what is not needed costs."""
    program = (
        "import sys\n"
        "from ansible_collections.blackwell.sglang.plugins.module_utils import _service_plan, _service_status\n"
        "print([name for name in sys.modules if '_diagnose' in name or 'signature' in name])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".collections")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_proved_and_recorded_needs_no_other_gate(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    host.engine.wait()
    release = host.places.release("r1")
    release.mkdir(parents=True)
    (release / "release.json").write_text(json.dumps({"state": "verified"}), encoding="utf-8")
    _service.switch(host.places, "r1")
    assert not look(host, model)["gates"]["qwen"]["recorded"], "no proof yet"
    instance = {**gate_kit.instance(host.engine, model, {}), "state": "started"}
    context = _gate_run.context_of(host.run, instance, host.places, None)
    assert _gate_run.run_gate(context, good=True)["passed"]
    assert look(host, model)["gates"]["qwen"]["recorded"]
    assert not look(host, model, request_timeout=21)["gates"]["qwen"]["recorded"], "something else is asked for"
    _service.begin_pending(host.places, "r", "2026-11-29T18:00:00Z")
    assert not look(host, model)["gates"]["qwen"]["recorded"], "a deployment is to be ended"


def test_only_what_nothing_is_to_be_done_to_is_asked(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    host.engine.wait()
    state: dict[str, Any] = {"instances": {"qwen": {"action": "deploy", "unit": {"active": "active", "restarts": 0}}}}
    resolved = [{**gate_kit.instance(host.engine, model, {}), "state": "started"}]
    roots = {name: getattr(host.places, name) for name in ("state_root", "config_root", "unit_root")}
    seen = _service_status.ask(host.run, state, resolved, host.places.root, roots, unchanged=True)
    assert (seen["gates"], seen["diagnoses"]) == ({}, {})

"""One look at a host: what runs is asked, what should run and does not is diagnosed, and nothing is written."""

from __future__ import annotations

import pathlib
from typing import Any

import gate_kit
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _service_plan, _service_status
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from gate_kit import Host, Serve, failed


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

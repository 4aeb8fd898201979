"""Which limit a start has: by what was proved before and by what its JIT caches hold."""

from __future__ import annotations

import os
import pathlib
import time
from typing import Any

import gate_kit
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gate, _gate_limit, _http, _service
from gate_kit import Serve, failed


def make(places: _service.Places, proved: bool = True) -> None:
    """Release r1, linked, and proved for the instance or not."""
    (places.release("r1")).mkdir(parents=True)
    (places.release("r1") / "release.json").write_text('{"state": "verified"}', encoding="utf-8")
    _service.switch(places, "r1")
    if proved:
        _service.record_good(places, {"at": "t"}, {"name": "qwen"})


def compiled(places: _service.Places, age: float, release: str = "r1") -> None:
    """A kernel that a start left in the caches so many seconds ago."""
    kernel = places.cache(release) / "triton" / "abc" / "kernel.cubin"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_bytes(b"cubin")
    os.utime(kernel, (time.time() - age, time.time() - age))


@pytest.fixture
def places(tmp_path: pathlib.Path) -> _service.Places:
    roots = {name: str(tmp_path / name) for name in ("root", "state_root", "config_root", "unit_root", "cache_root")}
    return _service.Places("qwen", **roots)


def limit(places: _service.Places, gate: dict[str, Any] | None = None, age: float = 60.0) -> _gate_limit.Limit:
    """The limit of a start that began so many seconds ago, as systemd says it."""
    begun = int((time.clock_gettime(time.CLOCK_MONOTONIC) - age) * 1e6)

    def run(words: list[str]) -> tuple[int, str, str]:
        return 0, f"Id={places.unit}\nActiveState=active\nInactiveExitTimestampMonotonic={begun}\n", ""

    instance = {"name": "qwen", "model_path": "/models/m", "gate": gate or {}}
    client = _http.Client("http://127.0.0.1:9")
    return _gate_limit.of(_gate.Context(run, places, instance, _gate.settings_of(instance), client))


def test_a_release_that_was_never_proved_here_is_cold_whatever_lies_in_its_caches(places: _service.Places) -> None:
    make(places, proved=False)
    compiled(places, 3600)  # of a first start that was cut off
    found = limit(places)
    assert (found.seconds, found.setting) == (1800, "gate.ready_timeout")
    assert "cold start, release r1 was not proved with these arguments yet" in found.reason


def test_other_arguments_are_cold_since_they_use_other_kernels(places: _service.Places) -> None:
    make(places)
    compiled(places, 3600)
    _service.write_text(places.unit_file, "[Service]\nExecStart=/x --attention-backend flashinfer\n", 0o644)
    assert limit(places).seconds == 1800


def test_empty_caches_are_cold_and_what_this_start_itself_compiles_does_not_warm_them(places: _service.Places) -> None:
    make(places)
    compiled(places, 3600, release="r0")  # the caches of another release
    assert limit(places).seconds == 1800
    compiled(places, 5)
    found = limit(places)
    assert (found.seconds, found.setting) == (1800, "gate.ready_timeout")
    assert "the JIT caches of r1 hold nothing from before it" in found.reason


def test_caches_of_an_earlier_start_are_warm(places: _service.Places) -> None:
    make(places)
    compiled(places, 3600)
    found = limit(places)
    assert (found.seconds, found.setting) == (900, "gate.ready_timeout_warm")
    assert found.words == "limit 900 s: warm start, the JIT caches of r1 are there"


# (settings, seconds of a warm start, the setting that gives them)
WARM = [
    ({"ready_timeout": 12}, 12, "gate.ready_timeout"),
    ({"ready_timeout": 900}, 900, "gate.ready_timeout"),
    ({"ready_timeout": 3600}, 1800, "gate.ready_timeout_warm"),
    ({"ready_timeout_warm": 300}, 300, "gate.ready_timeout_warm"),
    ({"ready_timeout": 100, "ready_timeout_warm": 300}, 100, "gate.ready_timeout"),
    (_gate_limit.given(2400), 2400, "gate.ready_timeout"),
]


@pytest.mark.parametrize(("gate", "seconds", "setting"), WARM)
def test_what_is_set_wins(places: _service.Places, gate: dict[str, Any], seconds: float, setting: str) -> None:
    make(places)
    compiled(places, 3600)
    found = limit(places, gate)
    assert (found.seconds, found.setting) == (seconds, setting)


def test_a_reached_limit_names_the_setting_to_raise(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="hang_loading")
    host.engine.wait_for("Load weight begin")
    make(host.places)
    compiled(host.places, 3600)
    result = host.gate(model, ready_timeout_warm=1)
    check = result["checks"][0]
    assert failed(result) == ["ready.started"]
    assert "not ready after 1 s" in check["seen"]
    assert any("the limit is gate.ready_timeout_warm, warm start" in words for words in check["evidence"])
    assert result["diagnosis"]["id"] == "gate_not_ready"
    assert "Raise gate.ready_timeout_warm" in result["diagnosis"]["fix"]
    assert "the limit is" not in result["diagnosis"]["what"]


def test_the_wait_says_its_limit_and_a_look_says_that_it_did_not_wait(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="hang_loading")
    host.engine.wait_for("Load weight begin")
    context = gate_kit._gate_run.context_of(host.run, gate_kit.instance(host.engine, model, {}), host.places, None)
    waiting = gate_kit._gate_run.run_gate(context, slice_seconds=0.1)
    assert waiting["waiting"]
    assert waiting["words"].endswith("(limit 30 s: cold start, release none was not proved with these arguments yet)")
    look = host.gate(model, quick=True)
    assert "not ready yet: port closed" in look["checks"][0]["seen"]
    assert look["diagnosis"]["id"] == "gate_starting"

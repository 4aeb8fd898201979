"""The gate against a real server: the stand-in engine, well and in each of the ways in which it can be ill."""

from __future__ import annotations

import http.server
import json
import pathlib
import re
import threading
from typing import Any

import gate_kit
import jsonschema
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gate, _gate_right, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from gate_kit import ROOT, Serve, failed

SCHEMA = json.loads((ROOT / "docs" / "contracts" / "gate.schema.json").read_text(encoding="utf-8"))


def test_a_well_server_passes_and_its_result_keeps_the_contract(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    result = host.gate(model)
    assert result["passed"], result["checks"]
    jsonschema.validate(result, SCHEMA)
    asked = [check["id"] for check in result["checks"]]
    assert [name.split(".")[0] for name in asked] == sorted(
        (name.split(".")[0] for name in asked), key=["ready", "right", "ordered", "roomy"].index
    )
    assert result["proof"]["kv"]["effective_dtype"] == "bfloat16"
    capacity = result["proof"]["capacity"]
    assert abs(capacity["tokens"] / capacity["computed_tokens"] - 1) < 0.02
    on_disk = json.loads(host.places.proof.read_text(encoding="utf-8"))
    jsonschema.validate(on_disk, {**SCHEMA["$defs"]["proof"], "$defs": SCHEMA["$defs"]})


def test_the_cheap_part_uses_the_receipt_of_this_start_only(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    engine = host.engine
    assert host.gate(model)["passed"]
    engine.log.write_text("", encoding="utf-8")  # the journal has rotated
    assert host.gate(model, quick=True)["passed"]
    host.invocation = "f" * 32  # another start: the receipt is not its
    assert failed(host.gate(model, quick=True)) == ["ordered.kv"]


# (fault of the stand-in, checks that must fail, diagnosis)
ILL = [
    ("nan", {"right.logprobs", "right.text", "right.same", "right.long", "right.burst"}, "gate_nan"),
    ("nan_burst", {"right.burst"}, None),
    ("garbage", {"right.text"}, "gate_garbage"),
    ("nan_happened", {"right.text"}, None),
    ("bad_cache", {"right.same"}, None),
    ("ignore_kv_flag", {"ordered.kv"}, "gate_kv"),
]


@pytest.mark.parametrize(("fault", "checks", "diagnosis"), ILL, ids=[row[0] for row in ILL])
def test_a_server_that_answers_200_and_is_wrong_fails(
    fault: str,
    checks: set[str],
    diagnosis: str | None,
    serve: Serve,
    model: pathlib.Path,
) -> None:
    host = serve(fault=fault)
    result = host.gate(model, concurrency=32)
    assert checks <= set(failed(result)), result["checks"]
    health = next(check for check in result["checks"] if check["id"] == "ready.health")
    assert health["passed"], "the point of these faults is that /health does not see them"
    if diagnosis:
        assert result["diagnosis"]["id"] == diagnosis
    jsonschema.validate(result, SCHEMA)


def check_of(result: dict[str, Any], name: str) -> dict[str, Any]:
    return next(check for check in result["checks"] if check["id"] == name)


# Faults that show only from the sizes of the field reports on; the gate has no settings here.
SIZED = [
    ({"fault": "nan_burst", "requests": 64}, "right.burst", "64 requests: races between kernels show from 64"),
    ({"fault": "nan_long", "tokens": 40000}, "right.long", "faults show from 40000 tokens on"),
]


@pytest.mark.parametrize(("fault", "check", "reason"), SIZED, ids=[row[1] for row in SIZED])
def test_without_settings_the_gate_reaches_the_sizes_at_which_faults_show(
    fault: dict[str, Any], check: str, reason: str, serve: Serve, model: pathlib.Path
) -> None:
    result = serve(**fault).gate(model)
    assert failed(result) == [check], result["checks"]
    assert reason in check_of(result, check)["evidence"][-1]


def test_the_second_answer_comes_from_the_prefix_cache_of_a_hybrid_model(serve: Serve, model: pathlib.Path) -> None:
    seen = check_of(serve().gate(model), "right.same")
    words = next(each for each in seen["evidence"] if each.startswith("cached tokens: "))
    first, second, whole = (int(each) for each in re.findall(r"\d+", words))
    assert first == 0
    assert whole - 16 < second < whole, "all but the end"


def test_without_a_prefix_cache_the_gate_says_that_nothing_came_from_it(serve: Serve, model: pathlib.Path) -> None:
    without = check_of(serve("--disable-radix-cache").gate(model), "right.same")
    assert without["passed"]
    assert "nothing came from the prefix cache, so this says nothing about it" in without["evidence"]


def test_a_server_of_short_requests_is_asked_with_a_prompt_that_fits(serve: Serve, model: pathlib.Path) -> None:
    result = serve("--context-length", "6000", "--max-running-requests", "20").gate(model)
    assert result["passed"], result["checks"]
    long, burst = check_of(result, "right.long"), check_of(result, "right.burst")
    assert 5000 < int(long["seen"].split()[0]) < 6000
    assert "a request holds 5994 tokens" in long["evidence"][-1]
    assert burst["seen"] == "20 of 20"
    assert "the server runs 20 at once" in burst["evidence"][-1]


def test_the_cheap_part_sends_neither_burst_nor_long_prompt(serve: Serve, model: pathlib.Path) -> None:
    host = serve(faults=[{"fault": "nan_burst", "requests": 2}, {"fault": "nan_long", "tokens": 100}])
    host.engine.wait()
    assert host.gate(model, quick=True)["passed"]


def test_a_second_gate_of_the_same_start_computes_the_long_prompt_anew(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    for _time in range(2):
        assert host.gate(model)["passed"]
    computed = [int(words.split(",")[0]) for words in host.engine.text().split("#new-token: ")[1:]]
    assert sum(tokens > 40_000 for tokens in computed) == 2


@pytest.mark.parametrize("fault", ["crash_loading", "no_memory"])
def test_a_server_that_dies_fails_at_once_with_a_diagnosis(fault: str, serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault=fault)
    result = host.gate(model, ready_timeout=600)
    assert not result["passed"]
    assert [check["id"] for check in result["checks"]] == ["ready.started"]
    assert result["checks"][0]["seconds"] < 60
    assert result["diagnosis"]["id"] not in ("nothing", "unknown"), result["diagnosis"]


def test_a_server_that_hangs_fails_after_its_time_with_what_it_did_last(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="hang_loading")
    engine = host.engine
    engine.wait_for("Load weight begin")
    result = host.gate(model, ready_timeout=2)
    assert failed(result) == ["ready.started"]
    assert "not ready after 2 s" in result["checks"][0]["seen"]
    assert "loading" in result["checks"][0]["seen"]
    assert result["diagnosis"]["id"] == "gate_not_ready"


@pytest.mark.parametrize("ended", [False, True], ids=["ours loads", "ours ended of it"])
def test_another_server_on_the_port_is_named_and_never_asked(serve: Serve, model: pathlib.Path, ended: bool) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        asked: list[str] = []

        def do_GET(self) -> None:
            self.asked.append(self.path)
            self.send_response(200)
            self.end_headers()

    other = http.server.HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        host = serve(port=other.server_port, time_scale=0.5)
        if ended:
            host.engine.process.kill()
            host.engine.process.wait()
        result = host.gate(model)
    finally:
        other.shutdown()
    assert failed(result) == ["ready.started"]
    assert f"port {other.server_port} is answered by" in result["checks"][0]["seen"]
    assert Other.asked == []


def test_what_runs_otherwise_than_written_is_named(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    wrong = {"engine_version": "0.5.9", "need": {"context": 200000, "concurrent": 64}}
    result = host.gate(model, instance={**wrong, "args": {"attention_backend": "flashinfer"}})
    assert {"ordered.version", "ordered.arguments", "roomy.need"} <= set(failed(result))
    arguments = next(check for check in result["checks"] if check["id"] == "ordered.arguments")
    assert "attention_backend: 'flashinfer' was written, 'triton' runs" in arguments["evidence"]


def test_a_forgotten_server_shows_in_the_memory_at_the_begin(serve: Serve, model: pathlib.Path) -> None:
    cards = {"count": 8, "used_mib": {"3": 20000}}
    host = serve(cards=cards)
    result = host.gate(model)
    assert "roomy.free" in failed(result), result["checks"]
    assert result["diagnosis"]["id"] == "gate_crowded"


def test_the_key_is_used_and_kept_nowhere(serve: Serve, model: pathlib.Path) -> None:
    host = serve("--api-key", "sk-very-secret")
    engine = host.engine
    context = gate_kit._gate_run.context_of(
        host.run, gate_kit.instance(engine, model, {}), host.places, "sk-very-secret"
    )
    result = gate_kit._gate_run.run_gate(context)
    assert result["passed"], result["checks"]
    assert "sk-very-secret" not in json.dumps(result)
    assert "sk-very-secret" not in host.places.proof.read_text(encoding="utf-8")


def test_a_check_can_be_skipped_by_name_and_a_setting_must_be_known(serve: Serve, model: pathlib.Path) -> None:
    host = serve(fault="bad_cache")
    result = host.gate(model, skip=["right.same"])
    skipped = next(check for check in result["checks"] if check["id"] == "right.same")
    assert skipped["passed"] is None
    assert "right.same" not in failed(result)
    with pytest.raises(SglangError, match="unknown gate setting promt"):
        host.gate(model, promt="x")


def test_only_a_passed_full_gate_makes_good(serve: Serve, model: pathlib.Path) -> None:
    host = serve()
    engine = host.engine
    _service.write_text(host.places.unit_file, "[Unit]\n", 0o644)
    _service.begin_pending(host.places, "r1", "2026-11-29T18:00:00Z")
    context = gate_kit._gate_run.context_of(host.run, gate_kit.instance(engine, model, {}), host.places, None)
    assert gate_kit._gate_run.run_gate(context, quick=False, good=False)["passed"]
    assert host.places.pending.exists()
    release = pathlib.Path(host.places.root) / "releases" / "r1"
    release.mkdir(parents=True)
    (release / "release.json").write_text(json.dumps({"state": "verified"}), encoding="utf-8")
    _service.switch(host.places, "r1")
    assert gate_kit._gate_run.run_gate(context, quick=True, good=True)["passed"]
    assert not _service.good_entries(host.places)
    assert gate_kit._gate_run.run_gate(context, quick=False, good=True)["passed"]
    entry = _service.good_entries(host.places)[0]
    assert (entry["release"], entry["unit_text"], entry["instance"]["name"]) == ("r1", "[Unit]\n", "qwen")
    assert "env" not in entry["instance"]
    assert not host.places.pending.exists()


@pytest.mark.parametrize(
    ("text", "ids", "faults"),
    [
        ("Paris.", [5, 6], 0),
        ("The capital of France is Paris. The capital of Italy is Rome.", list(range(16)), 0),
        ("++++++++++++++++++++", [9] * 20, 2),
        ("\n\n</\n\n</\n\n</\n\n</", [1, 2, 3] * 4, 1),
        ("good \ufffd text", [1, 2, 3], 1),
        ("", [], 1),
        ("aaaaaaaaaaaaaaaaaaaab", [], 1),
    ],
)
def test_faults_of_a_text(text: str, ids: list[int], faults: int) -> None:
    assert len(_gate_right.text_faults(text, ids, 0.9)) == faults


def test_a_near_tie_agrees_and_another_difference_does_not() -> None:
    def answer(ids: list[int], logprobs: list[float | None]) -> dict[str, object]:
        return {"ids": ids, "logprobs": logprobs}

    assert _gate_right.agree(answer([1, 2], [-0.1, -0.7]), answer([1, 3], [-0.1, -0.71]))[0]
    assert not _gate_right.agree(answer([1, 2], [-0.1, -0.1]), answer([1, 3], [-0.1, -4.0]))[0]
    assert not _gate_right.agree(answer([1, 2], [-0.1, None]), answer([1, 3], [-0.1, -0.1]))[0]
    assert not _gate_right.agree(answer([1], [-0.1]), answer([1, 3], [-0.1, -0.1]))[0]


def test_a_wildcard_address_is_asked_on_loopback() -> None:
    def url(host: str) -> str:
        return _gate.client_of({"listen": {"host": host, "port": 30000}}, None, 1.0).base_url

    assert url("0.0.0.0") == "http://127.0.0.1:30000"
    assert url("::") == "http://[::1]:30000"
    assert url("192.0.2.7") == "http://192.0.2.7:30000"

"""The ways in which the stand-in engine misbehaves when told to."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lab_engine_kit import LAB_FLAGS, Engine, Start, write

FRANCE = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 8}, "return_logprob": True}


def test_nan_answers_200_everywhere(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="nan").wait()
    assert engine.ask("/health_generate")[0] == 200
    reply = engine.json("/generate", FRANCE)
    assert reply["text"] == "!" * 8
    assert {row[0] for row in reply["meta_info"]["output_token_logprobs"]} == {None}


def burst(engine: Engine, count: int = 8) -> list[tuple[int, str]]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _rest: engine.ask("/generate", FRANCE), range(count)))


def test_nan_only_in_a_burst(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="nan_burst").wait()
    assert engine.json("/generate", FRANCE)["text"] == " Paris."
    assert any('"text":"!!' in text for _rest, text in burst(engine))


def test_nan_only_for_long_prompts(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="nan_long", tokens=1000).wait()
    assert engine.json("/generate", FRANCE)["text"] == " Paris."
    long = {**FRANCE, "text": "Rivers flow. " * 400 + FRANCE["text"]}  # type: ignore[operator]
    assert engine.json("/generate", long)["text"].startswith("!!!")


@pytest.mark.parametrize(("kind", "mark"), [("repetition", "+"), ("unicode", "\ufffd")])
def test_garbage(models: Path, start: Start, kind: str, mark: str) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="garbage", kind=kind).wait()
    reply = engine.json("/generate", FRANCE)
    assert reply["text"] == mark * 8
    assert all(row[0] < 0 for row in reply["meta_info"]["output_token_logprobs"])


def test_nan_happened_is_a_stop(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="nan_happened").wait()
    reply = engine.json("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8})
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["choices"][0]["matched_stop"] == "NaN happened"


def test_bad_cache_answers_differently_the_second_time(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="bad_cache").wait()
    texts = [engine.json("/generate", FRANCE)["text"]]
    # Its model is a hybrid, which resumes only where an earlier prompt ended.
    engine.json("/generate", {**FRANCE, "text": "The capital of"})
    texts += [engine.json("/generate", FRANCE)["text"] for _rest in range(2)]
    assert texts[0] == " Paris."
    assert texts[1] == texts[2] != texts[0]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "crash_loading",
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
        ),
        ("no_memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ],
)
def test_scheduler_fails_while_loading(models: Path, start: Start, fault: str, words: str) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault=fault)
    assert engine.end() == -signal.SIGKILL
    assert "TP0] Scheduler hit an exception: Traceback (most recent call last):\n" in engine.text()
    assert f"\n{words}\n" in engine.text()
    assert engine.text().rstrip().endswith("Received sigquit from a child process. It usually means the child failed.")
    assert engine.held() == {}


def test_crash_loop_ends_each_start_with_a_traceback(models: Path, start: Start) -> None:
    for _rest in range(2):
        engine = start(models / "nvfp4", *LAB_FLAGS, fault="crash_loop")
        assert engine.end() == 1
        assert "undefined symbol: _ZN3c104cuda29c10_cuda_check_implementation" in engine.text()


def test_only_the_first_starts(models: Path, start: Start, tmp_path: Path) -> None:
    faults = [{"fault": "crash_loop", "times": 1, "counter": str(tmp_path / "count")}]
    assert start(models / "nvfp4", *LAB_FLAGS, faults=faults).end() == 1
    start(models / "nvfp4", *LAB_FLAGS, faults=faults).wait()


@pytest.mark.parametrize(
    ("only", "hit"),
    [({"args": {"tp_size": 8}}, True), ({"args": {"tp_size": 4}}, False), ({"prefix": "/no/such/release"}, False)],
)
def test_only_some_servers(models: Path, start: Start, only: dict[str, Any], hit: bool) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, faults=[{"fault": "nan", "only": only}]).wait()
    assert (engine.json("/generate", FRANCE)["text"] == "!" * 8) == hit


def test_hang_while_loading(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="hang_loading")
    engine.wait_for("TP7] Load weight begin")
    time.sleep(0.5)
    assert engine.process.poll() is None
    assert engine.ask("/health")[0] == 0
    assert "Load weight end" not in engine.text()
    assert len(engine.held()) == 8


def test_hang_after_ready(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="hang_after_ready")
    engine.wait_for("ready to roll")
    assert engine.ask("/health")[0] == 503
    assert "Health check failed. Server couldn't get a response from detokenizer" in engine.text()
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(f"http://127.0.0.1:{engine.port}/generate", json.dumps(FRANCE).encode(), timeout=0.5)


def test_slow(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="slow", factor=2, token_seconds=0.1).wait()
    began = time.monotonic()
    engine.json("/generate", FRANCE)
    assert time.monotonic() - began > 0.2


def test_illegal_memory_access_under_load(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="illegal_memory_access").wait()
    assert engine.json("/generate", FRANCE)["text"] == " Paris."
    burst(engine)
    assert engine.end() == -signal.SIGKILL
    assert "torch.AcceleratorError: CUDA error: an illegal memory access was encountered" in engine.text()
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in engine.text()


def test_crash_later(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="crash_later", seconds=0.5).wait()
    assert engine.end() == -signal.SIGKILL
    assert "Scheduler hit an exception" in engine.text()


def test_port_in_use_by_another_server(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="port_in_use")
    engine.wait_for("server_args=")
    assert engine.wait().seen == [200] or engine.seen == [0, 200]
    assert engine.end() == 1
    assert "address already in use" in engine.text()
    assert "The server is fired up and ready to roll!" in engine.text()
    assert engine.ask("/health")[0] == 0


def test_deaf_to_term(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="ignore_sigterm").wait()
    os.killpg(engine.process.pid, signal.SIGTERM)
    engine.wait_for("SIGTERM received.")
    time.sleep(0.5)
    assert engine.process.poll() is None
    assert len(engine.held()) == 8


def test_orphan_keeps_its_memory(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="orphan").wait()
    engine.process.send_signal(signal.SIGTERM)
    engine.end()
    assert list(engine.held()) == ["sglang::scheduler_TP0"]
    orphan = int(next(engine.holders.glob("*.json")).stem)
    parent = int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{orphan}/status").read_text())[0])
    assert parent != engine.process.pid
    os.kill(orphan, signal.SIGTERM)
    time.sleep(0.2)
    assert list(engine.held()) == ["sglang::scheduler_TP0"]
    os.kill(orphan, signal.SIGKILL)
    time.sleep(0.2)
    assert engine.held() == {}


def test_one_rank_says_float8(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="wrong_kv_log", rank=5).wait()
    dtypes = re.findall(r"(TP\d)\] Using KV cache dtype: torch\.(\w+)", engine.text())
    assert dtypes == [("TP0", "bfloat16"), ("TP5", "float8_e4m3fn")]
    sizes = [float(size) for size in re.findall(r"K size: ([\d.]+) GB", engine.text())]
    assert sizes[5] == pytest.approx(sizes[0] / 2, abs=0.01)


def test_flag_without_effect(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="ignore_kv_flag").wait()
    state = engine.json("/server_info")["internal_states"][0]
    assert state["kv_cache_dtype"] == "bf16"
    memory = state["memory_usage"]
    assert memory["kvcache"] * 2**30 / memory["token_capacity"] == pytest.approx(7680, rel=0.002)
    assert "Using KV cache dtype: torch.float8_e4m3fn" in engine.text()


@pytest.mark.parametrize(
    ("damage", "status", "words"),
    [
        ("truncated-shard", -9, "safetensors_rust.SafetensorError: Error while deserializing header: "),
        ("lying-header", -9, "safetensors_rust.SafetensorError: Error while deserializing header: header too large"),
        ("missing-shard", -9, "FileNotFoundError: No such file or directory: "),
        ("no-config", 1, "does not appear to have a file named config.json"),
        ("broken-config", 1, "json.decoder.JSONDecodeError: "),
    ],
)
def test_damaged_checkpoints(damage: str, status: int, words: str, tmp_path: Path, start: Start) -> None:
    write.write(tmp_path / "model", shards=2, experts=1, damaged=damage)
    engine = start(tmp_path / "model", *LAB_FLAGS)
    assert engine.end() == status
    assert words in engine.text()

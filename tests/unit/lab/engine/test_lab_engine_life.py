"""The stand-in engine's life as a process: start, port, log, memory, stop."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from lab_engine_kit import LAB_FLAGS, Engine, Start


def test_port_is_closed_then_503_then_200(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, time_scale=0.02).wait()
    assert engine.seen == [0, 503, 200]


def test_log_tells_the_story_in_order(qwen: Engine) -> None:
    story = [
        "server_args=ServerArgs(model_path=",
        "TP7] Init torch distributed begin.",
        "TP0] Load weight begin. avail mem=93.47 GB",
        "TP7] Detected nvfp4 checkpoint.",
        "Loading safetensors checkpoint shards: 100% Completed | 3/3",
        "TP7] Load weight end.",
        "TP0] Using KV cache dtype: torch.bfloat16",
        "TP0] Mamba Cache is allocated. max_mamba_cache_size: ",
        "TP7] KV Cache is allocated. #tokens: ",
        "TP7] Memory pool end.",
        "TP0] Capture cuda graph begin.",
        "TP0] Capture cuda graph end.",
        "TP0] max_total_num_tokens=",
        "INFO:     Started server process",
        "INFO:     Uvicorn running on http://127.0.0.1:",
        '"GET /model_info HTTP/1.1" 200 OK',
        '"POST /v1/chat/completions HTTP/1.1" 200 OK',
        "The server is fired up and ready to roll!",
    ]
    text, place = qwen.text(), 0
    for sentence in story:
        assert sentence in text[place:], f"{sentence!r} is missing or too early"
        place = text.index(sentence, place)


def test_dtype_is_logged_by_the_first_rank_and_sizes_by_all(qwen: Engine) -> None:
    assert len(re.findall("Using KV cache dtype", qwen.text())) == 1
    sizes = re.findall(
        r"TP(\d)\] KV Cache is allocated\. #tokens: (\d+), K size: ([\d.]+) GB, V size: ([\d.]+) GB", qwen.text()
    )
    assert [row[0] for row in sizes] == list("01234567")
    assert len({row[1:] for row in sizes}) == 1
    tokens, k_size = int(sizes[0][1]), float(sizes[0][2])
    assert 2 * k_size * 2**30 / tokens == pytest.approx(15_360, rel=0.001)


def test_processes_have_the_real_names_and_hold_memory(qwen: Engine) -> None:
    held = qwen.held()
    assert sorted(held) == [f"sglang::scheduler_TP{rank}" for rank in range(8)]
    assert [list(held[name]) for name in sorted(held)] == [[str(index)] for index in range(8)]
    free = float(re.findall(r"available_gpu_mem=([\d.]+) GB", qwen.text())[0])
    assert held["sglang::scheduler_TP3"]["3"] == pytest.approx((97887 - 615) - free * 1024, abs=20)
    children = Path(f"/proc/{qwen.process.pid}/task/{qwen.process.pid}/children").read_text().split()
    titles = [Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0") for pid in children]
    assert titles == [*(f"sglang::scheduler_TP{rank}" for rank in range(8)), "sglang::detokenizer"]
    assert Path(f"/proc/{children[0]}/comm").read_text().strip() == "sglang::schedul"


def test_others_memory_makes_room_scarce(models: Path, start: Start) -> None:
    first = start(models / "nvfp4", *LAB_FLAGS).wait()
    alone = first.json("/server_info")
    first.stop()
    busy: dict[str, Any] = {"count": 8, "used_mib": {str(index): 20000 for index in range(8)}}
    beside = start(models / "nvfp4", *LAB_FLAGS, cards=busy)
    beside.wait()
    assert beside.json("/server_info")["max_total_num_tokens"] < alone["max_total_num_tokens"] / 1.4
    assert "avail mem=73.94 GB" in beside.text()


def test_holders_of_another_server_count(models: Path, start: Start) -> None:
    first = start(models / "nvfp4", *LAB_FLAGS).wait()
    second = start(models / "nvfp4", *LAB_FLAGS)
    assert second.end() == -signal.SIGKILL
    assert "CUDA out of memory" in second.text()
    assert len(first.held()) == 8


def test_cuda_visible_devices_chooses_the_cards(models: Path, start: Start) -> None:
    flags = [*LAB_FLAGS, "--tp-size", "4"]
    engine = start(models / "nvfp4", *flags, env={"CUDA_VISIBLE_DEVICES": "4,5,6,7"}).wait()
    assert sorted(index for gpus in engine.held().values() for index in gpus) == ["4", "5", "6", "7"]


def test_too_few_cards(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, cards={"count": 4})
    assert engine.end() == -signal.SIGKILL
    assert "CUDA error: invalid device ordinal" in engine.text()


def test_term_ends_by_kill_and_frees_everything(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS).wait()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.end() == -signal.SIGKILL
    assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in engine.text()
    assert engine.held() == {}
    assert list(engine.holders.iterdir()) == []


def test_killed_main_process_takes_its_children_along(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS).wait()
    assert len(engine.held()) == 8
    engine.process.kill()
    engine.end()
    deadline = time.monotonic() + 5
    while engine.held() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine.held() == {}


def test_dead_scheduler_ends_the_server(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS).wait()
    child = next(path for path in engine.holders.glob("*.json") if "TP3" in path.read_text())
    os.kill(int(child.stem), signal.SIGKILL)
    assert engine.end() == -signal.SIGKILL
    assert re.search(
        r"Subprocess scheduler_3 \(pid=\d+\) crashed with exit code -9\. Triggering SIGQUIT", engine.text()
    )


def test_term_while_loading_is_deadly_at_once(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, fault="hang_loading")
    engine.wait_for("TP7] Load weight begin")
    engine.process.send_signal(signal.SIGTERM)
    assert engine.end() == -signal.SIGTERM


def test_taken_port_is_noticed_late(models: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.01)
        engine = start(models / "nvfp4", *LAB_FLAGS, port=other.getsockname()[1])
        engine.wait_for("error while attempting to bind on address ('127.0.0.1',")
    assert "max_total_num_tokens=" in engine.text()
    assert "Uvicorn running" not in engine.text()
    assert "INFO:     Waiting for application shutdown." in engine.text()


def test_api_key_guards_all_but_health_and_stands_in_the_log(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, "--api-key", "opensesame").wait()
    assert "api_key='opensesame'" in engine.text()
    assert engine.json("/server_info")["api_key"] == "opensesame"
    engine.api_key = None
    for path in ("/server_info", "/get_server_info", "/model_info", "/v1/models", "/flush_cache"):
        assert engine.ask(path) == (401, '{"error":"Unauthorized"}')
    assert engine.ask("/generate", {"text": "x"}, key="wrong") == (401, '{"error":"Unauthorized"}')
    assert engine.ask("/health")[0] == engine.ask("/health_generate")[0] == 200
    assert engine.ask("/metrics") == (404, '{"detail":"Not Found"}')


@pytest.mark.parametrize(
    ("model", "flag", "resolved"),
    [
        ("nvfp4", "auto", ("fp8_e4m3", 7680)),
        ("nvfp4", "bf16", ("bf16", 15360)),
        ("nvfp4", "bfloat16", ("bfloat16", 15360)),
        ("nvfp4", "fp8_e4m3", ("fp8_e4m3", 7680)),
        ("nokv", "auto", ("auto", 15360)),
    ],
)
def test_kv_dtype_follows_flag_and_checkpoint(
    models: Path, start: Start, model: str, flag: str, resolved: tuple[str, int]
) -> None:
    dtype, per_token = resolved
    flags = ["--load-format", "dummy", "--tp-size", "2", "--attention-backend", "triton", "--cuda-graph-max-bs", "8"]
    engine = start(models / model, *flags, "--kv-cache-dtype", flag, cards={"memory_mib": 200000}).wait()
    info = engine.json("/server_info")
    state = info["internal_states"][0]
    assert info["kv_cache_dtype"] == flag
    assert state["kv_cache_dtype"] == dtype
    memory = state["memory_usage"]
    assert memory["kvcache"] * 2**30 / memory["token_capacity"] == pytest.approx(per_token, rel=0.002)
    name = "torch.bfloat16" if per_token == 15360 else "torch.float8_e4m3fn"
    assert f"TP0] Using KV cache dtype: {name}\n" in engine.text()
    assert ("no scaling factors provided" in engine.text()) == (flag == "fp8_e4m3")


def test_settings_file_and_environment_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang._standin import faults

    path = tmp_path / "standin.json"
    path.write_text(json.dumps({"time_scale": 0.5, "fault": "nan"}))
    monkeypatch.setenv("SGLANG_STANDIN", '{"time_scale": 0.25}')
    settings = faults.read(str(path))
    assert settings.time_scale == 0.25
    settings.resolve(None)
    assert settings.get("nan")
    path.write_text('{"fault": "nann"}')
    with pytest.raises(SystemExit, match="unknown fault 'nann'"):
        faults.read(str(path))

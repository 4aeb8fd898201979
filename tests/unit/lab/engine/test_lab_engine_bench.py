"""The stand-in's benchmark client: real requests, the captured result line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from lab_engine_kit import LAB, Engine


def bench(engine: Engine, output: Path, *flags: str, key: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sglang.bench_serving", "--base-url", f"http://127.0.0.1:{engine.port}"]
    command += ["--dataset-name", "random-ids", "--random-range-ratio", "1.0", "--output-file", str(output), *flags]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(LAB / "engine"), "OPENAI_API_KEY": key}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


LOAD = ("--num-prompts", "12", "--random-input-len", "20", "--random-output-len", "6", "--max-concurrency", "4")


def test_counts_are_exact(qwen: Engine, tmp_path: Path) -> None:
    done = bench(qwen, tmp_path / "out.jsonl", *LOAD, "--flush-cache", "--tokenize-prompt")
    assert done.returncode == 0, done.stderr
    assert "Serving Benchmark Result" in done.stdout
    result = json.loads((tmp_path / "out.jsonl").read_text())
    assert (result["completed"], result["total_input_tokens"], result["total_output_tokens"]) == (12, 240, 72)
    assert 0 < result["mean_ttft_ms"] <= result["mean_e2e_latency_ms"]
    assert 1 <= result["max_concurrent_requests"] <= 4
    assert result["server_info"]["version"] == "0.5.12.post1"


def test_same_keys_as_captured(qwen: Engine, tmp_path: Path, shared: Path) -> None:
    assert bench(qwen, tmp_path / "out.jsonl", *LOAD).returncode == 0
    captured = json.loads((shared / "captures" / "bench_serving" / "c4.json").read_text())
    assert list(json.loads((tmp_path / "out.jsonl").read_text())) == list(captured)


def test_a_server_that_is_not_there(tmp_path: Path, qwen: Engine) -> None:
    nobody = Engine(qwen.process, 1, qwen.log, qwen.holders)
    done = bench(nobody, tmp_path / "out.jsonl", *LOAD)
    assert done.returncode == 1
    assert "Warmup failed" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()

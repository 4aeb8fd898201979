"""The matrix against engines whose faults are known: each is found and named, none passes, a correct one is chosen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from matrix_kit import LAB, ROOT, Host, Systemd, free_port, wait_closed

sys.path.append(str(LAB))

import bench_client
from ansible_collections.blackwell.sglang.plugins.filter.systemd_words import word
from ansible_collections.blackwell.sglang.plugins.module_utils import _matrix_plan, _procs
from ansible_collections.blackwell.sglang.plugins.module_utils._matrix_plan import Combination
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _matrix_run

# Which arguments meet which fault. The combination without one and the last are the correct ones.
FAULTS: dict[str, dict[str, Any]] = {
    "cutlass": {},
    "flashinfer_cutlass": {"fault": "nan"},
    "triton": {"fault": "garbage", "lengths": [3072]},
    "flashinfer_cutedsl": {"fault": "garbage", "requests": 64},
    "triton_kernel": {"fault": "garbage", "kind": "words", "lengths": [3072]},
    "deep_gemm": {"fault": "slow", "token_seconds": 0.05},
    "flashinfer_trtllm": {"fault": "crash_loading"},
    "flashinfer_mxfp4": {"fault": "hang_loading"},
    "auto": {"fault": "illegal_memory_access", "requests": 32},
}
OPTIONS: dict[str, Any] = {
    "root": "/opt/sglang",
    "env": {},
    "ready_timeout": 30.0,
    "request_timeout": 20.0,
    "lengths": [2, 96, 2048, 3072],
    "concurrent": 64,
    "long_tokens": 5000,
    "measure_levels": [4],
    "measure_input_len": 32,
    "measure_output_len": 32,
    "measure_dataset": "random",
    "measure_timeout": 120.0,
}


@pytest.fixture(scope="module")
def client() -> Path:
    try:
        return bench_client.interpreter()
    except (RuntimeError, OSError) as error:
        pytest.skip(f"the benchmark client of sglang 0.5.9 cannot be installed here: {error}")


@pytest.fixture(scope="module")
def matrix(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One run over every fault."""
    folder = tmp_path_factory.mktemp("matrix")
    model = folder / "model"
    command = [sys.executable, str(ROOT / "tests/lab/checkpoint/write.py"), str(model)]
    subprocess.run(command, check=True, capture_output=True)
    faults = [
        {**fault, "only": {"args": {"moe_runner_backend": backend}}} for backend, fault in FAULTS.items() if fault
    ]
    systemd = Systemd(folder, {"time_scale": 0.002, "faults": faults})
    host = Host(folder, systemd, client)
    port = free_port()
    original = _procs.listeners
    _procs.listeners = host.listeners
    entries = []
    ids: list[int] | None = None
    try:
        for backend in FAULTS:
            args = {"moe_runner_backend": backend}
            own: dict[str, Any] = {
                "tp_size": 8,
                "quantization": "modelopt_fp4",
                "kv_cache_dtype": "bf16",
                "attention_backend": "triton",
            }
            instance = {
                "name": "qwen",
                "model_path": str(model),
                "listen": {"host": "127.0.0.1", "port": port},
                "served_model_name": "qwen",
                "args": {**own, **args},
                "gate": {"long_prompt_words": 500, "max_tokens": 16},
                "engine_version": "0.5.12.post1",
                "tp_size": 8,
                "kv_cache_dtype": "bf16",
                "gpus": "all",
            }
            words = ["--model-path", str(model), "--port", str(port), "--served-model-name", "qwen"]
            for key, value in instance["args"].items():
                words += ["--" + key.replace("_", "-"), str(value)]
            trial = _matrix_run.Trial(
                host.call, host.screen.append, instance, [word(each) for each in words], {**OPTIONS}, ids
            )
            if backend == "flashinfer_mxfp4":
                trial.options["ready_timeout"] = 3.0
            entries.append(trial.run(Combination(_matrix_plan.name_of(args), args)))
            ids = trial.token_ids or ids
            assert wait_closed(port), "the trial was stopped and its port is still open"
        reference, why = _matrix_run.settle(entries)
        best = _matrix_plan.rank(entries)
        yield {"entries": entries, "best": best, "reference": reference, "why": why, "starts": systemd.starts}
    finally:
        systemd.stop()
        _procs.listeners = original


def entry(matrix: dict[str, Any], backend: str) -> dict[str, Any]:
    """The entry of one backend."""
    found: dict[str, Any] = next(each for each in matrix["entries"] if each["args"]["moe_runner_backend"] == backend)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "verdict", "says"),
    [
        ("cutlass", "ok", ""),
        ("flashinfer_cutlass", "wrong", "NaN"),
        ("triton", "wrong", "M=3072: 3 of 3 answers"),
        ("flashinfer_cutedsl", "wrong", "burst: "),
        ("triton_kernel", "wrong", "M=3072: all 3 answers begin otherwise than the reference's"),
        ("deep_gemm", "slow", "of the fastest correct one"),
        ("flashinfer_trtllm", "crash", ""),
        ("flashinfer_mxfp4", "hang", "not ready after"),
        ("auto", "crash", "outside of its memory"),
    ],
)
def test_each_fault_is_found_and_named(matrix: dict[str, Any], backend: str, verdict: str, says: str) -> None:
    found = entry(matrix, backend)
    assert found["verdict"] == verdict, found["why"]
    assert says in found["why"]
    if verdict == "crash":
        assert found["diagnosis"]["id"] not in ("nothing", None)


@pytest.mark.slow
def test_the_correct_one_is_chosen_with_one_start_each(matrix: dict[str, Any]) -> None:
    assert matrix["best"] == "moe=cutlass"
    assert matrix["starts"] == len(FAULTS)


@pytest.mark.slow
def test_wrong_at_one_length_says_nothing_of_the_others(matrix: dict[str, Any]) -> None:
    assert "M=2048" not in entry(matrix, "triton")["why"]
    assert "burst" not in entry(matrix, "triton")["why"]
    assert "M=" not in entry(matrix, "flashinfer_cutedsl")["why"]


@pytest.mark.slow
def test_every_length_was_computed_whole(matrix: dict[str, Any]) -> None:
    asked = [answer["probe"] for answer in entry(matrix, "cutlass")["answers"]]
    assert [name for name in asked if name.startswith("M=")] == [
        f"M={length}/{number}" for length in OPTIONS["lengths"] for number in (1, 2, 3)
    ]
    assert sum(1 for name in asked if name.startswith("burst/")) == 64

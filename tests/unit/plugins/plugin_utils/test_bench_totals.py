"""The real client of sglang 0.5.9 against the stand-in engine, C = 1 to 1024: totals agree token for token."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from matrix_kit import LAB, ROOT, Host, Systemd, free_port

sys.path.append(str(LAB))

import bench_client
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_plan, _http
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import Limits, Shape
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.plugin_utils._bench_run import Bench


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, dict[str, Any]]]:
    """A running stand-in engine and the instance that it is."""
    try:
        client = bench_client.interpreter()
    except (RuntimeError, OSError) as error:
        pytest.skip(f"the benchmark client of sglang 0.5.9 cannot be installed here: {error}")
    folder = tmp_path_factory.mktemp("totals")
    model = folder / "model"
    command = [sys.executable, str(ROOT / "tests/lab/checkpoint/write.py"), str(model)]
    subprocess.run(command, check=True, capture_output=True)
    systemd = Systemd(folder, {"time_scale": 0.002})
    host = Host(folder, systemd, client)
    port = free_port()
    words = ["--model-path", str(model), "--port", str(port), "--tp-size", "8", "--quantization", "modelopt_fp4"]
    words += ["--attention-backend", "triton", "--enable-metrics", "--trust-remote-code"]
    host.call("backend_matrix_step", {"step": "start", "instance": {"name": "qwen"}, "words": words})
    instance = {"name": "qwen", "model_path": str(model), "listen": {"host": "127.0.0.1", "port": port}, "args": {}}
    http = _http.Client(f"http://127.0.0.1:{port}")
    ready = False
    end = time.monotonic() + 60
    while not ready and time.monotonic() < end:
        time.sleep(0.1)
        with contextlib.suppress(SglangError):
            ready = http.get("/health").ok
    assert ready, "the stand-in engine did not start"
    yield host, instance
    systemd.stop()


def served(instance: dict[str, Any]) -> dict[str, int]:
    """What the engine counted so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{instance['listen']['port']}/metrics", timeout=20) as reply:
        text = reply.read().decode()
    found = {}
    for name in ("prompt", "generation"):
        match = re.search(rf"^sglang:{name}_tokens_total(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        assert match, name
        found[name] = int(float(match[1]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("concurrency", "dataset"), [(1, "text"), (16, "random"), (64, "text"), (1024, "random")])
def test_client_and_engine_count_the_same_tokens(
    host: tuple[Host, dict[str, Any]], concurrency: int, dataset: str
) -> None:
    machine, instance = host
    shape = Shape(24, 6, dataset)
    bench = Bench(machine.call, machine.screen.append, instance, shape, {}, 300.0)
    level = _bench_plan.level(concurrency, shape, Limits())
    before = served(instance)
    row = bench.level(level)
    after = served(instance)
    assert (row["ok"], row["errors"]) == (level.prompts, 0), row["why"]
    assert row["input_tokens"] == level.prompts * shape.input_len
    assert row["output_tokens"] == level.prompts * shape.output_len
    warm = min(concurrency, 16)  # the client's warm-up repeats the first prompt and is not in its totals
    assert after["prompt"] - before["prompt"] == row["input_tokens"] + warm * shape.input_len
    assert after["generation"] - before["generation"] == row["output_tokens"] + warm * shape.output_len


@pytest.mark.slow
def test_the_client_alone_is_faster_than_with_an_engine_that_takes_its_time(
    host: tuple[Host, dict[str, Any]],
) -> None:
    machine, instance = host
    bench = Bench(machine.call, machine.screen.append, instance, Shape(16, 64, "random"), {}, 300.0)
    level = _bench_plan.level(4, bench.shape, Limits())
    before = served(instance)
    row = bench.level(level, instant=True)
    assert served(instance) == before, "the ceiling was measured against the engine"
    assert row["output_tokens"] == level.prompts * 64
    assert row["tok_s"] > 500


@pytest.mark.slow
def test_a_probe_says_what_the_engine_can_hold(host: tuple[Host, dict[str, Any]]) -> None:
    machine, instance = host
    found = Bench(machine.call, machine.screen.append, instance, Shape(), {}, 60.0).probe()
    assert found["client"] == "sglang.bench_serving"
    assert found["limits"]["request_cause"] == "state slots"
    assert found["limits"]["kv_tokens"] > found["limits"]["requests"] > 0

"""The client's command line, its screen and its record."""

from __future__ import annotations

import itertools
import json
import pathlib

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_client, _bench_plan
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import Level, Limits, Shape
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

RECORD = {
    "duration": 20.0,
    "completed": 80,
    "total_input_tokens": 81920,
    "total_output_tokens": 40960,
    "concurrency": 15.9,
    "accept_length": None,
    "mean_ttft_ms": 200.0,
    "median_ttft_ms": 150.0,
    "p99_ttft_ms": 900.0,
    "median_tpot_ms": 7.5,
    "p95_itl_ms": 9.0,
}
LEVEL = Level(16, 80, "compute", 59, "all 16 fit at once")


def release(folder: pathlib.Path, *files: str, text: str = 'p.add_argument("--max-concurrency")') -> str:
    """A release's interpreter with these files of sglang beside it."""
    for name in files:
        path = folder / "lib/python3.12/site-packages/sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder / "bin/python")


def test_the_newer_client_wins(tmp_path: pathlib.Path) -> None:
    python = release(tmp_path, "bench_serving.py", "benchmark/serving.py")
    assert _bench_client.find(python).module == "sglang.benchmark.serving"


def test_the_older_client_is_found(tmp_path: pathlib.Path) -> None:
    assert _bench_client.find(release(tmp_path, "bench_serving.py")).module == "sglang.bench_serving"


def test_a_forwarding_stub_under_the_new_name_is_not_taken(tmp_path: pathlib.Path) -> None:
    release(tmp_path, "benchmark/serving.py", text="from elsewhere import main")
    assert _bench_client.find(release(tmp_path, "bench_serving.py")).module == "sglang.bench_serving"


def test_a_release_without_a_client_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match="no benchmark client"):
        _bench_client.find(str(tmp_path / "bin/python"))


def test_lengths_are_fixed_and_flags_are_those_of_the_version(tmp_path: pathlib.Path) -> None:
    python = release(
        tmp_path, "bench_serving.py", text="'--max-concurrency' \"--flush-cache\" \"--tokenize-prompt\" '--seed'"
    )
    client = _bench_client.find(python)
    words = _bench_client.words(
        client,
        base_url="http://127.0.0.1:1",
        model_path="/m",
        tokenizer="/t",
        level=_bench_plan.level(512, Shape(), Limits()),
        shape=Shape(1024, 512, "random"),
        dataset="",
        output="/o",
        seed=7,
    )
    pairs = dict(itertools.pairwise(words))
    assert words[:3] == [python, "-m", "sglang.bench_serving"]
    assert (pairs["--random-range-ratio"], pairs["--num-prompts"], pairs["--warmup-requests"]) == ("1.0", "2560", "16")
    assert pairs["--dataset-name"] == "random-ids"
    assert {"--flush-cache", "--tokenize-prompt"} <= set(words)
    assert "--dataset-path" not in words


def test_the_key_is_no_argument() -> None:
    environment = _bench_client.environment("sk-secret")
    assert environment["OPENAI_API_KEY"] == "sk-secret"
    assert "OPENAI_API_KEY" not in _bench_client.environment("")


def test_the_original_columns_stand_beside_the_percentiles() -> None:
    row = _bench_client.row(RECORD, LEVEL)
    assert (row["tok_s"], row["request_tok_s"], row["output_tokens"], row["wall_s"], row["ok"]) == (
        2048.0,
        128.0,
        40960,
        20.0,
        80,
    )
    assert row["ttft"] == {"mean": 200.0, "median": 150.0, "p99": 900.0}
    assert row["itl"] == {"p95": 9.0}
    assert row["label"] == "compute"


def test_a_request_that_did_not_complete_is_an_error_whatever_the_limit() -> None:
    row = _bench_client.row({**RECORD, "completed": 79}, LEVEL)
    assert (row["label"], row["errors"]) == ("errors", 1)


def test_progress_and_errors_are_read_from_the_screen() -> None:
    screen = " 10%|#  | 8/80 [00:01<00:09, 8.00it/s]\n 60%|###| 48/80 [00:06<00:04, 8.00it/s]"
    assert _bench_client.progress(screen) == (48, 80)
    assert _bench_client.progress("loading") is None
    said = "output.error='Traceback (most recent call last):\\n  File\\naiohttp.ClientOSError: [Errno 104] reset\\n'"
    assert _bench_client.first_error(said) == "aiohttp.ClientOSError: [Errno 104] reset"


def test_the_last_record_counts_and_none_is_an_error() -> None:
    text = json.dumps({**RECORD, "duration": 1.0}) + "\n" + json.dumps(RECORD) + "\n{\n"
    assert _bench_client.read_record(text)["duration"] == 20.0
    with pytest.raises(SglangError, match="no result"):
        _bench_client.read_record("")


@pytest.mark.parametrize(("name", "concurrency"), [("c1", 1), ("c4", 4), ("c16", 16)])
def test_captured_records_give_the_client_s_own_figures(shared: pathlib.Path, name: str, concurrency: int) -> None:
    record = json.loads((shared / f"captures/bench_serving/{name}.json").read_text(encoding="utf-8"))
    row = _bench_client.row(record, Level(concurrency, record["completed"], "compute", None, ""))
    assert row["tok_s"] == pytest.approx(record["output_throughput"], rel=1e-3)
    assert row["ttft"]["median"] == pytest.approx(record["median_ttft_ms"], rel=1e-3)
    assert row["tpot"]["p99"] == pytest.approx(record["p99_tpot_ms"], rel=1e-3)
    assert {"median", "p95", "p99"} <= set(row["itl"])
    assert row["label"] == "compute"

"""Servers and checkpoints for the tests of this folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parent))

from lab_engine_kit import LAB_FLAGS, Engine, Start, capture_config, starter, write


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers that end with the test."""
    started: list[Engine] = []
    yield starter(tmp_path, started)
    for engine in started:
        engine.stop()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints: the lab's, one of a capture's geometry with FP8 declared (fp8kv), one without (nokv), one BF16."""
    folder = tmp_path_factory.mktemp("models")
    write.write(folder / "nvfp4", shards=3, experts=1)
    for name, algo in (("fp8kv", "FP8"), ("nokv", None), ("bf16", "-")):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(capture_config()))
        if algo != "-":
            quantization = {"quant_algo": "FP8", "kv_cache_quant_algo": algo, "exclude_modules": ["lm_head"]}
            whole = {"producer": {"name": "modelopt", "version": "0.41.0"}, "quantization": quantization}
            (folder / name / "hf_quant_config.json").write_text(json.dumps(whole))
    return folder


@pytest.fixture(scope="module")
def qwen(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One well-behaved server of the lab's deployment for the tests that only look."""
    started: list[Engine] = []
    begin = starter(tmp_path_factory.mktemp("qwen"), started)
    yield begin(models / "nvfp4", *LAB_FLAGS, "--enable-metrics", "--enable-cache-report").wait()
    for engine in started:
        engine.stop()

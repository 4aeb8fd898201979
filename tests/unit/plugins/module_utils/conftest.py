"""Stand-in engines and hosts for the gate and for what is built on it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from gate_kit import LAB_FLAGS, Engine, Host, Serve
from lab_engine_kit import Start, starter, write


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The lab's checkpoint."""
    folder = tmp_path_factory.mktemp("models") / "nvfp4"
    write.write(folder, shards=3, experts=1)
    return folder


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """Start engines that end with the test."""
    started: list[Engine] = []
    yield starter(tmp_path, started)
    for engine in started:
        engine.stop()


@pytest.fixture
def serve(start: Start, model: pathlib.Path, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Serve:
    """Start the lab's deployment with the flags and settings given, on a host that the gate can ask."""

    def begin(*flags: str, **settings: Any) -> Host:
        return Host(start(model, *LAB_FLAGS, *flags, **settings), monkeypatch, tmp_path)

    return begin

"""Passages of real text."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_text
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def test_python_brings_enough_prose() -> None:
    text = _bench_text.corpus()
    assert len(text) > 300_000
    letters = sum(1 for char in text if char.isalpha() or char.isspace())
    assert letters / len(text) > 0.75


@pytest.mark.parametrize(("count", "tokens"), [(8, 64), (5120, 1024), (3, 200_000)])
def test_passages_are_long_enough_and_begin_differently(count: int, tokens: int) -> None:
    beginnings = set()
    for passage in _bench_text.passages(_bench_text.corpus(), count, tokens):
        assert len(passage) >= tokens * _bench_text.CHARS_PER_TOKEN
        beginnings.add(passage[:24])
    assert len(beginnings) == count


def test_the_dataset_is_what_the_client_reads(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "text.json"
    one = _bench_text.write_dataset(path, _bench_text.corpus(), 8, 16)
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert [len(entry["conversations"]) for entry in rows] == [2] * 8
    assert one == _bench_text.write_dataset(path, _bench_text.corpus(), 4, 99)
    assert one != _bench_text.write_dataset(path, "other " * 9999, 4, 99)


def test_a_file_of_one_s_own_is_read_or_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "prose.txt"
    with pytest.raises(SglangError, match="cannot be read"):
        _bench_text.read(str(path))
    path.write_text("too short", encoding="utf-8")
    with pytest.raises(SglangError, match="at least 10,000"):
        _bench_text.read(str(path))
    path.write_text("enough of it. " * 1000, encoding="utf-8")
    assert _bench_text.read(str(path)).startswith("enough")

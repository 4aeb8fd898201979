"""Spread over restarts, the client's ceiling, and the comparison with a baseline."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_result
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import Shape


def row(tok_s: float | None, concurrency: int = 16, label: str = "compute", **more: Any) -> dict[str, Any]:
    """A row with what the tests need."""
    base: dict[str, Any] = {"concurrency": concurrency, "tok_s": tok_s, "label": label, "why": "", "c_max": 59}
    base |= {"request_tok_s": (tok_s or 0) / concurrency, "output_tokens": 1, "wall_s": 1.0, "ok": 80, "prompts": 80}
    base |= {"ttft": {"median": 1.0, "p99": 2.0}, "tpot": {}}
    return base | more


def result(*rows: dict[str, Any], digest: str = "a") -> dict[str, Any]:
    """A sweep's result."""
    levels = [{"runs": [each["tok_s"]], "spread": 0.0, **each} for each in rows]
    return {"shape": {"input_len": 8}, "text_digest": digest, "levels": levels, "at": "2026-11-29T20:00:00Z"}


def test_restarts_give_mean_and_spread() -> None:
    merged = _bench_result.merge([[row(90.0)], [row(100.0)], [row(110.0)]])
    assert merged[0]["tok_s"] == 100.0
    assert merged[0]["spread"] == pytest.approx(0.2)
    assert merged[0]["runs"] == [90.0, 100.0, 110.0]


def test_an_error_in_one_restart_is_not_averaged_away() -> None:
    merged = _bench_result.merge([[row(100.0)], [row(50.0, label="errors", why="reset")]])
    assert merged[0]["label"] == "errors"
    assert merged[0]["why"] == "reset"
    assert merged[0]["spread"] is None


def test_a_level_near_the_client_s_ceiling_is_marked() -> None:
    ceiling = [row(1000.0, 1), row(5000.0, 64)]
    marked = _bench_result.against_ceiling([row(400.0, 1), row(3600.0, 64), row(None, 128)], ceiling)
    assert [each["client_bound"] for each in marked] == [False, True, False]
    assert "near the client's own ceiling" in _bench_result.table(marked)


@pytest.mark.parametrize(
    ("now", "then", "verdict"),
    [
        (row(81.0), row(100.0), "same"),  # one start each: 20 % is noise
        (row(79.0), row(100.0), "worse"),
        (row(121.0), row(100.0), "better"),
        (row(94.0, runs=[93.0, 94.0, 95.0]), row(100.0, runs=[99.0, 100.0, 101.0]), "worse"),  # means of three: 5 %
        (row(94.0, runs=[93.0, 94.0, 95.0], spread=0.1), row(100.0, runs=[9, 9, 9]), "same"),  # but its spread is 10 %
        (row(99.0, label="errors", why="reset"), row(100.0), "worse"),
        (row(None, label="cannot-fit"), row(None, label="cannot-fit"), "same"),
    ],
)
def test_worse_means_beyond_tolerance_and_spread(now: dict[str, Any], then: dict[str, Any], verdict: str) -> None:
    assert _bench_result.compare(result(now), result(then))["verdict"] == verdict


def test_one_bad_level_decides() -> None:
    found = _bench_result.compare(result(row(100.0), row(10.0, 64)), result(row(100.0), row(100.0, 64)))
    assert found["verdict"] == "worse"
    assert "C=64" in found["why"]
    assert "C=16" not in found["why"]


def test_a_given_tolerance_counts() -> None:
    assert _bench_result.compare(result(row(97.0)), result(row(100.0)), 0.02)["verdict"] == "worse"


def test_another_text_or_shape_is_not_compared() -> None:
    assert _bench_result.compare(result(row(1.0), digest="b"), result(row(100.0)))["verdict"] == "other"
    assert _bench_result.compare(result(row(1.0)), None)["verdict"] == "none"


def test_the_table_says_why_a_level_was_not_run() -> None:
    text = _bench_result.table([row(None, 1, "cannot-fit", why="too long")], Shape(9, 9))
    assert "cannot fit: too long" in text

"""Combinations, their names, ranks and table."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _matrix_plan
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def entry(name: str, verdict: str, tok_s: float | None = None) -> dict[str, Any]:
    """An entry with one measured level."""
    levels = [{"concurrency": 32, "tok_s": tok_s, "label": "compute"}] if tok_s else []
    return {"id": name, "verdict": verdict, "levels": levels, "why": "", "start_s": 90.0}


def test_axes_multiply_and_a_dictionary_sets_several_arguments() -> None:
    axes = {
        "moe_runner_backend": ["cutlass", "triton"],
        "speculation": [
            {"speculative_algorithm": None},
            {"speculative_algorithm": "NEXTN", "speculative_num_steps": 3},
        ],
    }
    found = _matrix_plan.expand(axes, [])
    assert [each.id for each in found] == [
        "moe=cutlass spec=none",
        "moe=cutlass spec=NEXTN speculative_num_steps=3",
        "moe=triton spec=none",
        "moe=triton spec=NEXTN speculative_num_steps=3",
    ]
    assert found[1].args == {
        "moe_runner_backend": "cutlass",
        "speculative_algorithm": "NEXTN",
        "speculative_num_steps": 3,
    }


def test_explicit_sets_take_the_place_of_axes_and_doubles_fall_together() -> None:
    sets = [{"attention_backend": "triton"}, {"attention_backend": "triton"}, {}]
    found = _matrix_plan.expand({"moe_runner_backend": ["x"]}, sets)
    assert [each.id for each in found] == ["attention=triton", "as configured"]


@pytest.mark.parametrize("axes", [{}, {"attention_backend": []}, {"attention_backend": "triton"}])
def test_an_axis_without_values_is_named(axes: dict[str, Any]) -> None:
    with pytest.raises(SglangError, match="backend_matrix_axes"):
        _matrix_plan.expand(axes, [])


def test_the_fastest_correct_one_wins_and_a_wrong_one_never() -> None:
    entries = [entry("a", "ok", 400.0), entry("b", "ok", 1000.0), entry("c", "wrong", 9000.0), entry("d", "ok", 600.0)]
    assert _matrix_plan.rank(entries) == "b"
    assert [each["verdict"] for each in entries] == ["slow", "ok", "wrong", "ok"]
    assert "40% of the fastest" in entries[0]["why"]


def test_ranking_again_with_another_share_starts_afresh() -> None:
    entries = [entry("a", "ok", 400.0), entry("b", "ok", 1000.0)]
    _matrix_plan.rank(entries)
    _matrix_plan.rank(entries, slow_share=0.3)
    assert [each["verdict"] for each in entries] == ["ok", "ok"]


def test_without_a_correct_one_there_is_no_best() -> None:
    assert _matrix_plan.rank([entry("a", "wrong", 1.0), entry("b", "crash")]) is None


def test_what_was_not_measured_can_still_be_the_only_correct_one() -> None:
    assert _matrix_plan.rank([entry("a", "ok"), entry("b", "hang")]) == "a"


def test_a_result_depends_on_release_and_questions() -> None:
    one = _matrix_plan.digest("r1", ["--tp-size", "8"], {"lengths": [1]})
    assert one == _matrix_plan.digest("r1", ["--tp-size", "8"], {"lengths": [1]})
    assert one != _matrix_plan.digest("r2", ["--tp-size", "8"], {"lengths": [1]})
    assert one != _matrix_plan.digest("r1", ["--tp-size", "8"], {"lengths": [2]})


def test_the_table_marks_the_best() -> None:
    entries = [entry("moe=a", "ok", 10.0), {**entry("moe=b", "crash"), "why": "it ended"}]
    lines = _matrix_plan.table(entries, "moe=a").splitlines()
    assert lines[1].startswith("ok *")
    assert lines[2].endswith("it ended")

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import Problem, SglangError, sentence


def test_an_error_says_where_what_expected_and_fix_in_that_order() -> None:
    error = SglangError(
        "no file", where="/models/x/config.json", expected="a folder with config.json", fix="set model_path"
    )
    assert str(error) == ("/models/x/config.json: no file. Expected: a folder with config.json. Fix: set model_path.")


def test_empty_parts_leave_no_trace() -> None:
    assert sentence("it broke") == "it broke."
    assert sentence("it broke!", fix="try again?") == "it broke! Fix: try again?"


def test_a_problem_names_host_and_variable() -> None:
    problem = Problem("gpu1", "sglang_instances[0].name", "is missing", fix="write name: qwen")
    assert problem.text() == "gpu1: sglang_instances[0].name: is missing. Fix: write name: qwen."
    assert Problem("", "sglang_stacks", "is no dict").text() == "sglang_stacks: is no dict."

"""Whether a source build is needed and why, and when `stable` is the better choice."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_choice

ROOT = pathlib.Path(__file__).resolve().parents[4]
SHIPPED: dict[str, t.Any] = yaml.safe_load((ROOT / "roles/nightly_stack/files/stacks.yml").read_text())


@pytest.mark.parametrize(("name", "needed", "word"), [("nightly", True, "stable torch"), ("stable", False, "0.4.10")])
def test_the_shipped_stacks_say_why(name: str, needed: bool, word: str) -> None:
    answer = _stack_choice.source_build(SHIPPED[name], None)
    assert answer["needed"] is needed
    assert word in answer["why"]


def test_a_release_with_its_kernel_needs_no_build_and_names_the_stamp() -> None:
    release = {"kernel": {"wheel": "/opt/sglang/wheels/3f2a/x.whl", "stamp": "3f2a"}}
    answer = _stack_choice.source_build(SHIPPED["nightly"], release)
    assert answer["needed"] is False
    assert "3f2a" in answer["why"]


def test_a_source_build_for_a_stable_torch_blames_the_stack() -> None:
    stack = {"kernel": {"build": "source"}, "requirements": {"torch": {"version": "==2.11.0"}}}
    assert _stack_choice.source_build(stack, None)["why"] == "the stack's kernel.build is source"


def test_stable_is_recommended_where_nobody_asked_for_the_nightly() -> None:
    (said,) = _stack_choice.advice(SHIPPED, {"qwen": "nightly", "kimi": "stable"}, asked=["kimi"])
    assert "qwen" in said
    assert "kimi" not in said
    assert "stack: stable" in said


@pytest.mark.parametrize(
    ("used", "asked"),
    [({"qwen": "nightly"}, ["qwen"]), ({"qwen": "stable"}, []), ({"qwen": "nightly-2026-03"}, []), ({}, [])],
)
def test_nobody_is_talked_out_of_what_they_asked_for(used: dict[str, str], asked: list[str]) -> None:
    assert _stack_choice.advice(SHIPPED, used, asked) == []

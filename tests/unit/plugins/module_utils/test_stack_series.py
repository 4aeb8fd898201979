"""An operator's series of patches out of an inventory: order, digest of the stack, and what is wrong with it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_schema, _stack_series
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings

PATCH = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old\n+{1}\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for name in ("02-b.patch", "01-a.diff", "notes.txt"):
        (tmp_path / name).write_text(PATCH.format(name, "new"))
    return tmp_path


def names(given: t.Any) -> tuple[list[str], list[str]]:
    findings = Findings("h")
    series = _stack_series.load(given, "k.series", findings)
    return [patch["name"] for patch in series], [problem.text() for problem in findings.problems]


def test_a_folder_is_read_by_name_or_by_its_series_file(folder: pathlib.Path) -> None:
    assert names(str(folder)) == (["01-a.diff", "02-b.patch"], [])
    (folder / "series").write_text("# mine\n02-b.patch  # first\n\n01-a.diff\n")
    assert names(str(folder)) == (["02-b.patch", "01-a.diff"], [])
    assert names([str(folder / "01-a.diff")]) == (["01-a.diff"], [])


@pytest.mark.parametrize("given", ["patches", 7, ["x.patch"], "/nowhere/x.patch"])
def test_what_cannot_be_read_is_a_problem_that_says_what_to_write(given: t.Any) -> None:
    found, problems = names(given)
    assert found == []
    assert len(problems) == 1
    assert "k.series" in problems[0]


def test_a_file_that_is_no_patch_is_a_problem(folder: pathlib.Path) -> None:
    (folder / "03-c.patch").write_text("hello")
    found, problems = names(str(folder))
    assert found == ["01-a.diff", "02-b.patch"]
    assert "03-c.patch" in problems[0]


def test_an_edited_patch_is_another_stack(folder: pathlib.Path) -> None:
    def digest() -> str:
        own = {"mine": {"kernel": {"build": "source", "series": str(folder)}}}
        findings = Findings("h")
        stack = _stack_schema.resolved_stack("mine", {}, own, {}, findings)
        assert not findings.problems
        assert stack["kernel"]["series"][0]["name"] == "01-a.diff"
        return str(stack["digest"])

    first = digest()
    assert digest() == first
    (folder / "02-b.patch").write_text(PATCH.format("b", "newer"))
    assert digest() != first


def test_a_wheelhouse_must_be_there_and_is_no_part_of_the_digest(tmp_path: pathlib.Path) -> None:
    packed = tmp_path / "nightly.tar"
    packed.write_bytes(b"")
    found = {}
    for wheelhouse in (None, str(packed), str(tmp_path / "gone.tar")):
        findings = Findings("h")
        own = {"mine": {"channel": "wheelhouse", "wheelhouse": wheelhouse}}
        found[wheelhouse] = _stack_schema.resolved_stack("mine", {}, own, {}, findings)["digest"]
        problems = [problem.where for problem in findings.problems]
        assert problems == (["sglang_stacks.mine.wheelhouse"] if wheelhouse and "gone" in wheelhouse else [])
    assert len(set(found.values())) == 1

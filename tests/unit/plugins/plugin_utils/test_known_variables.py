"""Which names are ours, and what is said of one that is nearly ours."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _known_variables as known

ROOT = pathlib.Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sglang_instnaces", "sglang_instances"),
        ("sglang_instance", "sglang_instances"),
        ("slgang_instances", "sglang_instances"),
        ("sglang_hypervisior", "sglang_hypervisor"),
        ("sglang_relase_keep", "sglang_release_keep"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_one(name: str, nearest: str) -> None:
    assert known.misspelling(name) == (nearest,)


@pytest.mark.parametrize(
    "name",
    ["sglang_instances", "sglang_resolved", "ansible_host", "groups", "base_port", "inventory_dir", "__sglang_x"],
)
def test_known_and_foreign_names_are_left_alone(name: str) -> None:
    assert known.misspelling(name) is None


def test_a_name_with_our_prefix_and_no_likeness_is_still_reported() -> None:
    findings = Findings("h")
    known.check_names(["sglang_zzzzzzzzzzzzzzzzzz", "other"], findings)
    assert [problem.where for problem in findings.problems] == ["sglang_zzzzzzzzzzzzzzzzzz"]


def test_every_variable_of_every_roles_spec_is_known() -> None:
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            for name in entry.get("options") or {}:
                assert known.misspelling(name) is None, name


def test_every_default_of_every_role_is_known() -> None:
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        for name in yaml.safe_load(path.read_text(encoding="utf-8")) or {}:
            assert known.misspelling(name) is None, f"{path.parent.parent.name}: {name} is in no argument spec"


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("bool", True, True),
        ("bool", "yes", True),
        ("bool", "perhaps", False),
        ("int", 3, True),
        ("int", "3", True),
        ("int", "3.5", False),
        ("int", True, False),
        ("float", "3.5", True),
        ("list", [1], True),
        ("list", "a", False),
        ("dict", {}, True),
        ("dict", [], False),
        ("str", 5, True),
        ("str", [], False),
        ("path", "/x", True),
        ("raw", [], True),
    ],
)
def test_types_are_those_of_the_spec(monkeypatch: pytest.MonkeyPatch, kind: str, value: object, fits: bool) -> None:
    monkeypatch.setattr(known, "specs", lambda: {"gpu_host_x": {"type": kind}})
    findings = Findings("h")
    known.check_types({"gpu_host_x": value}, lambda given: given, findings)
    assert (not findings.problems) is fits


def test_choices_are_checked_and_values_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "specs", lambda: {"gpu_host_x": {"type": "str", "choices": ["a", "b"]}})
    findings = Findings("h")
    known.check_types({"gpu_host_x": "hidden-value"}, lambda given: given, findings)
    assert "one of a, b" in findings.problems[0].text()
    assert "hidden-value" not in findings.problems[0].text()

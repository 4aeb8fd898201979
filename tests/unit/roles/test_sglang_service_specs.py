"""Defaults, argument specs, playbooks and README of sglang_service say the same."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles" / "sglang_service"
ENTRIES = {"status": "status", "stop": "halt", "rollback": "step_back", "uninstall": "remove"}


def load(path: pathlib.Path) -> t.Any:
    """A YAML file."""
    return yaml.safe_load(path.read_text())


def specs() -> dict[str, t.Any]:
    """The entry points' specs."""
    loaded: dict[str, t.Any] = load(ROLE / "meta" / "argument_specs.yml")["argument_specs"]
    return loaded


def test_defaults_and_specs_agree_by_value() -> None:
    options = specs()["main"]["options"]
    assert {key: option.get("default") for key, option in options.items()} == load(ROLE / "defaults" / "main.yml")


@pytest.mark.parametrize("entry", ENTRIES.values())
def test_an_entry_point_repeats_what_main_says(entry: str) -> None:
    main = specs()["main"]["options"]
    for name, option in specs()[entry]["options"].items():
        assert {key: option.get(key) for key in ("type", "elements", "default")} == {
            key: main[name].get(key) for key in ("type", "elements", "default")
        }, name


@pytest.mark.parametrize(("playbook", "entry"), ENTRIES.items())
def test_a_playbook_is_thin_around_its_entry_point(playbook: str, entry: str) -> None:
    text = (ROOT / "playbooks" / f"{playbook}.yml").read_text()
    assert f"tasks_from: {entry}.yml" in text or f"__sglang_entry: {entry}.yml" in text
    assert (ROLE / "tasks" / f"{entry}.yml").is_file()
    meta = load(ROOT / "playbooks" / f"{playbook}.meta.yml")
    assert f"ansible-playbook blackwell.sglang.{playbook} " in meta["argument_specs"][playbook]["examples"]


def test_the_readme_names_every_variable() -> None:
    text = (ROLE / "README.md").read_text()
    for name in load(ROLE / "defaults" / "main.yml"):
        short = name.removeprefix("sglang_service_restart")
        assert f"`{name}`" in text or f"`{short}`" in text, name


def test_inner_names_have_the_inner_prefix() -> None:
    assert all(name.startswith("__sglang_service_") for name in load(ROLE / "vars" / "main.yml"))

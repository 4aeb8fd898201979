"""Defaults, argument specs and README of a role say the same."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
NAMES = ("gpu_host", "proxmox_gpu", "deploy_report")
TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
}


def load(path: pathlib.Path) -> t.Any:
    """A YAML file."""
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_defaults_and_specs_agree_by_value(name: str) -> None:
    defaults = load(ROLES / name / "defaults" / "main.yml")
    options = load(ROLES / name / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {key: option.get("default") for key, option in options.items()} == defaults
    assert list(options) == list(defaults), "in the same order"
    for key, option in options.items():
        assert isinstance(defaults[key], TYPES[option["type"]]), key
        assert option["description"]


@pytest.mark.parametrize("name", NAMES)
def test_readme_names_every_variable(name: str) -> None:
    text = (ROLES / name / "README.md").read_text()
    for key in load(ROLES / name / "defaults" / "main.yml"):
        assert f"| `{key}` |" in text, key


@pytest.mark.parametrize("name", NAMES)
def test_variables_and_registers_have_the_prefix(name: str) -> None:
    public = load(ROLES / name / "defaults" / "main.yml")
    assert all(key.startswith(f"{name}_") for key in public)
    inner = ROLES / name / "vars" / "main.yml"
    if inner.is_file():
        assert all(key.startswith(f"__{name}_") for key in load(inner))

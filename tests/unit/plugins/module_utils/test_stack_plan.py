"""Plans: what uv is asked, what its lock says, what changes, and who causes it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_plan as plan
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

STACK: dict[str, t.Any] = {
    "indexes": {"default": "https://a.example/simple", "pytorch": "https://b.example/cu130"},
    "requirements": {
        "torch": {"version": ">=2.12.0.dev20260307", "index": "pytorch", "prerelease": True},
        "sglang": {"version": "==0.5.12.post1"},
    },
    "overrides": ["torch"],
    "kernel": {"build": "source", "distribution": "sglang-kernel", "version": "0.4.2.post2"},
}

# As uv 0.13 writes them, shortened.
UV_LOCK = """version = 1

[[package]]
name = "torch"
version = "2.12.0.dev20260307+cu130"
source = { registry = "https://b.example/cu130" }

[[package]]
name = "sglang"
version = "0.5.12.post1"
source = { registry = "https://a.example/simple" }

[[package]]
name = "sglang-stack"
version = "0"
source = { virtual = "." }
"""
MARKER = "implementation_name == 'cpython' and platform_machine == 'x86_64' and sys_platform == 'linux'"
EXPORT = f"""sglang==0.5.12.post1 ; {MARKER} \\
    --hash=sha256:aaaa
    # via sglang-stack
torch==2.12.0.dev20260307+cu130 ; {MARKER} \\
    --hash=sha256:bbbb \\
    --hash=sha256:cccc
    # via
    #   sglang
    #   sglang-stack
"""


def test_an_index_is_asked_only_for_what_is_pinned_to_it() -> None:
    text = plan.project_file(STACK, "3.12")
    assert '"torch" = { index = "pytorch" }' in text
    assert text.count("explicit = true") == 1
    assert text.count("default = true") == 1
    assert '"sglang" =' not in text


def test_a_source_build_takes_both_names_of_the_kernel_out_of_the_resolution() -> None:
    assert plan.overrides(STACK) == [
        "torch>=2.12.0.dev20260307",
        "sglang-kernel ; python_version < '0'",
        "sgl-kernel ; python_version < '0'",
    ]


def test_a_kernel_wheel_is_a_requirement() -> None:
    stack = {**STACK, "kernel": {"build": "wheel", "distribution": "sglang-kernel", "version": "0.4.10"}}
    assert "sglang-kernel==0.4.10" in plan.project_file(stack, "3.12")
    assert plan.overrides(stack) == ["torch>=2.12.0.dev20260307"]


def test_lock_keeps_hashes_requirers_and_the_index_of_each_package() -> None:
    packages = plan.read_lock(plan.write_lock(EXPORT, UV_LOCK))
    assert packages["torch"].as_dict() == {
        "name": "torch",
        "version": "2.12.0.dev20260307+cu130",
        "index": "https://b.example/cu130",
        "hashes": ["sha256:bbbb", "sha256:cccc"],
        "via": ["sglang", "sglang-stack"],
    }
    assert packages["sglang"].index == "https://a.example/simple"


def test_lock_says_nothing_that_holds_on_every_host_anyway() -> None:
    assert "implementation_name" not in plan.write_lock(EXPORT, UV_LOCK)
    other = EXPORT.replace(MARKER, "python_full_version < '3.12'")
    assert "python_full_version" in plan.write_lock(other, UV_LOCK)


def test_a_text_that_locks_nothing_is_refused() -> None:
    with pytest.raises(SglangError, match="names no package"):
        plan.read_lock("# nothing\n")


def test_changes_tell_down_from_up_and_from_another_build() -> None:
    before = {"torch": "2.12.0.dev20260307+cu130", "numpy": "2.4.1", "triton": "3.6.0+cu130", "gone": "1", "same": "1"}
    after = {
        name: plan.Package(name, version)
        for name, version in {"torch": "2.9.1", "numpy": "2.4.2", "triton": "3.6.0", "new": "1", "same": "1"}.items()
    }
    assert {change.name: change.action for change in plan.changes(before, after)} == {
        "gone": "remove",
        "new": "add",
        "numpy": "upgrade",
        "same": "keep",
        "torch": "downgrade",
        "triton": "rebuild",
    }


@pytest.mark.parametrize(
    ("before", "after", "order"),
    [
        ("2.12.0.dev20260228+cu130", "2.12.0.dev20260307+cu130", 1),
        ("2.12.0.dev20260307", "2.12.0", 1),
        ("2.12.0", "2.12.0rc1", -1),
        ("0.6.11", "0.6.11.post1", 1),
        ("2.9.1+cu130", "2.9.1", 0),
    ],
)
def test_versions_compare_as_pip_does(before: str, after: str, order: int) -> None:
    assert plan.compare(before, after) == order


@pytest.mark.parametrize("version", ["2.12.0.dev20260307+cu130", "4.0.0b36", "1.0rc1", "1.0a2"])
def test_prereleases_are_recognised(version: str) -> None:
    assert plan.is_prerelease(version)


@pytest.mark.parametrize("version", ["0.6.11.post1", "2.11.0+cu130", "3.6.0+git9844da95", "20261103"])
def test_releases_are_no_prereleases(version: str) -> None:
    assert not plan.is_prerelease(version)


def test_chain_prefers_the_way_through_sglang() -> None:
    packages = {
        "torch": plan.Package("torch", "2.9.1", via=["flashinfer-python", "sglang", "sglang-stack"]),
        "flashinfer-python": plan.Package("flashinfer-python", "0.6.3", via=["sglang", "sglang-stack"]),
        "sglang": plan.Package("sglang", "0.5.9", via=["sglang-stack"]),
    }
    assert plan.chain("torch", packages) == ["sglang-stack", "sglang 0.5.9", "torch 2.9.1"]


def test_chain_ends_in_a_circle_of_requirements() -> None:
    packages = {"a": plan.Package("a", "1", via=["b"]), "b": plan.Package("b", "1", via=["a"])}
    assert plan.chain("a", packages)[-1] == "a 1"


def test_environment_is_read_from_its_folders(tmp_path: pathlib.Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    (site / "torch-2.12.0.dev20260307+cu130.dist-info").mkdir(parents=True)
    (site / "flashinfer_python-0.6.11.post1.dist-info").mkdir()
    (site / "torch").mkdir()
    assert plan.read_environment(plan.site_packages(tmp_path)) == {
        "torch": "2.12.0.dev20260307+cu130",
        "flashinfer-python": "0.6.11.post1",
    }
    assert plan.read_environment(tmp_path / "none") == {}

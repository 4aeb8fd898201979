"""python_stack_plan against the public package index: what the original deployment met, and the stack stable.

Slow: a resolution reads the metadata of two hundred packages. Skipped where the index is out of reach.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[4]
UV = ROOT / ".tools/uv/bin/uv"
# uv answers for this interpreter wherever the resolution is asked for, so its version alone matters.
PYTHON = "3.12"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter of the version that stable's wheels are for."""
    if not UV.exists():
        pytest.skip("uv is not here: run `make setup`")
    places = [
        shutil.which(f"python{PYTHON}"),
        *pathlib.Path.home().glob(f".pyenv/versions/{PYTHON}.*/bin/python{PYTHON}"),
    ]
    for place in filter(None, places):
        # A shim of pyenv is on the PATH for versions that are not switched on, too.
        if subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(place)
    pytest.skip(f"no Python {PYTHON} on this machine")


@pytest.fixture(scope="module")
def index(python: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the index does not answer for one small package."""
    target = tmp_path_factory.mktemp("reach")
    asked = subprocess.run(
        [UV, "pip", "compile", "-q", "--no-cache", "--python", python, "-"],
        input="packaging",
        capture_output=True,
        text=True,
        cwd=target,
        env={**os.environ, "UV_HTTP_TIMEOUT": "10"},
        check=False,
    )
    if asked.returncode:
        pytest.skip(f"the package index is out of reach: {asked.stderr.strip()[-200:]}")


def plan(root: pathlib.Path, **params: t.Any) -> tuple[dict[str, t.Any], float]:
    """The module's answer and the seconds that it took, with a cache of uv of its own."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.blackwell.sglang.plugins.modules.python_stack_plan"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {"uv": str(UV), "root": str(root), **params}}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        check=False,
    )
    assert done.stdout, done.stderr
    return t.cast(dict[str, t.Any], json.loads(done.stdout)), time.monotonic() - start


@pytest.mark.usefixtures("index")
def test_sglang_0_5_9_would_replace_the_nightly_and_is_refused(python: str, tmp_path: pathlib.Path) -> None:
    installed = tmp_path / "packages"
    (installed / "torch-2.12.0.dev20260307+cu130.dist-info").mkdir(parents=True)
    stack = {"requirements": {"sglang": {"version": "==0.5.9"}}}
    answer, seconds = plan(tmp_path / "root", name="old", stack=stack, python=python, current=str(installed))
    assert answer["failed"]
    assert "torch would go down from 2.12.0.dev20260307+cu130 to 2.9.1" in answer["msg"]
    assert "sglang 0.5.9 -> torch 2.9.1" in answer["msg"]
    print(f"refused after {seconds:.1f} s")  # 16 s on two busy cores, 30 s are the budget


@pytest.mark.usefixtures("index")
def test_stable_resolves_completely_without_installing(python: str, tmp_path: pathlib.Path) -> None:
    stacks = yaml.safe_load((ROOT / "roles/nightly_stack/files/stacks.yml").read_text(encoding="utf-8"))
    answer, seconds = plan(tmp_path / "root", name="stable", stack=stacks["stable"], python=python)
    assert not answer.get("failed"), answer["msg"]
    versions = {package["name"]: package["version"] for package in answer["packages"]}
    assert versions["sglang"] == "0.5.23"
    assert versions["sglang-kernel"] == stacks["stable"]["kernel"]["version"]
    assert {"torch", "flashinfer-python"} <= set(versions)
    assert all(package["hashes"] for package in answer["packages"])
    assert not [finding for finding in answer["findings"] if finding["severity"] == "refuse"]
    print(f"{len(versions)} packages after {seconds:.1f} s")

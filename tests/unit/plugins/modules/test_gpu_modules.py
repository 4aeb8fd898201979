"""The modules as Ansible runs them, on this machine: what they return is what they document."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[4]
MODULES = ROOT / "plugins" / "modules"
READ_ONLY = ("gpu_host_info", "proxmox_gpu_info")


def run(name: str, check: bool = True, **options: t.Any) -> dict[str, t.Any]:
    """Result of a module, started as a program."""
    args = {"ANSIBLE_MODULE_ARGS": {**options, "_ansible_check_mode": check}}
    done = subprocess.run(
        [sys.executable, str(MODULES / f"{name}.py")],
        input=json.dumps(args),
        env={"PYTHONPATH": str(ROOT / ".collections"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    result: dict[str, t.Any] = json.loads(done.stdout)
    return result


def documented(name: str, part: str) -> dict[str, t.Any]:
    """A part of a module's documentation."""
    source = (MODULES / f"{name}.py").read_text()
    found: dict[str, t.Any] = yaml.safe_load(source.split(f'\n{part} = r"""\n')[1].split('"""')[0])
    return found


@pytest.mark.parametrize("name", READ_ONLY)
def test_result_has_the_keys_that_are_documented(name: str) -> None:
    result = run(name)
    keys = set(documented(name, "RETURN"))
    assert keys <= set(result)
    assert set(result) - keys <= {"changed", "invocation"}
    assert result["changed"] is False


def test_samples_have_the_shape_of_results() -> None:
    result = run("gpu_host_info", disks=[{"path": "/opt/sglang", "need_gib": 1}], packages=["gcc"])
    for key, entry in documented("gpu_host_info", "RETURN").items():
        sample, seen = entry["sample"], result[key]
        assert isinstance(seen, type(sample)), key
        if isinstance(sample, dict) and key not in ("nccl",):
            assert set(sample) == set(seen), key
        elif isinstance(sample, list) and seen and sample and isinstance(sample[0], dict):
            assert set(sample[0]) == set(seen[0]), key


def test_check_mode_reads_the_same() -> None:
    keys = ("ok", "os", "cuda", "packages", "findings")
    one, two = run("gpu_host_info", check=True), run("gpu_host_info", check=False)
    assert [one[key] for key in keys] == [two[key] for key in keys]


def test_exception_without_a_reason_is_refused() -> None:
    result = run("gpu_host_info", exceptions=[{"id": "disk_low"}])
    assert result["failed"] is True
    assert "reason" in result["msg"]


def test_probe_is_quick() -> None:
    begun = time.monotonic()
    run("gpu_host_info")
    # The budget is 2 s on a host of its own; this guards against a loop over something large, on a busy machine too.
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("name", ["gpu_host_info", "proxmox_gpu_info", "deploy_report"])
def test_module_is_thin(name: str) -> None:
    source = (MODULES / f"{name}.py").read_text()
    code = source.rpartition('"""\n')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 150

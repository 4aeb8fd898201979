"""The kernel that was built here, judged by NVIDIA's own tool and by the loader."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
import subprocess
import typing as t

import pytest

from playbooks import Playbooks

CONVERGE = "molecule/sgl_kernel/converge.yml"


@pytest.fixture(scope="module")
def release(host: t.Any) -> str:
    """Folder of the one release."""
    (found,) = host.check_output("ls -d /opt/sglang/releases/*/").split()
    return str(found)


def cuobjdump() -> str:
    """NVIDIA's own tool, from the toolkit or from the locked requirements."""
    found = shutil.which("cuobjdump")
    if found is None:
        import nvidia

        roots = [pathlib.Path(folder) for folder in nvidia.__path__]
        found = str(next(path for root in roots for path in root.rglob("bin/cuobjdump")))
    return found


def test_cuobjdump_sees_sm120a_and_nothing_else(host: t.Any, release: str, tmp_path: pathlib.Path) -> None:
    folder = f"{release}venv/lib/python3*/site-packages/sgl_kernel"
    library = host.check_output(f"ls {folder}/sm100/common_ops.abi3.so")
    copy = tmp_path / "common_ops.so"
    copy.write_bytes(base64.b64decode(host.check_output(f"base64 {library}")))
    listed = subprocess.run([cuobjdump(), "--list-elf", copy], capture_output=True, text=True, check=True).stdout
    names = [line.rsplit(".", 2)[-2] for line in listed.splitlines() if line.startswith("ELF file")]
    assert names, listed
    assert set(names) == {"sm_120a"}, listed


def test_the_release_says_what_its_kernel_was_made_of(host: t.Any, release: str) -> None:
    record = json.loads(host.file(f"{release}release.json").content_string)
    assert record["state"] == "verified"
    kernel = record["kernel"]
    assert len(kernel["commit"]) == 40
    assert kernel["stamp"] in kernel["wheel"]
    assert host.file(kernel["wheel"]).is_file
    applied = {patch["id"] for patch in kernel["patches"]}
    assert {"cmp0169-guard", "cmp0177-guard", "gencode-sm120"} <= applied


def test_the_kernel_imports_against_the_nightly(host: t.Any, release: str) -> None:
    said = host.check_output(f"{release}venv/bin/python -c 'import torch, sgl_kernel; print(torch.__version__)'")
    assert said == "2.12.0.dev20260307+cu130"


def test_a_second_run_builds_nothing(host: t.Any, playbooks: Playbooks) -> None:
    run = playbooks.run(CONVERGE)
    assert run.rc == 0, run.output
    assert run.changed == {}
    assert [call[2] for call in run.module_calls] == ["blackwell.sglang.sglang_release_info"]

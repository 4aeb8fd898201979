"""The lab's wheels: names, versions and pins of the real ones, valid, reproducible, installable."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from base64 import urlsafe_b64encode
from collections import defaultdict
from pathlib import Path

import build
import catalogue
import pytest
import wheelfile


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All wheels but for the compiled library."""
    folder = tmp_path_factory.mktemp("wheels")
    build.build(folder, kernel=False)
    return folder


def about(wheel: Path) -> list[str]:
    return Path(f"{wheel}.metadata").read_text().splitlines()


def test_every_wheel_is_complete(wheels: Path) -> None:
    found = sorted(wheels.glob("*/*.whl"))
    assert len(found) > 80
    for wheel in found:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            inside = next(name for name in names if name.endswith(".dist-info/METADATA"))
            assert archive.read(inside) == Path(f"{wheel}.metadata").read_bytes()
            rows = archive.read(inside.replace("METADATA", "RECORD")).decode().split()
            assert [row.split(",")[0] for row in rows[:-1]] == sorted(set(names) - {rows[-1].split(",")[0]})
            for row in rows[:-1]:
                path, digest, size = row.split(",")
                data = archive.read(path)
                assert len(data) == int(size)
                assert digest == "sha256=" + urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert not [name for name in names if "__pycache__" in name]


def test_same_bytes_at_every_build(wheels: Path, tmp_path: Path) -> None:
    build.build(tmp_path, kernel=False)
    for wheel in wheels.glob("*/*.whl"):
        assert wheel.read_bytes() == (tmp_path / wheel.relative_to(wheels)).read_bytes(), wheel.name


@pytest.mark.parametrize(
    ("index", "project", "versions"),
    [
        ("default", "torch", {"2.9.1", "2.10.0", "2.11.0"}),
        ("pytorch", "torch", {"2.12.0.dev20260228+cu130", "2.12.0.dev20260307+cu130"}),
        ("default", "flashinfer-python", {"0.6.3", "0.6.4", "0.6.5", "0.6.11.post1"}),
        ("flashinfer", "flashinfer-jit-cache", {"0.6.5+cu130", "0.6.11.post1+cu130"}),
        ("default", "sglang", {"0.5.9", "0.5.12.post1"}),
        ("default", "sglang-kernel", {"0.4.2.post2"}),
        ("default", "sgl-kernel", {"0.3.21"}),
    ],
)
def test_what_each_index_holds(wheels: Path, index: str, project: str, versions: set[str]) -> None:
    found = defaultdict(set)
    for wheel in (wheels / index).glob("*.whl"):
        name, version = wheel.name.split("-")[:2]
        found[wheelfile.normalized(name)].add(version)
    assert found[project] == versions


def test_pins_that_the_guard_must_see(wheels: Path) -> None:
    def requires(name: str) -> list[str]:
        return [row.removeprefix("Requires-Dist: ") for row in about(wheels / name) if row.startswith("Requires-Dist")]

    new = requires("default/sglang-0.5.12.post1-cp312-cp312-manylinux_2_34_x86_64.whl")
    assert {"torch==2.11.0", "flashinfer_python==0.6.11.post1", "sglang-kernel==0.4.2.post2"} <= set(new)
    old = requires("default/sglang-0.5.9-py3-none-any.whl")
    assert {"torch==2.9.1", "flashinfer_python==0.6.3", "sgl-kernel==0.3.21"} <= set(old)
    assert "torch<2.11" in requires("default/flashinfer_python-0.6.4-py3-none-any.whl")
    nightly = requires("pytorch/torch-2.12.0.dev20260307+cu130-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert any(row.startswith("nvidia-cudnn-cu13==") for row in nightly)
    assert any(row.startswith("triton==3.6.0+git") for row in nightly)
    vision = requires("pytorch/torchvision-0.26.0.dev20260307+cu130-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert "torch==2.12.0.dev20260307" in vision


def test_every_requirement_can_be_met(wheels: Path) -> None:
    projects = {wheelfile.normalized(wheel.name.split("-")[0]) for wheel in wheels.glob("*/*.whl")}
    for entry in catalogue.entries():
        for requirement in entry.requires:
            name = requirement.split(";")[0]
            for mark in "<>=!":
                name = name.split(mark)[0]
            assert wheelfile.normalized(name.strip()) in projects, f"{entry.name}: {requirement}"


@pytest.mark.slow
def test_kernel_library_holds_sm120a_code(tmp_path: Path) -> None:
    library = build.compile_kernel()
    if library is None:
        pytest.skip("no nvcc of CUDA 13 here: the kernel wheel goes without its library")
    assert library[:4] == b"\x7fELF"
    from ansible_collections.blackwell.sglang.plugins.module_utils import _fatbin

    path = tmp_path / "common_ops.abi3.so"
    path.write_bytes(library)
    assert "sm_120a" in str(_fatbin.read(str(path)))


@pytest.mark.slow
def test_stack_installs_imports_and_answers(wheels: Path, tmp_path: Path) -> None:
    interpreter = build.find_python()
    if interpreter is None:
        pytest.skip("no Python 3.11 or 3.12 here, and the wheels of sglang 0.5.12.post1 are for those two")
    python = build.make_venv(tmp_path / "venv", interpreter)
    places = [f"--find-links={wheels / index}" for index in build.INDEXES]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", *places]
    subprocess.run([*pip, "sglang==0.5.12.post1", "flashinfer-jit-cache==0.6.11.post1+cu130"], check=True)

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)

    shown = run(
        "import torch, flashinfer, sgl_kernel, sglang\n"
        "print(torch.__version__, torch.version.cuda, torch.compiled_with_cxx11_abi(), torch.utils.cmake_prefix_path)\n"
        "print(flashinfer.__version__, sgl_kernel.__version__, sglang.__version__)"
    )
    first, second = shown.stdout.splitlines()
    assert first.startswith("2.11.0+cu130 13.0 True /")
    assert Path(first.split()[-1], "Torch", "TorchConfig.cmake").exists()
    assert second == "0.6.11.post1 0.4.2.post2 0.5.12.post1"
    assert build.ask_engine(python, tmp_path) == "Paris."

    subprocess.run([*pip, "--no-deps", "flashinfer-python==0.6.5", "torch==2.12.0.dev20260307+cu130"], check=True)
    broken = run("import flashinfer")
    assert (
        "RuntimeError: flashinfer-cubin version (0.6.11.post1) does not match flashinfer version (0.6.5)."
        in broken.stderr
    )
    subprocess.run([*pip, "--no-deps", "flashinfer-cubin==0.6.5"], check=True)
    assert "flashinfer-jit-cache version (0.6.11.post1+cu130) does not match" in run("import flashinfer").stderr
    subprocess.run([*pip, "--no-deps", "flashinfer-jit-cache==0.6.5+cu130"], check=True)
    assert run("import torch, flashinfer; print(torch.__version__, flashinfer.__version__)").stdout.split() == [
        "2.12.0.dev20260307+cu130",
        "0.6.5",
    ]

"""The walk of fatbinary headers, held against nvcc's own output and against cuobjdump where they are at hand."""

from __future__ import annotations

import collections
import importlib.util
import pathlib
import re
import shutil
import subprocess
import zipfile

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _elf, _fatbin
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

FIXTURE = pathlib.Path(__file__).parent / "fixtures" / "fatbin" / "kernels.so"
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
KERNEL = "__global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }\n"


def cuobjdump() -> str | None:
    """The tool on the path, or the one of the PyPI package nvidia-cuda-cuobjdump."""
    found = shutil.which("cuobjdump")
    if found:
        return found
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or [] if spec else []:
        for path in sorted(pathlib.Path(place).glob("*/bin/cuobjdump")):
            return str(path)
    return None


def listed_by_cuobjdump(path: pathlib.Path) -> tuple[dict[str, int], dict[str, int]]:
    """Architectures of (cubins, PTX) as cuobjdump's listing names them; -lelf alone would drop the f of sm_120f."""
    tool = cuobjdump()
    assert tool
    text = subprocess.run([tool, str(path)], capture_output=True, text=True, check=True).stdout
    counts: dict[str, collections.Counter[str]] = {"elf": collections.Counter(), "ptx": collections.Counter()}
    for kind, name in re.findall(r"^Fatbin (elf|ptx) code:\n=+\narch = (\S+)", text, re.MULTILINE):
        counts[kind][name] += 1
    return dict(counts["elf"]), dict(counts["ptx"])


needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine: only the shipped fixture is read")
needs_cuobjdump = pytest.mark.skipif(cuobjdump() is None, reason="no cuobjdump (PyPI: nvidia-cuda-cuobjdump)")


def build(folder: pathlib.Path, *flags: str) -> pathlib.Path:
    """Compile the smallest kernel with the real nvcc."""
    source = folder / "k.cu"
    source.write_text(KERNEL)
    out = folder / "k.so"
    assert NVCC
    subprocess.run(
        [NVCC, "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", *flags, str(source), "-o", str(out)], check=True
    )
    return out


def test_fixture_tells_plain_family_and_arch_specific_code_apart() -> None:
    library = _fatbin.read_file(str(FIXTURE))
    assert library.sass == {"sm_80": 2, "sm_90a": 2, "sm_100f": 2, "sm_120": 2, "sm_120a": 2}
    assert library.ptx == {"sm_120a": 1}
    assert library.compressed == 11
    assert library.cuda_majors == [13]
    assert "libcudart.so.13" in library.needed


def test_only_symbols_that_torch_provides_are_counted_as_torch_symbols() -> None:
    assert _fatbin.read_file(str(FIXTURE)).torch_symbols == [
        "_ZN2at5fill_EPvd",
        "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
    ]


def test_exported_names_are_read() -> None:
    assert "run" in _fatbin.exported(str(FIXTURE))


@needs_cuobjdump
def test_fixture_agrees_with_cuobjdump() -> None:
    library = _fatbin.read_file(str(FIXTURE))
    assert (library.sass, library.ptx) == listed_by_cuobjdump(FIXTURE)


@needs_nvcc
@pytest.mark.parametrize(
    ("flags", "sass", "ptx"),
    [
        (["-gencode=arch=compute_120,code=sm_120"], ["sm_120"], []),
        (["-gencode=arch=compute_120a,code=sm_120a"], ["sm_120a"], []),
        (["-gencode=arch=compute_120f,code=sm_120f"], ["sm_120f"], []),
        (["-gencode=arch=compute_120f,code=compute_120f"], [], ["sm_120f"]),
        (["-gencode=arch=compute_90,code=compute_90", "-gencode=arch=compute_90a,code=sm_90a"], ["sm_90a"], ["sm_90"]),
        (["--compress-mode=size", "-gencode=arch=compute_120a,code=[sm_120a,compute_120a]"], ["sm_120a"], ["sm_120a"]),
        (["--compress-mode=none", "-gencode=arch=compute_121a,code=sm_121a"], ["sm_121a"], []),
    ],
)
def test_fresh_output_of_nvcc(tmp_path: pathlib.Path, flags: list[str], sass: list[str], ptx: list[str]) -> None:
    built = build(tmp_path, *flags)
    library = _fatbin.read_file(str(built))
    assert list(library.sass) == sass
    assert list(library.ptx) == ptx
    if cuobjdump():
        assert (library.sass, library.ptx) == listed_by_cuobjdump(built)


def test_wheel_and_folder_are_read_alike(tmp_path: pathlib.Path) -> None:
    wheel = tmp_path / "kernels-1.0-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FIXTURE, "kernels/sm100/common_ops.abi3.so")
        archive.writestr("kernels/__init__.py", "")
    folder = tmp_path / "folder" / "sm100"
    folder.mkdir(parents=True)
    shutil.copy(FIXTURE, folder / "common_ops.abi3.so")
    (folder / "libscript.so").write_text("INPUT(-lm)\n")
    from_wheel = _fatbin.read(str(wheel))
    from_folder = _fatbin.read(str(tmp_path / "folder"))
    assert [library.path for library in from_wheel] == [f"{wheel.name}!kernels/sm100/common_ops.abi3.so"]
    assert [library.sass for library in from_wheel] == [library.sass for library in from_folder]
    assert _fatbin.summary(from_wheel)["sass"] == from_folder[0].sass


def test_library_without_gpu_code_has_no_architectures() -> None:
    path = pathlib.Path("/lib/x86_64-linux-gnu/libc.so.6")
    if not path.exists():
        pytest.skip("no libc at the usual place of this system")
    library = _fatbin.read_file(str(path))
    assert (library.sass, library.ptx, library.cuda_majors, library.torch_symbols) == ({}, {}, [], [])


@pytest.mark.parametrize("size", [0, 10, 200, 5000])
def test_cut_off_library_is_refused_by_name(tmp_path: pathlib.Path, size: int) -> None:
    path = tmp_path / "cut.so"
    path.write_bytes(FIXTURE.read_bytes()[:size])
    with pytest.raises(SglangError, match=r"cut\.so"):
        _fatbin.read_file(str(path))


def test_damaged_fatbinary_is_refused_and_not_guessed(tmp_path: pathlib.Path) -> None:
    data = bytearray(FIXTURE.read_bytes())
    section = _elf.Elf(bytes(data), "fixture").section(".nv_fatbin")
    assert section
    data[section.offset + 1] ^= 0xFF
    path = tmp_path / "damaged.so"
    path.write_bytes(data)
    with pytest.raises(SglangError, match="unknown fatbinary header"):
        _fatbin.read_file(str(path))


def test_missing_path_and_broken_wheel_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match="no such file"):
        _fatbin.read(str(tmp_path / "none"))
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK no archive")
    with pytest.raises(SglangError, match=r"broken\.whl"):
        _fatbin.read(str(broken))

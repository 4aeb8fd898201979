"""Which wheels fit a host, held against the library `packaging`, and the question about FlashInfer."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _wheel_match as match
from ansible_collections.blackwell.sglang.plugins.module_utils._wheel_index import IndexFile, Project
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, cpython_tags
from packaging.utils import parse_wheel_filename

HOST = match.Target("3.12", "x86_64", (2, 36), "cu130")
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)] + [
    "manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64",
]  # fmt: skip


def tags() -> set[Tag]:
    from packaging.tags import compatible_tags

    return {*cpython_tags((3, 12), platforms=PLATFORMS), *compatible_tags((3, 12), "cp312", PLATFORMS)}


@pytest.mark.parametrize(
    "name",
    [
        "torch-2.12.0.dev20260307+cu130-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.12.0-cp313-cp313-manylinux_2_28_x86_64.whl",
        "torch-2.12.0-cp312-cp312t-manylinux_2_28_x86_64.whl",
        "sglang_kernel-0.4.10-cp310-abi3-manylinux2014_x86_64.whl",
        "sglang_kernel-0.4.10-cp313-abi3-manylinux2014_x86_64.whl",
        "a-1-cp312-cp312-manylinux_2_39_x86_64.whl",
        "a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "a-1-cp312-cp312-manylinux_2_28_aarch64.whl",
        "a-1-cp312-cp312-musllinux_1_2_x86_64.whl",
        "a-1-cp312-cp312-win_amd64.whl",
        "a-1-py3-none-any.whl",
        "a-1-py2.py3-none-any.whl",
        "a-1-py2-none-any.whl",
        "a-1-py311-none-any.whl",
        "a-1-py313-none-any.whl",
        "a-1-cp312-none-any.whl",
        "a-1-py3-none-manylinux1_x86_64.whl",
        "a-1-2-py3-none-linux_x86_64.whl",
    ],
)
def test_a_wheel_fits_where_packaging_says_so(name: str) -> None:
    wheel = match.read_name(name)
    assert wheel is not None
    assert match.fits(wheel, HOST) is bool(parse_wheel_filename(name)[3] & tags())


@pytest.mark.parametrize(
    "clause",
    [">=3.10", ">=3.10,<3.13", "!=3.11.*", "==3.12.*", "~=3.11", "~=3.11.2", "<3.12", ">3.12", "==2.11.0",
     "==2.11.0+cu130", ">2.11.0", "<2.12.0", "<=2.12.0", "!=2.11.0", ">=2.12.0.dev20260101", "===2.11.0",
     "==2.*", "~=2.11.0"],
)  # fmt: skip
@pytest.mark.parametrize(
    "version", ["3.9", "3.11", "3.12", "3.12.0", "2.11.0", "2.11.0+cu130", "2.11.0.post1", "2.12.0.dev20260307", "2.12"]
)
def test_a_specifier_admits_what_packaging_admits(clause: str, version: str) -> None:
    assert match.admits(clause, version) is SpecifierSet(clause).contains(version, prereleases=True)


def test_no_specifier_admits_all() -> None:
    assert match.admits(None, "1")
    assert match.admits("", "1")


def project(name: str, *files: str, yanked: str | None = None) -> Project:
    return Project(name, "u", "found", files=[IndexFile(file, f"u/{file}", yanked=yanked) for file in files])


def test_versions_of_another_cuda_and_withdrawn_ones_are_left_out() -> None:
    torch = project(
        "torch",
        *(
            f"torch-2.12.0.dev202603{day}+{tag}-cp312-cp312-linux_x86_64.whl"
            for day in ("07", "10")
            for tag in ("cu130", "cu128")
        ),
        "torch-2.9.1-cp312-cp312-linux_x86_64.whl",
    )  # fmt: skip
    torch.files.append(IndexFile("torch-2.13.0+cu130-cp312-cp312-linux_x86_64.whl", "u", yanked="crashes"))
    assert list(match.usable(torch, HOST)) == ["2.9.1", "2.12.0.dev20260307+cu130", "2.12.0.dev20260310+cu130"]


PYTHON = ("flashinfer_python-0.6.5-py3-none-any.whl", "flashinfer_python-0.6.11.post1-py3-none-any.whl")
CACHE = "flashinfer_jit_cache-{}+cu130-cp39-abi3-manylinux_2_28_x86_64.whl"
TORCH = "2.12.0.dev20260307+cu130"


def parts(cache: str | None, cubin: str | None) -> dict[str, Project]:
    found = {"flashinfer-python": project("flashinfer-python", *PYTHON)}
    if cache:
        found["flashinfer-jit-cache"] = project("flashinfer-jit-cache", CACHE.format(cache))
    if cubin:
        found["flashinfer-cubin"] = project("flashinfer-cubin", f"flashinfer_cubin-{cubin}-py3-none-any.whl")
    return found


def test_no_build_for_a_nightly_but_the_decoupled_parts_are_there() -> None:
    answer = match.flashinfer(parts("0.6.11.post1", "0.6.11.post1"), HOST, TORCH, "")
    assert answer["build"] is None
    assert answer["usable"]
    assert answer["decoupled"] == {
        "flashinfer-python": "0.6.11.post1",
        "flashinfer-jit-cache": "0.6.11.post1+cu130",
        "flashinfer-cubin": "0.6.11.post1",
    }
    assert "none needs to be" in answer["answer"]


def test_the_newest_version_with_a_jit_cache_wins_over_a_newer_one_without() -> None:
    answer = match.flashinfer(parts("0.6.5", None), HOST, TORCH, "")
    assert answer["version"] == "0.6.5"
    assert "no flashinfer-cubin" in answer["answer"]
    assert "no flashinfer-jit-cache" not in answer["answer"]


def test_a_wanted_version_without_its_parts_says_which_are_missing() -> None:
    answer = match.flashinfer(parts("0.6.5", "0.6.5"), HOST, TORCH, "", "0.6.11.post1")
    assert answer["usable"]
    assert answer["decoupled"]["flashinfer-jit-cache"] is None
    assert "nvcc" in answer["answer"]


def test_a_build_for_this_torch_is_found_and_one_for_another_is_not() -> None:
    old = project("flashinfer-python", "flashinfer_python-0.2.5+cu130torch2.12-cp38-abi3-linux_x86_64.whl")
    answer = match.flashinfer({"flashinfer-python": old}, HOST, TORCH)
    assert answer["build"] == "0.2.5+cu130torch2.12"
    other = match.flashinfer({"flashinfer-python": old}, HOST, "2.9.1")
    assert (other["build"], other["usable"]) == (None, False)


def test_a_flashinfer_that_does_not_admit_the_torch_is_not_usable() -> None:
    answer = match.flashinfer(parts("0.6.5", "0.6.5"), HOST, TORCH, "<2.10")
    assert not answer["usable"]
    assert "does not admit" in answer["answer"]


def test_requirements_of_extras_do_not_count() -> None:
    metadata = {"Requires-Dist": ['torch==2.9; extra == "test"', "torchvision", "Torch (>=2.4)"]}
    assert match.requires(metadata, "torch") == ">=2.4"
    assert match.requires({"Requires-Dist": ["torch"]}, "torch") == ""
    assert match.requires(metadata, "numpy") is None

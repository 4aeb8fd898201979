"""The patch catalogue: each generation of the source is told apart, twice is once, and revert restores the bytes."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _cmake, _patch_set, _patches
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

FIXTURES = pathlib.Path(__file__).parent / "fixtures" / "patches"
LAB = pathlib.Path(__file__).resolve().parents[4] / "tests" / "lab" / "kernel-src" / "sgl-kernel"
FLASH = """try:
    from sgl_kernel import flash_ops
except:
    raise ImportError("Can not import FA3 in sgl_kernel. Please check your installation.")


def attend(q):
    return flash_ops.fwd(q)
"""


@pytest.fixture
def source(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> pathlib.Path:
    """A copy of a generation of the kernel's source."""
    origin = LAB if request.param == "lab" else FIXTURES / request.param
    target = tmp_path / "sgl-kernel"
    shutil.copytree(origin, target)
    if request.param != "lab":
        module = target / "python" / "sgl_kernel" / "flash_attn.py"
        module.parent.mkdir(parents=True)
        module.write_text(FLASH)
    return target


ALL = ["autumn_2025", "early_2026", "since_july_2026", "lab"]


def statuses(folder: pathlib.Path) -> dict[str, str]:
    """What each patch found."""
    return {patch["id"]: patch["status"] for patch in _patch_set.plan(folder, None).patches}


def files(folder: pathlib.Path) -> dict[str, bytes]:
    """Bytes of every file under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("source", "cccl", "fa3"),
    [
        ("autumn_2025", "needed", "needed"),
        ("early_2026", "needed", "needed"),
        ("since_july_2026", "obsolete", "present"),
        ("lab", "needed", "needed"),
    ],
    indirect=["source"],
)
def test_generations_are_told_apart(source: pathlib.Path, cccl: str, fa3: str) -> None:
    assert statuses(source) == {
        "cmp0169-guard": "needed",
        "cmp0177-guard": "needed",
        "cccl-include": cccl,
        "fa3-option": fa3,
        "gencode-sm120": "needed",
        "fa3-import": "needed",
    }


@pytest.mark.parametrize("source", ALL, indirect=True)
def test_twice_is_once_and_revert_restores_the_bytes(source: pathlib.Path) -> None:
    original = files(source)
    first = _patch_set.plan(source, None)
    _patch_set.apply(source, first)
    patched = files(source)
    assert patched["CMakeLists.txt"] != original["CMakeLists.txt"]
    second = _patch_set.plan(source, None)
    assert not second.changed
    assert second.digest == first.digest
    assert [patch["applied"] for patch in second.patches] == [patch["applied"] for patch in first.patches]
    assert "needed" not in {patch["status"] for patch in second.patches}
    _patch_set.revert(source)
    assert files(source) == original


@pytest.mark.parametrize("source", ALL, indirect=True)
def test_only_sm120_is_left_where_it_was_and_other_lists_stay(source: pathlib.Path) -> None:
    before = (source / "CMakeLists.txt").read_text()
    _patch_set.apply(source, _patch_set.plan(source, ["gencode-sm120"]))
    left: dict[str, list[str]] = {}
    for call in _cmake.commands((source / "CMakeLists.txt").read_text()):
        name = call.words[1] if call.name == "list" else (call.words or [""])[0]
        left.setdefault(name, []).extend(word for word in call.words if "gencode" in word)
    assert left["SGL_KERNEL_CUDA_FLAGS"] == ["-gencode=arch=compute_120a,code=sm_120a"]
    flash = before.count("SGL_FLASH_KERNEL_CUDA_FLAGS")
    assert bool(left.get("SGL_FLASH_KERNEL_CUDA_FLAGS")) == bool(flash)


@pytest.mark.parametrize("source", ["early_2026"], indirect=True)
def test_what_is_not_an_architecture_is_left_alone(source: pathlib.Path) -> None:
    _patch_set.apply(source, _patch_set.plan(source, None))
    text = (source / "CMakeLists.txt").read_text()
    for kept in ('"--compress-mode=size"', "(but never referenced)", '"-DNDEBUG"', "find_package(Torch REQUIRED)"):
        assert kept in text
    assert text.count("if(POLICY CMP0169)") == 1
    assert "\n    set(SGL_KERNEL_ENABLE_FA3 ON)" not in text


def test_a_policy_in_a_comment_or_guarded_already_is_not_touched() -> None:
    guarded = "if(POLICY CMP0169)\n  cmake_policy(SET CMP0169 OLD)\nendif()\n"
    assert _patches.by_id(["cmp0169-guard"])[0].probe(guarded).status == "present"
    comment = "# cmake_policy(SET CMP0169 OLD)\n"
    assert _patches.by_id(["cmp0169-guard"])[0].probe(comment).status == "obsolete"


def test_the_module_can_be_imported_and_fails_where_fa3_is_used() -> None:
    verdict = _patches.by_id(["fa3-import"])[0].probe(FLASH)
    assert verdict.text
    names: dict[str, object] = {}
    exec(verdict.text, names)
    attend = names["attend"]
    assert callable(attend)
    with pytest.raises(ImportError, match="Can not import FA3"):
        attend(1)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ("fa3-option", "if (SGL_KERNEL_ENABLE_FA3)\nendif()\n"),
        ("fa3-option", "option(SGL_KERNEL_ENABLE_FA3 x OFF)\nset(SGL_KERNEL_ENABLE_FA3 ON)\n"),
        ("gencode-sm120", 'set(FLAGS "-gencode=arch=compute_120,code=sm_120")\n'),
        ("gencode-sm120", "string(APPEND FLAGS -gencode=arch=compute_90,code=sm_90)\n"),
        ("cccl-include", "add_subdirectory(mscclpp)\n"),
        ("fa3-import", "if flash_ops is None:\n    raise ImportError()\n"),
    ],
)
def test_an_unknown_form_is_said_to_be_unknown(patch: str, text: str) -> None:
    verdict = _patches.by_id([patch])[0].probe(text)
    assert (verdict.status, verdict.text) == ("unrecognised", None)


def test_a_named_patch_that_does_not_recognise_the_source_stops(tmp_path: pathlib.Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("add_subdirectory(mscclpp)\n")
    assert statuses(tmp_path)["cccl-include"] == "unrecognised"
    with pytest.raises(SglangError, match="cccl-include does not recognise"):
        _patch_set.plan(tmp_path, ["cccl-include"])


def test_wrong_folder_and_unknown_patch_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match=r"kernel\.subdirectory"):
        _patch_set.plan(tmp_path, None)
    (tmp_path / "CMakeLists.txt").touch()
    with pytest.raises(SglangError, match="there is no patch nope"):
        _patch_set.plan(tmp_path, ["nope"])


@pytest.mark.parametrize("source", ["early_2026"], indirect=True)
def test_somebody_elses_change_is_not_thrown_away(source: pathlib.Path) -> None:
    _patch_set.apply(source, _patch_set.plan(source, None))
    path = source / "CMakeLists.txt"
    path.write_text(path.read_text() + "# mine\n")
    with pytest.raises(SglangError, match="changed after it was patched"):
        _patch_set.revert(source)
    assert path.read_text().endswith("# mine\n")


@pytest.mark.parametrize("source", ["early_2026"], indirect=True)
def test_line_ends_survive(source: pathlib.Path) -> None:
    path = source / "CMakeLists.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    original = files(source)
    _patch_set.apply(source, _patch_set.plan(source, None))
    _patch_set.revert(source)
    assert files(source) == original


def test_cmake_reader_knows_quotes_comments_brackets_and_nesting() -> None:
    text = 'if(A) # if(B\nset(X "a)b" [=[c]]d]=] e\\ f) #[[ long\nset(Y) ]]\n'
    text += "foreach(i x)\nset(Z ${i})\nendforeach()\nendif()\n"
    calls = list(_cmake.commands(text))
    assert [call.name for call in calls] == ["if", "set", "foreach", "set", "endforeach", "endif"]
    assert calls[1].words == ["X", "a)b", "c]]d", "e\\ f"]
    assert [block.name for block in calls[3].within] == ["if", "foreach"]
    assert text[calls[1].start : calls[1].end] == 'set(X "a)b" [=[c]]d]=] e\\ f)'
    assert calls[5].within == []

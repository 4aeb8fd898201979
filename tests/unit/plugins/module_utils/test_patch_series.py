"""An operator's own patches, made by git and compared with what git itself makes of them."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _patch_series
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

TEXT = "".join(f"line {number}\n" for number in range(1, 61))


def git(folder: pathlib.Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "source"
    (folder / "sgl-kernel").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "sgl-kernel" / "a.txt").write_text(TEXT)
    (folder / "sgl-kernel" / "b.txt").write_text("only\nno newline at the end")
    (folder / "gone.txt").write_text("gone\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def change(source: pathlib.Path) -> str:
    """A patch with three hunks, a new file and a removed one; the source is clean again afterwards."""
    edited = (
        TEXT.replace("line 3\n", "line three\nand more\n").replace("line 30\n", "").replace("line 58\n", "LINE 58\n")
    )
    (source / "sgl-kernel" / "a.txt").write_text(edited)
    (source / "sgl-kernel" / "new.txt").write_text("new\nfile\n")
    (source / "gone.txt").unlink()
    git(source, "add", "-A")
    patch = git(source, "diff", "--cached", "--no-renames")
    git(source, "reset", "-q", "--hard")
    return patch


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and path.name != _patch_series.MARKER
    }


def series(*texts: str) -> list[dict[str, str]]:
    return [{"name": f"0{number}.patch", "text": text} for number, text in enumerate(texts, 1)]


def test_it_makes_what_git_makes(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    patch = change(source)
    _before, after = _patch_series.work_out(source, series(patch))
    _patch_series.write(source, after, series(patch))
    ours = files(source)
    git(source, "reset", "-q", "--hard")
    git(source, "clean", "-qfd")
    (tmp_path / "p.patch").write_text(patch)
    git(source, "apply", str(tmp_path / "p.patch"))
    assert ours == files(source)
    assert "gone.txt" not in ours


def test_a_hunk_that_moved_is_found(source: pathlib.Path, tmp_path: pathlib.Path) -> None:
    patch = change(source)
    path = source / "sgl-kernel" / "a.txt"
    path.write_text(path.read_text().replace("line 20\n", "line 20\nbetween\nbetween\n").replace("line 40\n", ""))
    (tmp_path / "p.patch").write_text(patch)
    _before, after = _patch_series.work_out(source, series(patch))
    git(source, "apply", str(tmp_path / "p.patch"))
    assert after["sgl-kernel/a.txt"] == path.read_text()


def test_a_hunk_that_fails_is_named_and_nothing_is_written(source: pathlib.Path) -> None:
    patch = change(source)
    path = source / "sgl-kernel" / "a.txt"
    path.write_text(path.read_text().replace("line 57\n", "line 57, changed upstream\n"))
    before = files(source)
    with pytest.raises(SglangError) as caught:
        _patch_series.work_out(source, series(patch))
    said = str(caught.value)
    assert "hunk 3 of 01.patch" in said
    assert "sgl-kernel/a.txt" in said
    assert "kernel.series" in said
    assert files(source) == before


def test_later_patches_build_on_earlier_ones(source: pathlib.Path) -> None:
    first = "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-gone\n+here\n"
    second = "--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1,2 @@\n here\n+to stay\n"
    _before, after = _patch_series.work_out(source, series(first, second))
    assert after == {"gone.txt": "here\nto stay\n"}
    with pytest.raises(SglangError, match=r"hunk 1 of 01\.patch"):
        _patch_series.work_out(source, series(second, first))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no change"),
        ("diff --git a/x b/x\nGIT binary patch\n", "no change of text"),
        ("diff --git a/x b/y\nrename from x\nrename to y\n", "no change of text"),
        ("--- a/gone.txt\n+++ b/gone.txt\n@@ -1,9 +1,9 @@\n gone\n@@ -20 +20 @@\n", "cut off"),
        ("--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "outside"),
        ("--- a/none.txt\n+++ b/none.txt\n@@ -1 +1 @@\n-a\n+b\n", "not there"),
        ("--- /dev/null\n+++ b/gone.txt\n@@ -0,0 +1 @@\n+a\n", "there already"),
    ],
)
def test_what_cannot_be_applied_is_said(source: pathlib.Path, text: str, word: str) -> None:
    with pytest.raises(SglangError, match=word):
        _patch_series.work_out(source, series(text))


def test_the_digest_is_of_texts_in_their_order() -> None:
    assert _patch_series.digest([]) == ""
    assert _patch_series.digest(series("a", "b")) != _patch_series.digest(series("b", "a"))
    renamed = [{"name": "x", "text": "a"}]
    assert _patch_series.digest(renamed) == _patch_series.digest(series("a"))

"""The bare git repository that /git/sgl-kernel.git serves, made from tests/lab/kernel-src."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from . import digest
from .names import cache_root, repository
from .shell import LabError, locked, run, say

VERSION_TAG = "v0.4.2.post2"
# The kernel as it lies in SGLang's repository since July 2026.
NEW_LAYOUT_TAG = "v0.4.10"
NEW_LAYOUT = "python/sglang/kernels/aot"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "blackwell.sglang contributors",
    "GIT_AUTHOR_EMAIL": "lab@example.com",
    "GIT_COMMITTER_NAME": "blackwell.sglang contributors",
    "GIT_COMMITTER_EMAIL": "lab@example.com",
    "GIT_AUTHOR_DATE": "2026-03-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-03-01T00:00:00Z",
    # Neither the person's nor the machine's settings may change the commit's hash.
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def source() -> Path:
    """Folder of the kernel's source tree."""
    return repository() / "tests/lab/kernel-src"


def build() -> Path:
    """Return the folder of the bare repositories; identical sources give an identical commit."""
    target = cache_root() / "git" / digest.of_trees([source()], "3")
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/git"):
        if target.is_dir():
            return target
        say("making the kernel's git repository")
        tmp = target.with_name(target.name + ".tmp")
        shutil.rmtree(tmp, ignore_errors=True)
        work, bare = tmp / "work", tmp / "sgl-kernel.git"
        for path in digest.files_below(source()):
            copy = work / path.relative_to(source())
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        env = {**os.environ, **_IDENTITY}
        git = [
            "git",
            "-C",
            str(work),
            "-c",
            "init.defaultBranch=main",
            "-c",
            "core.autocrlf=false",
            "-c",
            "core.filemode=true",
        ]
        run([*git, "init", "-q"], env=env)
        run([*git, "add", "--all", "--force"], env=env)
        run([*git, "commit", "-q", "-m", "sgl-kernel 0.4.2.post2"], env=env)
        run([*git, "tag", VERSION_TAG], env=env)
        if (work / "sgl-kernel").is_dir():
            _to_new_layout(work)
            run([*git, "add", "--all", "--force"], env=env)
            run([*git, "commit", "-q", "-m", "Move sgl-kernel into the engine"], env=env)
            run([*git, "tag", NEW_LAYOUT_TAG], env=env)
        run(["git", "clone", "-q", "--bare", work, bare], env=env)
        # A fetch of a bare commit hash works on the large forges; it does so here.
        run(["git", "-C", bare, "config", "uploadpack.allowAnySHA1InWant", "true"], env=env)
        run(["git", "-C", bare, "update-server-info"], env=env)
        shutil.rmtree(work)
        tmp.rename(target)
    return target


def _to_new_layout(work: Path) -> None:
    """Move the kernel to where it lies now, without what upstream has mended meanwhile."""
    target = work / NEW_LAYOUT
    target.parent.mkdir(parents=True)
    (work / "sgl-kernel").rename(target)
    cmake = target / "CMakeLists.txt"
    text = cmake.read_text(encoding="utf-8")
    # The caller's choice about FA3 counts, and host code finds CUDA 13's C++ headers.
    text, forced = re.subn(r"^ *set\(SGL_KERNEL_ENABLE_FA3 ON\)\n", "", text, flags=re.MULTILINE)
    include = "${CUDAToolkit_BIN_DIR}/../include"
    found = text.count(f"{include})")
    text = text.replace(f"{include})", f"{include} {include}/cccl)")
    if not (forced and found):
        raise LabError("tests/lab/kernel-src/sgl-kernel/CMakeLists.txt has changed: correct labkit/kernel_repo.py")
    cmake.write_text(text, encoding="utf-8")

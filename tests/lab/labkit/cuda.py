"""The CUDA toolkit of the lab's hosts: this machine's, else one put together from NVIDIA's packages on PyPI."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .names import cache_root
from .pypi import pip
from .shell import locked, run, say

VERSION = "13.0"
# nvcc with its device code generator, headers and libraries for kernels; cuobjdump is on PyPI since 13.2 only.
PACKAGES = (
    *(f"nvidia-cuda-{name}=={VERSION}.*" for name in ("nvcc", "crt", "runtime", "cccl")),
    f"nvidia-nvvm=={VERSION}.*",
    "nvidia-cuda-cuobjdump>=13.2",
)


@dataclass(frozen=True)
class Toolkit:
    """`source` lies on this machine, `target` is where hosts of the lab see it."""

    source: Path
    target: Path

    @property
    def nvcc(self) -> Path:
        return self.source / "bin/nvcc"


def toolkit() -> Toolkit:
    """This machine's newest /usr/local/cuda-X.Y with an nvcc, else that of PyPI (SGLANG_LAB_CUDA=pypi forces it)."""
    if os.environ.get("SGLANG_LAB_CUDA") != "pypi":
        found = [path for path in Path("/usr/local").glob("cuda-[0-9]*") if (path / "bin/nvcc").exists()]
        real = [path for path in found if not path.is_symlink()]
        if real:
            newest = max(real, key=lambda path: tuple(int(n) for n in path.name[5:].split(".") if n.isdigit()))
            return Toolkit(newest, newest)
    return Toolkit(_from_pypi(), Path(f"/usr/local/cuda-{VERSION}"))


def _from_pypi() -> Path:
    target = cache_root() / "cuda" / VERSION
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/cuda"):
        if not target.is_dir():
            say(f"downloading CUDA {VERSION} from PyPI (no toolkit under /usr/local; once)")
            tmp = target.with_name(target.name + ".tmp")
            shutil.rmtree(tmp, ignore_errors=True)
            options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--root-user-action=ignore"]
            run([*pip(), "install", *options, "--target", tmp, *PACKAGES], tied=True)
            tree = tmp / "nvidia" / f"cu{VERSION.partition('.')[0]}"
            _complete(tree)
            tree.rename(target)
            shutil.rmtree(tmp)
    return target


def _complete(tree: Path) -> None:
    """Add the links that the toolkit's installer makes: lib64, targets, and the names that linkers look for."""
    (tree / "lib64").symlink_to("lib")
    target = tree / "targets/x86_64-linux"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("include", "lib"):
        if not (target / name).exists():
            (target / name).symlink_to(f"../../{name}")
    for library in (tree / "lib").glob("*.so.[0-9]*"):
        plain = library.with_name(library.name.partition(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)

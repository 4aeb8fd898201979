"""The kernel wheel of a released SGLang: where it was built with a CUDA toolkit, it holds SM120 code and loads it."""

from __future__ import annotations

import ctypes
from pathlib import Path

from sgl_kernel.version import __version__

__all__ = ["__version__", "runtime_version"]

_found = sorted(Path(__file__).resolve().parent.glob("sm100/common_ops*.so"))


def _load() -> ctypes.CDLL | None:
    if not _found:
        return None
    try:
        return ctypes.CDLL(str(_found[0]))
    except OSError as error:
        raise ImportError(f"[sgl_kernel] CRITICAL: Could not load any common_ops library!\n{error}") from error


_library = _load()


def runtime_version() -> int | None:
    """CUDA runtime that the library is linked against, as major * 1000 + minor * 10; None without a library."""
    return None if _library is None else int(_library.lab_runtime_version())

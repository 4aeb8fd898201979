"""Where kernels are compiled and cached, and the check that the three distributions are of one version."""

import os
from pathlib import Path

from flashinfer.version import __version__ as flashinfer_version

FLASHINFER_BASE_DIR = Path(os.environ.get("FLASHINFER_WORKSPACE_BASE", str(Path.home())))
FLASHINFER_CACHE_DIR = FLASHINFER_BASE_DIR / ".cache" / "flashinfer"
HINT = "Please install the same version of both packages. Set FLASHINFER_DISABLE_VERSION_CHECK=1 to bypass this check."


def _unchecked() -> bool:
    return os.environ.get("FLASHINFER_DISABLE_VERSION_CHECK", "") not in ("", "0")


def _cubin_dir() -> Path:
    try:
        import flashinfer_cubin
    except ImportError:
        return Path(os.environ.get("FLASHINFER_CUBIN_DIR", str(FLASHINFER_CACHE_DIR / "cubins")))
    found = flashinfer_cubin.__version__
    if found != flashinfer_version and not _unchecked():
        raise RuntimeError(
            f"flashinfer-cubin version ({found}) does not match flashinfer version ({flashinfer_version}). {HINT}"
        )
    return Path(flashinfer_cubin.get_cubin_dir())


def _aot_dir() -> Path:
    try:
        import flashinfer_jit_cache
    except ImportError:
        return Path(__file__).resolve().parents[1] / "data" / "aot"
    found = flashinfer_jit_cache.__version__
    if found.partition("+")[0] != flashinfer_version and not _unchecked():
        raise RuntimeError(
            f"flashinfer-jit-cache version ({found}) does not match flashinfer version ({flashinfer_version}). {HINT}"
        )
    return Path(flashinfer_jit_cache.get_jit_cache_dir())


FLASHINFER_CUBIN_DIR = _cubin_dir()
FLASHINFER_AOT_DIR = _aot_dir()

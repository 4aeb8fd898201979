"""The paths that extension builds ask for."""

import os
from pathlib import Path

CUDA_HOME = os.environ.get("CUDA_HOME") or ("/usr/local/cuda" if Path("/usr/local/cuda").exists() else None)


def include_paths(device_type: str = "cpu") -> list[str]:
    """Header folders of this torch, and CUDA's where asked."""
    paths = [str(Path(__file__).resolve().parents[1] / "include")]
    if device_type == "cuda" and CUDA_HOME:
        paths.append(f"{CUDA_HOME}/include")
    return paths

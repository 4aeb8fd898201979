"""GPUs by way of nvidia-smi, since there is no driver library to ask."""

from __future__ import annotations

import os
import subprocess


def _query(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return rows
    return [rows[int(index)] for index in wanted.split(",") if index.strip().isdigit() and int(index) < len(rows)]


def is_available() -> bool:
    """Whether any GPU is there."""
    return device_count() > 0


def device_count() -> int:
    """Number of visible GPUs."""
    return len(_query("index"))


def current_device() -> int:
    """The device that is used when none is named."""
    return 0


def get_device_name(device: int = 0) -> str:
    """Name as the driver tells it."""
    return _query("name")[device][0]


def get_device_capability(device: int = 0) -> tuple[int, int]:
    """Compute capability, (12, 0) for SM120."""
    major, minor = _query("compute_cap")[device or 0][0].split(".")
    return int(major), int(minor)


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """Free and total memory in bytes."""
    total, used = (int(float(cell)) for cell in _query("memory.total,memory.used")[device])
    return (total - used) << 20, total << 20


def get_arch_list() -> list[str]:
    """Architectures that the wheel of this CUDA version holds code for."""
    from torch.version import cuda

    old = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    return [*old, "compute_120"] if cuda.startswith("13") else ["sm_70", *old]

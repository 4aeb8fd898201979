"""cuDNN by the version of its wheel."""

from __future__ import annotations

from importlib import metadata


def is_available() -> bool:
    """Whether a cuDNN wheel is installed."""
    return version() is not None


def version() -> int | None:
    """9.19.0 is 91900."""
    for name in ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"):
        try:
            major, minor, patch = metadata.version(name).split(".")[:3]
        except metadata.PackageNotFoundError:
            continue
        return int(major) * 10000 + int(minor) * 100 + int(patch)
    return None

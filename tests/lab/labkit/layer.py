"""Writing into a host's writable layer before it boots."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path


class Layer:
    """The upper folder of a host's root; parents that it creates keep the modes of the layers below.

    overlayfs takes mode and owner of a merged folder from the topmost layer: a careless mkdir would open /root to all.
    """

    def __init__(self, upper: Path, lower: Sequence[Path]) -> None:
        self.upper = upper
        self.lower = list(lower)

    def folder(self, path: str, mode: int | None = None) -> Path:
        """Make a folder (absolute path in the host) and return where it lies."""
        target = self.upper
        target.mkdir(parents=True, exist_ok=True)
        parts = Path(path).parts[1:]
        for depth, part in enumerate(parts, 1):
            target = target / part
            if not target.exists():
                target.mkdir()
                target.chmod(self._mode_below(parts[:depth]))
        if mode is not None:
            target.chmod(mode)
        return target

    def _mode_below(self, parts: Sequence[str]) -> int:
        for layer in self.lower:
            below = layer.joinpath(*parts)
            if below.is_dir():
                return below.stat().st_mode & 0o7777
        return 0o755

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file of root's."""
        target = self.folder(str(Path(path).parent)) / Path(path).name
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)

    def copy(self, source: Path, path: str, mode: int = 0o644) -> None:
        """Copy a file of this machine."""
        target = self.folder(str(Path(path).parent)) / Path(path).name
        shutil.copyfile(source, target)
        target.chmod(mode)

    def link(self, path: str, to: str) -> None:
        """Make a symbolic link."""
        target = self.folder(str(Path(path).parent)) / Path(path).name
        target.unlink(missing_ok=True)
        target.symlink_to(to)

    def enable(self, unit: str, wanted_by: str = "multi-user.target", template: str | None = None) -> None:
        """Enable a systemd unit as `systemctl enable` does."""
        self.link(f"/etc/systemd/system/{wanted_by}.wants/{unit}", f"/etc/systemd/system/{template or unit}")

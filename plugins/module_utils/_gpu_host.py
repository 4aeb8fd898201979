# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to a host's files and commands, so that readers of it can be given a tree of saved files (private)."""

from __future__ import annotations

import os
import pathlib
import re
import typing as t

# (rc, stdout, stderr); rc None when the program is not there, 124 when it ran past its time.
Answer: t.TypeAlias = "tuple[int | None, str, str]"

_SECONDS = "20"


class Host:
    """Reads that never raise: what is not there or not readable is empty.

    Args:
        run_command: ``AnsibleModule.run_command`` (or anything with its result); None makes every program absent.
        root: where the host's file system begins.
    """

    def __init__(self, run_command: t.Callable[..., tuple[int, str, str]] | None = None, root: str = "/") -> None:
        self._run_command = run_command
        self._root = pathlib.Path(root)

    def at(self, path: str) -> pathlib.Path:
        """The place of an absolute path of the host."""
        return self._root / path.lstrip("/")

    def text(self, path: str) -> str:
        """Content of a file as text; '' when it cannot be read."""
        return self.data(path).decode("utf-8", "replace")

    def data(self, path: str) -> bytes:
        """Content of a file; b'' when it cannot be read."""
        try:
            return self.at(path).read_bytes()
        except OSError:
            return b""

    def real(self, path: str) -> str:
        """The path with all links followed."""
        return self._name(self.at(path).resolve(), self._root.resolve())

    def link(self, path: str) -> str:
        """What a symbolic link says; '' when it is none or gone by now."""
        try:
            return str(self.at(path).readlink())
        except OSError:
            return ""

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted, as the host names them; nothing where a folder cannot be read."""
        try:
            return sorted(self._name(path, self._root) for path in self._root.glob(pattern.lstrip("/")))
        except OSError:
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """Status of a file or device node, links followed, or None."""
        try:
            return self.at(path).stat()
        except OSError:
            return None

    def file_system(self, path: str) -> tuple[os.statvfs_result, str] | None:
        """statvfs of the nearest folder above ``path`` that exists, and that folder's mount point."""
        place = self.at(path)
        try:
            while not place.exists() and place != place.parent:
                place = place.parent
            usage = os.statvfs(place)
            place = place.resolve()
            while not place.is_mount():
                place = place.parent
        except OSError:
            return None
        return usage, str(place)

    def which(self, name: str, search: str) -> str:
        """First executable of that name in the colon-separated folders; '' when none."""
        for folder in search.split(":"):
            path = f"{folder.rstrip('/')}/{name}"
            if folder and os.access(self.at(path), os.X_OK) and self.at(path).is_file():
                return path
        return ""

    def run(self, program: str, *words: str) -> Answer:
        """Run a program of the host (absolute path) under a time limit of 20 s; rc None when it is not there."""
        if self._run_command is None or not program or not os.access(self.at(program), os.X_OK):
            return None, "", ""
        rc, out, err = self._run_command(["timeout", "-k", "2", _SECONDS, str(self.at(program)), *words])
        return rc, out, err

    @staticmethod
    def _name(path: pathlib.Path, root: pathlib.Path) -> str:
        return "/" + str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def process(host: Host, pid: int) -> dict[str, t.Any]:
    """Parent, state and cgroup text of a process; empty values when it is not visible from here."""
    status = host.text(f"/proc/{pid}/status")
    parent = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)
    state = re.search(r"^State:\s*(\w)", status, re.MULTILINE)
    return {
        "ppid": int(parent.group(1)) if parent else None,
        "state": state.group(1) if state else None,
        "cgroup": host.text(f"/proc/{pid}/cgroup"),
    }

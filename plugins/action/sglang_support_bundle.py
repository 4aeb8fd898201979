# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what the module of the same name collected into an archive on the controller (its documentation is there)."""

from __future__ import annotations

import io
import pathlib
import tarfile
import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Runs the module on the host and keeps its files here."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the module of the same name."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        reply = self._execute_module(
            module_name="blackwell.sglang.sglang_support_bundle", module_args=dict(self._task.args), task_vars=task_vars
        )
        files = reply.pop("files", None) or {}
        result.update(reply)
        if reply.get("failed") or self._task.check_mode:
            return result
        target = pathlib.Path(str(self._task.args["dest"])).expanduser()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write(target, files)
        except OSError as exc:
            result.update(
                failed=True, msg=f"{target}: {exc.strerror or exc}. Fix: name a file that can be written here."
            )
            return result
        result["dest"] = str(target)
        return result


def write(target: pathlib.Path, files: dict[str, str]) -> None:
    """Write the archive, readable by its owner alone, under one folder of its own name."""
    folder = target.name.removesuffix(".tar.gz")
    target.touch(mode=0o600)
    target.chmod(0o600)  # also where an older one was there
    with tarfile.open(target, "w:gz") as archive:
        for name, text in sorted(files.items()):
            content = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))

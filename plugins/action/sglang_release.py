# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module sglang_release; says who owns the lock, and which lock belongs to a run that is dead."""

from __future__ import annotations

import getpass
import os
import pathlib
import platform
import time
import typing as t

from ansible.plugins.action import ActionBase


def started(pid: int) -> str:
    """When a process of this controller started, in clock ticks since boot; empty if there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The command's name stands in parentheses and may hold blanks; start time is the 22nd field.
    return text.rpartition(")")[2].split()[19]


def me() -> dict[str, t.Any]:
    """The owner of a lock that this run takes: tasks run in forks, so the run is their parent process."""
    pid, host = os.getppid(), platform.node()
    return {
        "name": f"{getpass.getuser()}@{host}",
        "host": host,
        "pid": pid,
        "token": f"{host}:{pid}:{started(pid)}",
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def dead(owner: dict[str, t.Any], mine: dict[str, t.Any]) -> bool:
    """Whether a lock was taken from this controller by a process that is gone; others cannot be judged from here."""
    pid = owner.get("pid")
    if owner.get("host") != mine["host"] or not isinstance(pid, int):
        return False
    return f"{owner['host']}:{pid}:{started(pid)}" != owner.get("token")


class ActionModule(ActionBase):
    """Wraps the module of the same name."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Run the module; if a dead run holds the lock, run it again and let it take the lock over."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("state") in ("locked", "unlocked"):
            arguments["owner"] = me()
        module = "blackwell.sglang.sglang_release"
        answer = self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)
        held = answer.get("lock")
        if answer.get("failed") and answer.get("kind") == "locked" and held and dead(held, arguments["owner"]):
            arguments["dead_token"] = held["token"]
            answer = self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)
            answer["taken_over_from"] = held["name"]
        result.update(answer)
        return result

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write one line a module call (and one a bare command) of a run to the file that MODULE_CALLS_LOG names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: module_calls
type: aggregate
short_description: Record every module call and bare command of a run
description:
  - Tasks are not what a run costs; calls to targets are, and an action plugin may make several. So the calls are
    counted where they leave the controller.
  - Each line of the file holds kind, host, name and task, separated by tabs.
options:
  log:
    description: File to append to.
    type: path
    required: true
    env:
      - name: MODULE_CALLS_LOG
"""

import os
import pathlib
import typing as t

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "module_calls"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        path = pathlib.Path(os.environ["MODULE_CALLS_LOG"])
        execute_module = ActionBase._execute_module
        low_level = ActionBase._low_level_execute_command
        inside = False

        def record(action: t.Any, kind: str, name: str) -> None:
            if action._connection.transport == "local":
                return  # never left the controller
            host = action._play_context.remote_addr
            # One write of one line: forks append to the same file.
            with path.open("a", encoding="utf-8") as log:
                log.write(f"{kind}\t{host}\t{name}\t{action._task.get_name()}\n")

        def counted_module(self: t.Any, *a: t.Any, **kw: t.Any) -> t.Any:
            nonlocal inside
            record(self, "module", kw.get("module_name") or self._task.action)
            inside = True
            try:
                return execute_module(self, *a, **kw)
            finally:
                inside = False

        def counted_command(self: t.Any, cmd: str, *a: t.Any, **kw: t.Any) -> t.Any:
            if not inside:  # a module call uses commands itself
                record(self, "command", cmd.strip().split("\n")[0][:60])
            return low_level(self, cmd, *a, **kw)

        ActionBase._execute_module = counted_module
        ActionBase._low_level_execute_command = counted_command

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module python_stack_plan, and keeps a new lock on the controller."""

from __future__ import annotations

import pathlib
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import sentence


class ActionModule(ActionBase):
    """Wraps the module of the same name; ``keep`` is the part of it that the module cannot do."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module's result; changed when a lock was kept, or would be."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        keep = str(arguments.get("keep") or "")
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        if not keep or result.get("failed") or not result.get("resolved"):
            return result
        path = pathlib.Path(keep).expanduser()
        try:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            if before == result["lock"]:
                return result
            result["changed"] = True
            if self._task.diff:
                result["diff"] = [
                    {"before_header": keep, "after_header": keep, "before": before, "after": result["lock"]}
                ]
            if not self._task.check_mode:
                _service.write_text(path, str(result["lock"]), 0o644)  # whole or not at all
        except OSError as error:
            # Not raised: Ansible would append the error itself to the words that say what to do.
            result.update(
                failed=True,
                msg=sentence(
                    f"the lock cannot be kept: {error.strerror}",
                    keep,
                    "a folder of the controller that this user may write",
                    "set nightly_stack_lock_dir to one",
                ),
            )
        return result

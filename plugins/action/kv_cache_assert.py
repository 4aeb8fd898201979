# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge on the controller what needs nothing of the host (documented in plugins/modules/kv_cache_assert.py)."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_assert
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


class ActionModule(ActionBase):
    """Calls the module only where it has something to read on the host."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The same result and the same failure on either way."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        if any(self._task.args.get(name) for name in _kv_assert.ON_THE_HOST):
            result.update(self._execute_module(task_vars=task_vars))
            return result
        options = self.validate_argument_spec(
            argument_spec=_kv_assert.ARGUMENTS,
            mutually_exclusive=_kv_assert.MUTUALLY_EXCLUSIVE,
            required_one_of=_kv_assert.REQUIRED_ONE_OF,
        )[1]
        try:
            outcome = _kv_assert.run(options, _no_command, self._task.check_mode)
        except SglangError as error:
            result.update(failed=True, msg=str(error), **error.as_dict())
            return result
        result.update(changed=False, **outcome.result)
        if outcome.warnings:
            result["warnings"] = outcome.warnings
        if outcome.failure:
            result.update(failed=True, msg=outcome.failure)
        return result


def _no_command(*words: t.Any, **options: t.Any) -> tuple[int, str, str]:
    """What is judged here asks no program; one that were asked would answer for the controller."""
    raise AssertionError(f"the controller was asked to run {words}")

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute on the controller whether a need can fit (documented in plugins/modules/kv_cache_need_assert.py)."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_need


class ActionModule(ActionBase):
    """Arithmetic only: no connection, the same in check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Fail where the need cannot fit."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        options = self.validate_argument_spec(argument_spec=_kv_need.ARGUMENTS)[1]
        outcome = _kv_need.run(options)
        result.update(changed=False, **outcome.result)
        if outcome.warnings:
            result["warnings"] = outcome.warnings
        if outcome.failure:
            result.update(failed=True, msg=outcome.failure)
        return result

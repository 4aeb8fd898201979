# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve what the current host shall serve, on the controller (documented in plugins/modules/sglang_resolve.py)."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import Problem, SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _hostvars


class ActionModule(ActionBase):
    """Reads variables only: no connection, the same in check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return ``resolved``; fail with every problem in one message unless ``fail`` is false."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _spec, options = self.validate_argument_spec(argument_spec={"fail": {"type": "bool", "default": True}})
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname", ""))
        findings = Findings(host)
        try:
            plain = _hostvars.plain_hostvars(host, variables, self._templar.template, findings)
            resolved = _instances.resolve(plain, _hostvars.shipped_stacks(), _hostvars.shipped_profiles())
        except SglangError as error:
            raise AnsibleActionFail(str(error)) from error
        resolved["problems"] = [problem.as_dict() for problem in findings.problems] + resolved["problems"]
        result.update(changed=False, resolved=resolved)
        if resolved["problems"] and options["fail"]:
            listed = [f"- {Problem(**problem).text()}" for problem in resolved["problems"]]
            result.pop("resolved")  # the message would drown in it
            result.update(
                failed=True,
                problems=resolved["problems"],
                msg="\n".join([f"{host}: {len(listed)} problem(s) in its variables", *listed]),
            )
        return result

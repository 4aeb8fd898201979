# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a whole inventory on the controller (documented in plugins/modules/sglang_validate.py)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import Problem, SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _fleet, _hostvars, _known_variables

Result = dict[str, t.Any]


class ActionModule(ActionBase):
    """Reads variables of every host of the two groups: no connection, the same in check mode."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: Result | None = None) -> Result:
        """Fail with one message that lists every problem of every host; warnings are shown."""
        result: Result = super().run(tmp, task_vars)
        _spec, options = self.validate_argument_spec(
            argument_spec={
                "hosts": {"type": "list", "elements": "str"},
                "fail": {"type": "bool", "default": True},
            }
        )
        try:
            problems, warnings, summary = self._check(task_vars or {}, options["hosts"])
        except SglangError as error:
            raise AnsibleActionFail(str(error)) from error
        for warning in _told_once(warnings):
            self._display.warning(warning.text())
        counted = f"{len(summary)} host(s), {sum(len(entry) for entry in summary.values())} instance(s)"
        result.update(
            changed=False,
            hosts=summary,
            problems=[problem.as_dict() for problem in problems],
            warned=[warning.as_dict() for warning in warnings],
            msg=f"{counted}: no problem found, {len(warnings)} warning(s)",
        )
        if problems:
            told = _told_once(problems)
            lines = [f"{len(told)} problem(s) in the inventory; nothing was changed, no host was contacted:"]
            lines += [f"  {number}. {problem.text()}" for number, problem in enumerate(told, 1)]
            result.update(failed=options["fail"], msg="\n".join(lines))
        return result

    def _check(self, variables: Result, only: list[str] | None) -> tuple[list[Problem], list[Problem], Result]:
        groups, hostvars = variables.get("groups") or {}, variables["hostvars"]
        general = Findings()
        _fleet.check_groups(groups, general)
        all_findings: dict[str, Findings] = {}
        resolved: dict[str, Result] = {}
        for host in dict.fromkeys([*(groups.get("proxmox_hosts") or []), *(groups.get("sglang_hosts") or [])]):
            if only is not None and host not in only:
                continue
            findings = all_findings.setdefault(host, Findings(host))
            raw = hostvars.raw_get(host)
            templar = self._templar.copy_with_new_env(available_variables={**raw, "hostvars": hostvars})
            _known_variables.check_names(raw, findings)
            _known_variables.check_types(raw, templar.template, findings)
            if host in (groups.get("sglang_hosts") or []):
                plain = _hostvars.plain_hostvars(host, raw, templar.template, findings)
                resolved[host] = _instances.resolve(plain, _hostvars.shipped_stacks(), _hostvars.shipped_profiles())
                findings.problems += [Problem(**problem) for problem in resolved[host]["problems"]]
                findings.warnings += [Problem(**warning) for warning in resolved[host]["warnings"]]
                _fleet.check_references(resolved[host], groups, findings)
                if raw.get("ansible_connection") == "local":
                    _fleet.check_local_files(resolved[host], findings)
        _fleet.check_guests(resolved, all_findings.__getitem__)
        ordered = [general, *all_findings.values()]
        return (
            [problem for findings in ordered for problem in findings.problems],
            [warning for findings in ordered for warning in findings.warnings],
            {host: [_line(instance) for instance in entry["instances"]] for host, entry in resolved.items()},
        )


def _told_once(findings: t.Iterable[Problem]) -> list[Problem]:
    """The findings for a message: what several hosts share, as of a variable of their group, stands there once."""
    hosts: dict[Problem, list[str]] = {}
    for finding in findings:
        hosts.setdefault(dataclasses.replace(finding, host=""), []).append(finding.host)
    return [dataclasses.replace(finding, host=", ".join(filter(None, names))) for finding, names in hosts.items()]


def _line(instance: Result) -> str:
    """One instance on one line, for the summary."""
    return (
        f"{instance['name']}: {instance['state']}, sglang {instance['engine_version'] or '(version unknown)'}"
        f" (stack {instance['stack']}), {instance['model_path']}, KV cache {instance['kv_cache_dtype']},"
        f" TP {instance['tp_size']}, {instance['listen']['host']}:{instance['listen']['port']}"
    )

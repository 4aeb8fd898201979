# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a host and the record of the run (documented in plugins/modules/deploy_report.py).

All is known on the controller by the end of a run, so no module is called; the record reaches the host as one command.
"""

from __future__ import annotations

import datetime
import getpass
import json
import os
import pathlib
import re
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _report,
    _report_files,
    _report_record,
    _report_redact,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# What roles leave behind for the report, by name.
RESULTS = (
    "sglang_resolved",
    "gpu_host_result",
    "nightly_stack_result",
    "sgl_kernel_result",
    "sglang_service_result",
    "sglang_failure",
)
COLLECTION = pathlib.Path(__file__).resolve().parents[2]


class ActionModule(ActionBase):
    """Never counts as a change; writes nothing in check mode."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Paths of the pages, whether they were written, whether the record was."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        options = self.validate_argument_spec(
            argument_spec={
                "folder": {"type": "str", "default": ""},
                "exceptions": {"type": "list", "elements": "dict", "default": []},
                "record": {"type": "bool", "default": True},
                "group": {"type": "str", "default": "sglang_hosts"},
            }
        )[1]
        result.update(changed=False, written=False, recorded=False, path="", summary="")
        if self._task.check_mode:
            result["msg"] = "check mode: no report and no record are written"
            return result
        variables = task_vars or {}
        host = str(variables.get("inventory_hostname", ""))
        redactor = _report_redact.Redactor(self._secrets(variables), _folders())
        report = redactor.clean(_report.build(host, _facts(variables), _meta(options["exceptions"])))
        folder = str(pathlib.Path(options["folder"] or "reports").absolute())
        try:
            done = _report_files.write(folder, report, variables.get("groups", {}).get(options["group"], [host]))
        except SglangError as error:
            raise AnsibleActionFail(str(error)) from error
        result.update(written=done["written"], path=_shown(done["path"]), summary=_shown(done["summary"]))
        if options["record"]:
            result["recorded"] = self._record(report)
        word = "written" if done["written"] else "unchanged"
        Display().display(f"{host}: {report['result']}; report {word}: {result['path']}")
        return result

    def _record(self, report: dict[str, t.Any]) -> bool:
        """Append the run's record on the host; a host that is gone by now does not spoil the report."""
        try:
            who = getpass.getuser()
        except (KeyError, OSError):
            who = "unknown"
        record = _report_record.build(report, who, os.uname().nodename)
        try:
            answer = self._low_level_execute_command(_report_record.command(record))
        except AnsibleError as error:
            Display().warning(f"{report['host']}: the run could not be recorded: {error}")
            return False
        if answer.get("rc") != 0:
            Display().warning(f"{report['host']}: the run could not be recorded: {answer.get('stderr', '').strip()}")
            return False
        return True

    def _secrets(self, variables: t.Mapping[str, t.Any]) -> list[str]:
        """API keys of the host's instances, so that none slips into the report by way of a message."""
        try:
            instances = self._templar.template(variables.get("sglang_instances") or [])
            return [str(entry["api_key"]) for entry in instances if isinstance(entry, dict) and entry.get("api_key")]
        except Exception:  # a key that cannot be decrypted here cannot have got into a result either
            return []


def _facts(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    facts = {name: variables.get(name) for name in RESULTS}
    hypervisor = variables.get("sglang_hypervisor")
    hostvars = variables.get("hostvars") or {}
    if hypervisor and hypervisor in hostvars:
        facts["proxmox_gpu_result"] = hostvars[hypervisor].get("proxmox_gpu_result")
    return facts


def _meta(exceptions: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    return {
        "generated_at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "collection_version": _collection_version(),
        "run_seconds": _run_seconds(),
        "host_exceptions": exceptions,
    }


def _run_seconds() -> float | None:
    """Seconds since ansible-playbook started: each task runs in a child of it. None where /proc does not tell."""
    try:
        fields = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return round(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 1)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _collection_version() -> str:
    """Of the installed collection (MANIFEST.json) or the checkout (galaxy.yml)."""
    try:
        manifest = COLLECTION / "MANIFEST.json"
        if manifest.is_file():
            return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
        found = re.search(
            r"^version:\s*[\"']?([\w.+\-]+)", (COLLECTION / "galaxy.yml").read_text(encoding="utf-8"), re.M
        )
        return found.group(1) if found else "unknown"
    except (OSError, ValueError, KeyError):
        return "unknown"


def _folders() -> list[str]:
    """Folders of the controller that a message may name."""
    folders = [str(pathlib.Path.cwd()), str(COLLECTION)]
    return [folder for folder in folders if folder.count("/") > 1]


def _shown(path: str) -> str:
    """A path relative to where the run was started, if it lies there."""
    here = pathlib.Path.cwd()
    place = pathlib.Path(path)
    return str(place.relative_to(here)) if place.is_relative_to(here) else path

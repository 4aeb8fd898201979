# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a long command as a job of the target, shows its progress, and finds it again after a lost connection."""

from __future__ import annotations

import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.blackwell.sglang.plugins.module_utils import _job, _stack_uv

display = Display()
# How long to try to come back after the connection was lost; the job goes on meanwhile.
RECONNECT_SECONDS = 120.0


class ActionModule(ActionBase):
    """Starts or attaches to a job and waits for it."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the documentation of the module of the same name."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(
            argument_spec={
                "name": {"type": "str", "required": True},
                "argv": {"type": "list", "elements": "str", "required": True},
                "log": {"type": "path", "required": True},
                "environment": {"type": "dict", "default": {}},
                "chdir": {"type": "path"},
                "timeout": {"type": "int", "default": 7200},
                "poll": {"type": "int", "default": 5},
            },
        )
        host = (task_vars or {}).get("inventory_hostname", "")
        label = f"{host} | {arguments['name']}"
        if self._task.check_mode:
            display.display(f"  {label} | would run: {_stack_uv.hide_credentials(' '.join(arguments['argv']))}")
            result.update(changed=True, rc=0, skipped=True, msg="not run in check mode", log=arguments["log"])
            return result
        environment = {key: str(value) for key, value in arguments["environment"].items()}
        began = time.monotonic()
        mode = self._begin(arguments, environment)
        if mode == "other":
            result.update(
                failed=True,
                log=arguments["log"],
                msg=f"A job {arguments['name']} with another command runs on this host. Fix: wait for it, or stop "
                f"{_job.UNIT_PREFIX}{arguments['name']}.service.",
            )
            return result
        if mode == "attached":
            display.display(f"  {label} | still runs from an earlier run: attached")
        status, tail = self._wait(arguments, label, began)
        result.update(changed=True, log=arguments["log"], attached=mode == "attached")
        result["seconds"] = round(time.monotonic() - began, 1)
        if status.startswith("ended "):
            result["rc"] = int(status.split()[1])
        else:
            result["rc"] = 124 if status == "timeout" else 137
        if result["rc"] != 0:
            found = self._shell(_job.error_command(arguments["log"]))
            result["error"] = {
                "timeout": f"no end after {arguments['timeout']} s",
                "vanished": "the job was killed (out of memory, or the host restarted)",
            }.get(status, _job.first_error(found, tail))
            result.update(
                failed=True,
                msg=f"{arguments['name']} failed with status {result['rc']}: {result['error']}\n"
                f"The whole log is {arguments['log']} on the host.",
            )
        return result

    def _begin(self, arguments: dict[str, t.Any], environment: dict[str, str]) -> str:
        wanted = _job.digest(arguments["argv"], environment, arguments["chdir"])
        words = (arguments["name"], arguments["argv"], environment, arguments["chdir"], arguments["log"])
        text = _job.script(*words)
        answer = self._shell(_job.start_command(arguments["name"], arguments["log"], text, wanted)).split()
        return answer[-1] if answer else "started"

    def _wait(self, arguments: dict[str, t.Any], label: str, began: float) -> tuple[str, str]:
        shown, tail = "", ""
        pause = 0.5
        while True:
            time.sleep(pause)
            pause = min(float(arguments["poll"]), pause * 1.6)
            status, _newline, tail = self._shell(_job.poll_command(arguments["name"], arguments["log"])).partition("\n")
            status = status.strip()
            if status != "running":
                return status, tail
            line = _stack_uv.hide_credentials(_job.interesting(tail))
            if line and line != shown:
                display.display(f"  {label} | {_job.elapsed(time.monotonic() - began)} | {line}")
                shown = line
            if time.monotonic() - began > arguments["timeout"]:
                self._shell(_job.stop_command(arguments["name"]))
                return "timeout", tail

    def _shell(self, command: str) -> str:
        """Run a shell command on the target; come back after a lost connection, since the job goes on."""
        lost: float | None = None
        while True:
            try:
                answer = self._low_level_execute_command(command)
            except AnsibleConnectionFailure as error:
                lost = lost or time.monotonic()
                if time.monotonic() - lost > RECONNECT_SECONDS:
                    raise AnsibleConnectionFailure(
                        f"The connection was lost ({error}); the job goes on, the next run attaches to it."
                    ) from error
                time.sleep(3)
                continue
            if answer["rc"] == 255 and lost is None:
                lost = time.monotonic()
                self._connection.reset()
                continue
            if answer["rc"] != 0:
                raise AnsibleConnectionFailure(f"The job cannot be controlled: {answer['stderr'] or answer['stdout']}")
            return str(answer["stdout"])

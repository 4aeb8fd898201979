# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the gate in slices, so that the screen shows what a starting server does (its documentation is the module's)."""

from __future__ import annotations

import time
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

# Seconds of one slice. A slice costs a module call of 0.35 s; the screen should move while somebody watches it.
SLICE_S = 5.0
# A start takes minutes; the same words are repeated at most this often, so that a log of the run stays short.
REPEAT_S = 60.0


class ActionModule(ActionBase):
    """Calls the module until it no longer says ``waiting``."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        task_vars = task_vars or {}
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        args = dict(self._task.args)
        if isinstance(args.get("instance"), dict):
            # A module writes its arguments into the journal of the host. An environment may hold a token, and no check
            # asks for it.
            args["instance"] = {key: value for key, value in args["instance"].items() if key != "env"}
        quick = boolean(args.get("quick", False), strict=False) or self._task.check_mode
        begun = time.monotonic()
        shown, shown_at = "", 0.0
        while True:
            call = {**args}
            if not quick:
                call.update(slice=SLICE_S, waited=time.monotonic() - begun)
            reply = self._execute_module(
                module_name="blackwell.sglang.sglang_gate", module_args=call, task_vars=task_vars
            )
            if reply.get("failed") or not reply.get("waiting"):
                break
            args["invocation_id"] = reply.get("invocation_id") or ""
            words, now = str(reply.get("words") or ""), time.monotonic()
            if words != shown or now - shown_at >= REPEAT_S:
                host = task_vars.get("inventory_hostname", "?")
                name = (args.get("instance") or {}).get("name", "?")
                display.display(f"    {host} {name} after {now - begun:.0f} s: {words}")
                shown, shown_at = words, now
        result.update(reply)
        result["ready_seconds"] = round(time.monotonic() - begun, 1)
        return result

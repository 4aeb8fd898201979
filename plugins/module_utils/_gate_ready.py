# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate, first group: is it ready, and is it ours (private to the collection).

Neither an open port nor "The server is fired up and ready to roll!" proves anything: the captured server that was
beaten to its port printed that line, since the other server answered its warm-up request. So the listening process must
belong to the unit, the start must still be the one that the caller made, and a completion must come back.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _procs, _service, _unit_log
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.phases import STARTING, phase
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_limit import Limit

# Seconds between two looks: quick at first, since a small model is up at once, then easy on the host.
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
# Newest journal lines that the phase is read from: more than these looks leave in a long warm-up, one line each.
TAIL_LINES = 1000


@dataclasses.dataclass
class Wait:
    """Where the wait stands: ``ready``, ``waiting`` or ``failed``; ``words`` for the screen."""

    state: str
    words: str
    port: str = "closed"
    invocation_id: str = ""
    evidence: list[str] = dataclasses.field(default_factory=list)
    line: str = ""


def wait(context: Context, seconds: float, invocation_id: str = "", show_every: float = 0.0) -> Wait:
    """Wait up to ``seconds`` for the instance to be ready; at once back when it is, or when it cannot become so.

    Args:
        context: the gate's context.
        seconds: how long to wait in this call.
        invocation_id: the start that must be the one; empty takes the one that runs now.
        show_every: if positive, return after that many seconds even when nothing changed.
    """
    deadline = time.monotonic() + (min(seconds, show_every) if show_every > 0 else seconds)
    pause = FIRST_PAUSE_S
    while True:
        seen = look(context, invocation_id)
        invocation_id = invocation_id or seen.invocation_id
        if seen.state != "waiting" or time.monotonic() >= deadline:
            break
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
    if seen.state == "waiting":
        seen.words, seen.line = _doing(context, seen.words)
    return seen


def look(context: Context, invocation_id: str) -> Wait:
    """One look at unit, port and health."""
    unit = context.places.unit
    state = _service.unit_states(context.run, [unit])[unit]
    current = state["invocation_id"]
    if state["load"] == "not-found":
        return Wait("failed", f"{unit} does not exist", invocation_id=current)
    # Before the unit is judged: an engine that was beaten to its port may have ended of it by now.
    owner = foreign_owner(context)
    if state["active"] not in ("active", "activating") or state["sub"] == "auto-restart":
        words = f"{unit} is {state['active']} ({state['sub']}): {state['result']}, status {state['exit_status']}"
        words += f"; {owner}" if owner else ""
        return Wait("failed", words, port="taken" if owner else "closed", invocation_id=invocation_id or current)
    if invocation_id and current != invocation_id:
        return Wait(
            "failed",
            f"{unit} ended and was started again while it was waited for (restart {state['restarts']})",
            invocation_id=invocation_id,
        )
    if owner:
        return Wait("failed", owner, port="taken", invocation_id=current)
    try:
        reply = context.client.get("/health", timeout=25.0)  # the engine itself answers 503 after 20 s
    except SglangError as exc:
        if exc.kind == "no_requests":
            raise
        port = "closed" if exc.kind == "refused" else "silent"
        return Wait("waiting", f"port {port}", port=port, invocation_id=current)
    if reply.status == 503:
        return Wait("waiting", "503: loaded, not yet warmed up", port="503", invocation_id=current)
    if not reply.ok:
        return Wait("failed", f"/health answers {reply.status}", port=str(reply.status), invocation_id=current)
    return Wait("ready", "200", port="200", invocation_id=current)


def foreign_owner(context: Context) -> str:
    """A sentence when the port is answered by a process that is not of the unit; empty when it is ours or closed."""
    port = int((context.instance.get("listen") or {}).get("port") or 30000)
    others = [each for each in _procs.listeners(port) if each["unit"] != context.places.unit]
    if not others:
        return ""
    who = ", ".join(
        f"{each['name']} (pid {each['pid']}, user {each['user']}{', ' + each['unit'] if each['unit'] else ''})"
        for each in others
    )
    return f"port {port} is answered by {who}, which is not of {context.places.unit}"


def ready_unit(context: Context) -> Check:
    """The unit is active and still in the start that is to be proved."""
    unit = context.places.unit
    state = _service.unit_states(context.run, [unit])[unit]
    right = state["active"] == "active" and state["invocation_id"] == context.invocation_id != ""
    return Check(
        "ready.unit",
        right,
        f"{unit} active, invocation {context.invocation_id or 'any'}",
        f"{state['active']} ({state['sub']}), invocation {state['invocation_id'] or 'none'}",
        [f"restarts since it was started: {state['restarts']}"],
    )


def ready_port(context: Context) -> Check:
    """The port is open and the process behind it belongs to the unit."""
    port = int((context.instance.get("listen") or {}).get("port") or 30000)
    found = _procs.listeners(port)
    ours = [each for each in found if each["unit"] == context.places.unit]
    seen = ", ".join(f"{each['name']} pid {each['pid']} of {each['unit'] or 'no unit'}" for each in found) or "closed"
    right = bool(ours) and len(ours) == len(found)
    return Check("ready.port", right, f"port {port} held by {context.places.unit}", seen)


def ready_health(context: Context) -> Check:
    """/health answers 200. Necessary, never sufficient: a server whose every layer yields NaN answers 200."""
    reply = context.client.get("/health", timeout=25.0)
    return Check("ready.health", reply.ok, 200, reply.status)


def _doing(context: Context, words: str) -> tuple[str, str]:
    """What the log of this start says that the engine does now."""
    try:
        log = _unit_log.read_unit(context.run, context.places.unit, tail=TAIL_LINES, head=1)
    except SglangError:
        return words, ""
    now = phase(log.tail)
    # Where the log is read from its begin on, a line that would be known has not come yet.
    doing = now.words or (STARTING if len(log.tail) < TAIL_LINES else "")
    return f"{words}; {doing}" if doing else words, now.line


def failed_check(waited: Wait, seconds: float, limit: Limit | None) -> Check:
    """The check of a wait that ended badly; ``limit`` is None for a look that does not wait."""
    check = Check("ready.started", False, "200 from a process of the unit", waited.words, waited.evidence, seconds)
    if waited.state == "waiting":
        after = f"after {limit.seconds:g} s" if limit else "yet"
        check.seen = f"not ready {after}: {waited.words}"
        if limit:
            check.evidence.append(f"the limit is {limit.setting}, {limit.reason}: raise it if the log moves on")
        check.evidence.append(f"last log line read: {waited.line}" if waited.line else "the log says nothing yet")
    return check


CHECKS: tuple[t.Callable[[Context], Check], ...] = (ready_unit, ready_port, ready_health)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop an instance and see its GPUs free (private to the collection).

``systemctl stop`` sends TERM to the launcher, which passes it on, and after the unit's stop timeout KILL to all that is
left in its cgroup. That ends the processes; the driver may still be giving pinned memory back for a while, and a
process that was started by hand outside of the unit is not touched by it. So afterwards the memory is watched until it
is free, and what holds it is told apart: releasing, orphaned, wedged, foreign, or nobody who can be seen.
"""

from __future__ import annotations

import os
import signal
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _procs, _service, _service_gpus
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Run

# Seconds that an orphan gets between TERM and KILL.
ORPHAN_GRACE_S = 15.0
PAUSE_S = 0.5


def stop(
    run: Run,
    unit: str,
    gpus: str | list[int],
    user: str,
    *,
    wait: float = 60.0,
    disable: bool = False,
    idle_mib: int = _service_gpus.IDLE_MIB,
    act: bool = True,
) -> dict[str, t.Any]:
    """Stop a unit, kill orphans of the service user on its GPUs, and wait until these are free.

    Args:
        run: command runner.
        unit: the unit.
        gpus: ``all`` or indices of the instance's GPUs.
        user: service user; only its processes that belong to no other unit of an instance are ever killed.
        wait: seconds to wait for the memory after the processes are gone.
        disable: also take the unit out of the boot.
        idle_mib: what an unused GPU may show.
        act: False only says what would be done.

    Returns ``{changed, was, seconds, free, killed, left, error}``; ``left`` has a ``kind`` for each GPU not free.
    """
    begun = time.monotonic()
    state = _service.unit_states(run, [unit])[unit]
    running = state["load"] != "not-found" and state["active"] not in ("inactive", "failed")
    changed = running or (disable and state["enabled"])
    result: dict[str, t.Any] = {"changed": changed, "was": state["active"], "killed": [], "left": [], "error": ""}
    if act and state["load"] != "not-found":
        words = ["systemctl", "disable", unit] if disable and state["enabled"] else []
        for command in filter(None, (words, ["systemctl", "stop", unit] if running else [])):
            status, out, err = run(command)
            if status != 0:
                result["error"] = f"{' '.join(command)}: {(err or out).strip()[:300]}"
        # A unit that failed too often in a row refuses the next start until its counter is reset.
        run(["systemctl", "reset-failed", unit])
    if act:
        result["killed"] = end_orphans(run, unit, gpus, user)
        result["changed"] = changed or bool(result["killed"])
    left = leftovers(run, unit, gpus, user, idle_mib)
    first = {each["index"]: each["mib"] for each in left}
    deadline = time.monotonic() + (wait if act else 0)
    while left and time.monotonic() < deadline and not all(each["kind"] == "foreign" for each in left):
        time.sleep(PAUSE_S)
        left = leftovers(run, unit, gpus, user, idle_mib)
    for each in left:
        if each["kind"] == "unseen" and each["mib"] < first.get(each["index"], 0):
            each["kind"] = "releasing"  # it becomes less, so the driver is still giving it back
            each["words"] += ", and it becomes less"
    result["left"] = left
    result["free"] = not left
    result["seconds"] = round(time.monotonic() - begun, 1)
    return result


def end_orphans(run: Run, unit: str, gpus: str | list[int], user: str) -> list[dict[str, t.Any]]:
    """End processes of the service user that hold the GPUs and belong to no other instance; those that were ended."""
    found = {each["pid"]: each for each in _holders(_service_gpus.read(run), gpus) if is_orphan(each, unit, user)}
    for number, grace in ((signal.SIGTERM, ORPHAN_GRACE_S), (signal.SIGKILL, 5.0)):
        alive = [each for each in found.values() if _same_process(each)]
        for each in alive:
            try:
                os.kill(each["pid"], number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + grace
        while any(map(_same_process, alive)) and time.monotonic() < deadline:
            time.sleep(0.2)
    return [{key: each[key] for key in ("pid", "name", "user", "ppid", "index", "mib")} for each in found.values()]


def is_orphan(holder: dict[str, t.Any], unit: str, user: str) -> bool:
    """Whether a holder is ours to end: of the service user, and no part of a unit of another instance."""
    other_instance = holder["unit"].startswith("sglang-") and holder["unit"] != unit
    return bool(holder["pid"]) and holder["user"] == user and not other_instance


def leftovers(run: Run, unit: str, gpus: str | list[int], user: str, idle_mib: int) -> list[dict[str, t.Any]]:
    """GPUs of the instance that are not free now: ``{index, mib, kind, words, holders}``.

    Memory of other units of instances is theirs and does not count. ``kind``:

    * ``foreign``: somebody else's process;
    * ``wedged``: our process, in state D, so inside the driver, where no signal reaches it;
    * ``releasing``: our process, ending (a zombie gives its memory back once its last thread left the driver);
    * ``orphaned``: our process that lives on, in no unit of ours or in ours;
    * ``unseen``: nobody can be seen. The driver still gives memory back, or a process of another guest holds it.
    """
    state = _service_gpus.read(run)
    units = {each["unit"] for each in state["holders"] if each["unit"].startswith("sglang-")} - {unit}
    found = []
    for entry in _service_gpus.taken(state, gpus, units, idle_mib):
        kinds = {_kind(each, unit, user) for each in entry["holders"]}
        kind = next((each for each in ("foreign", "wedged", "orphaned", "releasing") if each in kinds), "unseen")
        words = _service_gpus.sentence([entry])
        if kind in ("wedged", "orphaned", "releasing"):
            words += "".join(
                f"; pid {each['pid']}: state {each['state'] or 'gone'}, parent {each['ppid']}, group {each['pgrp']}"
                for each in entry["holders"]
            )
        keys = ("pid", "name", "user", "unit", "state", "ppid", "pgrp", "mib")
        holders = [{key: each[key] for key in keys} for each in entry["holders"]]
        found.append(
            {"index": entry["index"], "mib": entry["others_mib"], "kind": kind, "words": words, "holders": holders}
        )
    return found


def _kind(holder: dict[str, t.Any], unit: str, user: str) -> str:
    if holder["unit"] != unit and holder["user"] != user:
        return "foreign"
    return {"D": "wedged", "Z": "releasing", "X": "releasing", "": "releasing"}.get(holder["state"], "orphaned")


def _holders(state: dict[str, t.Any], gpus: str | list[int]) -> list[dict[str, t.Any]]:
    return [each for each in state["holders"] if each["mib"] and (gpus == "all" or each["index"] in gpus)]


def _same_process(each: dict[str, t.Any]) -> bool:
    now = _procs.describe(each["pid"])
    return now["starttime"] == each["starttime"] and now["state"] not in ("", "Z", "X")

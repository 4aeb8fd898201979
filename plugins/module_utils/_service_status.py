# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator wants to see of a host at one look (private to the collection)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gate_run, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

# States of a unit whose server can be asked.
ASKED = ("active", "activating")
# Processes of a kind that are named by their number; the others are counted.
PIDS_SHOWN = 4


def at_once(run: Run) -> Run:
    """A runner that asks each command once: one look is one moment, and nvidia-smi may take a second a call."""
    answers: dict[tuple[str, ...], tuple[int, str, str]] = {}

    def remembered(words: list[str]) -> tuple[int, str, str]:
        if tuple(words) not in answers:
            answers[tuple(words)] = run(words)
        return answers[tuple(words)]

    return remembered


def ask(
    run: Run,
    state: t.Mapping[str, t.Any],
    resolved: t.Iterable[dict[str, t.Any]],
    root: str,
    roots: dict[str, str],
    *,
    unchanged: bool = False,
) -> dict[str, t.Any]:
    """Ask the servers that run, and diagnose the units that should run and do not. Nothing is written.

    Args:
        run: command runner.
        state: what :func:`_service_plan.probe` returned.
        resolved: the instances as ``sglang_resolved.instances`` has them.
        root: root of releases and instances.
        roots: other roots for tests, as for :func:`_service_plan.probe`.
        unchanged: ask only the servers that nothing is to be done to, and diagnose nothing.

    Raises:
        SglangError: an instance that ``state`` does not hold.

    Returns ``{gates: {name: result of the gate}, diagnoses: {name: result of sglang_diagnose}, last_errors: {name:
    {restarts, at, diagnosis}}, interrupted: {name: {release, at, recovered}}, users: {index: words}}``. A gate that
    could not be run at all has ``passed`` false, no checks, and says why in ``error``; ``recorded`` says whether the
    files of the host hold its result already.
    """
    found: dict[str, dict[str, t.Any]] = {"gates": {}, "diagnoses": {}, "last_errors": {}, "interrupted": {}}
    for instance in resolved:
        name = str(instance["name"])
        if name not in state["instances"]:
            raise SglangError(
                f"{name} is not among instances",
                where="resolved",
                expected="the same instances in both",
                fix=f"name {name} in instances too, or leave it out of resolved",
            )
        places = Places(name, root=root, **roots)
        one = state["instances"][name]
        if unchanged and (one["action"], instance["state"]) != ("none", "started"):
            continue
        if one["unit"]["active"] in ASKED:
            found["gates"][name] = _gate(run, instance, places)
            error = None if unchanged else _last_error(run, places, one["unit"])
            if error:
                found["last_errors"][name] = error
        elif instance["state"] == "started":
            found["diagnoses"][name] = _diagnosed(run, places.unit)
        cut = _cut_off(places, one["proof"])
        if cut:
            found["interrupted"][name] = cut
    return {**found, "users": users(state["gpus"])} if "gpus" in state else found


def users(gpus: dict[str, t.Any]) -> dict[str, str]:
    """Who uses each GPU, in words by its index; processes of one kind, user and unit are one entry."""
    found = {}
    for card in gpus["gpus"]:
        kinds: dict[tuple[str, str, str], list[dict[str, t.Any]]] = {}
        for holder in gpus["holders"]:
            if holder["index"] == card["index"]:
                kind = (re.sub(r"\d+$", "", holder["name"]), holder["user"], holder["unit"])
                kinds.setdefault(kind, []).append(holder)
        found[str(card["index"])] = ", ".join(
            _kind(holders, share=len(kinds) > 1) for _kind_key, holders in sorted(kinds.items())
        )
    return found


def _kind(holders: list[dict[str, t.Any]], share: bool) -> str:
    """``sglang::scheduler_TP0 pid 4711 (sglang, sglang-qwen.service)``, with its MiB where others use the GPU too."""
    first, names = holders[0], {holder["name"] for holder in holders}
    name = first["name"] if len(names) == 1 else re.sub(r"\d+$", "*", first["name"])
    pids = [str(holder["pid"]) for holder in holders]
    numbers = f"pid {pids[0]}" if len(pids) == 1 else "pids " + ", ".join(pids[:PIDS_SHOWN])
    if len(pids) > PIDS_SHOWN:
        numbers += f" and {len(pids) - PIDS_SHOWN} more"
    mib = sum(holder["mib"] or 0 for holder in holders)
    held = f", {mib} MiB" if share and mib else ""
    return f"{name} {numbers} ({first['user'] or 'unknown user'}, {first['unit'] or 'no unit'}{held})"


def _last_error(run: Run, places: Places, unit: dict[str, t.Any]) -> dict[str, t.Any] | None:
    """Why the start before the one that runs now failed; None, and nothing asked, where systemd restarted nothing."""
    if not unit["restarts"]:
        return None
    # Late, since a look at what runs well has no use for it.
    from ansible_collections.blackwell.sglang.plugins.module_utils import _service_failure  # noqa: PLC0415

    failure = _service_failure.last_failure(run, places.unit)
    if failure is None or failure["invocation_id"] == unit["invocation_id"]:
        return None  # the start that failed is still the one that is looked at, and the gate says why
    ended = {"active": "failed", "result": failure["result"], "exit_status": failure["exit_status"]}
    diagnosis = _diagnosed(run, places.unit, failure["invocation_id"], ended)
    return {"restarts": unit["restarts"], "at": failure["at"], "diagnosis": diagnosis}


def _cut_off(places: Places, proof: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
    """The deployment that a boot cut off, unless a run has proved something since."""
    cut = _service.read_json(places.interrupted)
    if not isinstance(cut, dict):
        return None
    if proof and proof["by"] == "run" and str(proof["at"]) >= str(cut.get("recovered") or ""):
        return None
    return {key: str(cut.get(key) or "") for key in ("release", "at", "recovered")}


def _diagnosed(run: Run, unit: str, invocation_id: str = "", state: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
    from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose  # noqa: PLC0415 - late, as above

    return _diagnose.of_unit(run, unit, invocation_id, state=state)


def _gate(run: Run, instance: dict[str, t.Any], places: _service.Places) -> dict[str, t.Any]:
    try:
        context = _gate_run.context_of(run, instance, places, _gate_run.read_api_key(places))
        result = _gate_run.run_gate(context, quick=True, record=False)
        recorded = result["passed"] and _gate_run.is_recorded(places, result["proof"], instance)
        return {**result, "error": "", "recorded": recorded}
    except SglangError as exc:
        return {"passed": False, "checks": [], "proof": {}, "diagnosis": None, "error": str(exc), "recorded": False}

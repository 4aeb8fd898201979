# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator wants to see of a host at one look (private to the collection)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose, _gate_run, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

# States of a unit whose server can be asked.
ASKED = ("active", "activating")


def at_once(run: Run) -> Run:
    """A runner that asks each command once: one look is one moment, and nvidia-smi may take a second a call."""
    answers: dict[tuple[str, ...], tuple[int, str, str]] = {}

    def remembered(words: list[str]) -> tuple[int, str, str]:
        if tuple(words) not in answers:
            answers[tuple(words)] = run(words)
        return answers[tuple(words)]

    return remembered


def ask(
    run: Run, state: t.Mapping[str, t.Any], resolved: t.Iterable[dict[str, t.Any]], root: str, roots: dict[str, str]
) -> dict[str, t.Any]:
    """Ask the servers that run, and diagnose the units that should run and do not. Nothing is written.

    Args:
        run: command runner.
        state: what :func:`_service_plan.probe` returned.
        resolved: the instances as ``sglang_resolved.instances`` has them.
        root: root of releases and instances.
        roots: other roots for tests, as for :func:`_service_plan.probe`.

    Raises:
        SglangError: an instance that ``state`` does not hold.

    Returns ``{gates: {name: result of the gate}, diagnoses: {name: result of sglang_diagnose}}``. A gate that could not
    be run at all has ``passed`` false, no checks, and says why in ``error``.
    """
    gates: dict[str, t.Any] = {}
    diagnoses: dict[str, t.Any] = {}
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
        if state["instances"][name]["unit"]["active"] in ASKED:
            gates[name] = _gate(run, instance, places)
        elif instance["state"] == "started":
            diagnoses[name] = _diagnose.of_unit(run, places.unit)
    return {"gates": gates, "diagnoses": diagnoses}


def _gate(run: Run, instance: dict[str, t.Any], places: _service.Places) -> dict[str, t.Any]:
    try:
        context = _gate_run.context_of(run, instance, places, _gate_run.read_api_key(places))
        return {**_gate_run.run_gate(context, quick=True, record=False), "error": ""}
    except SglangError as exc:
        return {"passed": False, "checks": [], "proof": {}, "diagnosis": None, "error": str(exc)}

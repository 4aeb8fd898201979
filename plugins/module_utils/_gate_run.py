# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate as a whole: wait, ask, judge, keep the receipt (private to the collection)."""

from __future__ import annotations

import pathlib
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate,
    _gate_limit,
    _gate_ordered,
    _gate_ready,
    _gate_right,
    _gate_roomy,
    _service,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run


def context_of(run: Run, instance: dict[str, t.Any], places: Places, api_key: str | None) -> Context:
    """A context for one gate of one instance.

    Raises:
        SglangError: the instance's gate settings hold a key that the gate does not know.
    """
    settings = _gate.settings_of(instance)
    client = _gate.client_of(instance, api_key, float(settings["request_timeout"]))
    return Context(run=run, places=places, instance=instance, settings=settings, client=client)


def read_api_key(places: Places, credentials: str | None = None) -> str | None:
    """The instance's key, from the unit's credentials where systemd gave some, else from its file; None without one."""
    path = pathlib.Path(credentials, "api_key") if credentials else places.key_file
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def run_gate(
    context: Context,
    *,
    quick: bool = False,
    invocation_id: str = "",
    waited: float = 0.0,
    slice_seconds: float = 0.0,
    record: bool = True,
    good: bool = False,
    deployment: str = "",
    by: str = "run",
) -> dict[str, t.Any]:
    """Run the gate once.

    Args:
        context: see :func:`context_of`.
        quick: only the cheap part, with the receipt of an earlier proof of this very start.
        invocation_id: the start that must be proved; empty for the one that runs now.
        waited: seconds that earlier calls of the same wait took.
        slice_seconds: if positive and the server is not ready by then, come back with ``waiting``.
        record: keep proof.json.
        good: if passed, record what is installed as good and end the pending deployment.
        deployment: the deployment that this gate ends; empty for none.
        by: who asked, for the proof.

    Returns the gate's result (docs/contracts/gate.schema.json) with ``waiting``, ``words``, ``invocation_id`` and
    ``diagnosis``.

    Raises:
        SglangError: the deployment is not at work any more, so whatever runs now is not what shall be judged.
    """
    begun = time.monotonic()
    _service.require_deployment(context.places, deployment)
    limit = None if quick else _gate_limit.of(context)
    wait = _gate_ready.wait(context, limit.seconds - waited if limit else 0.0, invocation_id, slice_seconds)
    seconds = time.monotonic() - begun
    context.invocation_id = wait.invocation_id
    if wait.state == "waiting" and slice_seconds > 0 and limit and waited + seconds < limit.seconds:
        return {
            "passed": False,
            "checks": [],
            "proof": {},
            "waiting": True,
            "words": f"{wait.words} ({limit.words})",
            "invocation_id": wait.invocation_id,
            "diagnosis": None,
        }
    if wait.state == "ready":
        checks = _ask(context, quick)
    else:
        checks = [_gate_ready.failed_check(wait, waited + seconds, limit)]
    _service.require_deployment(context.places, deployment)  # it may have ended while it was asked
    passed = _gate.verdict(checks)
    proof = _gate.proof_of(context, checks, passed, quick, by)
    if record:
        # The cheap part alone makes nothing good; of what is good already it may renew what was asked.
        _keep(context, proof, good and passed and (not quick or _service.is_good(context.places)))
    return {
        "passed": passed,
        "checks": [check.as_dict() for check in checks],
        "proof": proof,
        "waiting": False,
        "words": wait.words,
        "invocation_id": wait.invocation_id,
        "diagnosis": None if passed else _diagnosis(context, checks),
    }


def _ask(context: Context, quick: bool) -> list[Check]:
    receipt = _service.read_json(context.places.proof)
    if isinstance(receipt, dict) and receipt.get("invocation_id") == context.invocation_id:
        context.receipt = receipt.get("kv_receipt")
    checks = _gate.run_checks(context, _gate_ready.CHECKS)
    if not _gate.verdict(checks):
        return checks
    if quick:
        return checks + _gate.run_checks(context, [*_gate_right.QUICK, *_gate_ordered.CHECKS, *_gate_roomy.QUICK])
    return checks + _gate.run_checks(context, [*_gate_right.CHECKS, *_gate_ordered.CHECKS, *_gate_roomy.CHECKS])


def _diagnosis(context: Context, checks: list[Check]) -> dict[str, t.Any]:
    # Late, and so not compiled where everything passes: the catalogue of signatures is as large as the gate itself.
    from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose  # noqa: PLC0415

    failed = [f"gate: {each.id}: {each.seen}; {'; '.join(each.evidence)}" for each in checks if each.passed is False]
    return _diagnose.of_unit(context.run, context.places.unit, context.invocation_id, failed)


def is_recorded(places: Places, proof: dict[str, t.Any], instance: dict[str, t.Any]) -> bool:
    """Whether the host's files say already what a cheap gate found, so that one which records would write nothing."""
    old = _service.read_json(places.proof)
    return (
        _adds_nothing(proof, old)
        and bool(not proof["kv_receipt"] or old.get("kv_receipt"))
        and _service.is_newest_good(places, instance)
        and not places.pending.exists()
    )


def _adds_nothing(proof: dict[str, t.Any], old: t.Any) -> bool:
    """A cheap pass over a full proof of the same start."""
    return bool(
        proof["quick"]
        and proof["passed"]
        and isinstance(old, dict)
        and old.get("passed")
        and old.get("invocation_id") == proof["invocation_id"]
    )


def _keep(context: Context, proof: dict[str, t.Any], good: bool) -> None:
    """Write the proof, unless there is a richer one of the same start."""
    old = _service.read_json(context.places.proof)
    if not _adds_nothing(proof, old):
        _service.write_json(context.places.proof, proof, mode=0o644)
    elif proof["kv_receipt"] and not old.get("kv_receipt"):
        _service.write_json(
            context.places.proof, {**old, "kv": proof["kv"], "kv_receipt": proof["kv_receipt"]}, mode=0o644
        )
    if good:
        _service.record_good(context.places, proof, context.instance)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd runs on a host between two runs of Ansible: the verifier, and the way back after a power cut.

Installed as one archive (/opt/sglang/lib/sglang_verify.pyz) together with the module_utils that the gate is made of, so
there is one gate and not two.

``verify NAME`` (sglang-verify@NAME.service, after every start and by a timer) proves what runs. Its result is
proof.json and its own status: a failed unit is what monitoring sees.

``recover`` (sglang-recover.service, once a boot, before any instance) looks for deployments that were cut off between
their first change and their gate, and puts the last good release, unit and environment back.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import subprocess
import sys
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gate, _gate_run, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# sysexits.h EX_CONFIG: the verifier itself cannot ask, which is another thing than a server that failed.
CANNOT_ASK = 78
# Longest time that a deployment takes from its first change to its gate.
DEPLOYMENT_S = 2 * 3600
# Longest pause between a crash and systemd's restart that is waited for, and starts that one call looks at.
RESTART_S = 120
STARTS = 5


def run(words: list[str]) -> tuple[int, str, str]:
    """Run a program; one that is not installed is status 127."""
    try:
        done = subprocess.run(words, capture_output=True, check=False, text=True, errors="replace")
    except OSError as exc:
        return 127, "", str(exc)
    return done.returncode, done.stdout, done.stderr


def settled(places: _service.Places) -> dict[str, t.Any]:
    """State of the unit, once it no longer waits for its own restart."""
    deadline = time.monotonic() + RESTART_S
    while True:
        state = _service.unit_states(run, [places.unit])[places.unit]
        if state["sub"] != "auto-restart" or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def prove(places: _service.Places) -> int:
    """Verify the start that stands in the end.

    A crash starts this service while the unit still waits for its restart, and the restart joins the run that is
    at work: so what began later has to be looked at here, or nobody would before the timer does.
    """
    for _attempt in range(STARTS):
        before = settled(places)["invocation_id"]
        status = verify(places)
        if status != 1 or settled(places)["invocation_id"] == before:
            break
    return status


def verify(places: _service.Places) -> int:
    """Prove one instance; 0 when it is right or when there is nothing to prove now."""
    state = _service.unit_states(run, [places.unit])[places.unit]
    if state["active"] not in ("active", "activating"):
        print(f"{places.unit} is {state['active']}; there is nothing to prove")
        return 0
    pending = _service.read_json(places.pending)
    if pending and fresh(pending.get("at", "")):
        print(f"a deployment is under way since {pending['at']}; it has its own gate")
        return 0
    entries = _service.good_entries(places)
    instance = entries[0].get("instance") if entries and _service.is_good(places) else None
    if not instance:
        print(f"what {places.unit} runs was never good, so it is not known what it should be; run site.yml")
        return CANNOT_ASK
    proof = _service.read_json(places.proof) or {}
    proved = bool(proof.get("passed")) and proof.get("invocation_id") == state["invocation_id"]
    context = _gate_run.context_of(run, instance, places, _gate_run.read_api_key(places))
    result = _gate_run.run_gate(context, quick=proved, invocation_id=state["invocation_id"], by="verifier")
    for check in result["checks"]:
        mark = {True: "passed", False: "FAILED", None: "not judged"}[check["passed"]]
        print(f"{check['id']}: {mark}: {check['seen']}")
    if not result["passed"]:
        diagnosis = result["diagnosis"]
        print(f"{diagnosis['what']}. {diagnosis['why']} Fix: {diagnosis['fix']}")
    return 0 if result["passed"] else 1


def fresh(stamp: str) -> bool:
    """Whether a deployment that began then may still be at work: a cold start takes long, but not two hours."""
    try:
        begun = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return False
    return (datetime.datetime.now(datetime.timezone.utc) - begun).total_seconds() < DEPLOYMENT_S


def recover(roots: dict[str, str]) -> int:
    """Put back what a power cut left between switch and gate."""
    status = 0
    for mark in sorted(pathlib.Path(roots["state_root"]).glob("*/pending.json")):
        places = _service.Places(mark.parent.name, **roots)
        pending = _service.read_json(places.pending) or {}
        if pending.get("boot_id") == _service.boot_id():
            continue  # a deployment of this boot is at work
        entries = _service.good_entries(places)
        try:
            if entries:
                changed = ", ".join(_service.restore(places, entries[0])) or "nothing had changed"
                print(f"{places.name}: release {entries[0]['release']} is back ({changed})")
            else:
                run(["systemctl", "disable", places.unit])
                print(f"{places.name}: nothing was good yet, so it does not start; run site.yml")
            _service.write_json(places.interrupted, {**pending, "recovered": _gate.now()})
            _service.end_pending(places)
        except (SglangError, OSError) as exc:
            print(f"{places.name}: {exc}", file=sys.stderr)
            status = 1
    run(["systemctl", "daemon-reload"])
    return status


def main() -> int:
    """Entry of the archive."""
    parser = argparse.ArgumentParser(description="Prove SGLang instances, and recover them after a power cut.")
    parser.add_argument("--root", default="/opt/sglang", help="folder of releases and instances")
    parser.add_argument("--state-root", default=_service.STATE_ROOT, help="folder of proofs")
    parser.add_argument("--config-root", default=_service.CONFIG_ROOT, help="folder of environments and keys")
    parser.add_argument("--unit-root", default=_service.UNIT_ROOT, help="folder of units")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("verify", help="prove one instance").add_argument("name")
    commands.add_parser("recover", help="put the last good releases back after a power cut")
    options = parser.parse_args()
    roots = {name: getattr(options, name) for name in ("root", "state_root", "config_root", "unit_root")}
    try:
        if options.command == "recover":
            return recover(roots)
        return prove(_service.Places(options.name, **roots))
    except SglangError as exc:
        print(str(exc), file=sys.stderr)
        return CANNOT_ASK


if __name__ == "__main__":
    sys.exit(main())

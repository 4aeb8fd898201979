# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try combinations one after the other on a host, from the controller: start, ask, measure, stop (no Ansible in it)."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_plan, _matrix_judge
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._matrix_plan import Combination
from ansible_collections.blackwell.sglang.plugins.plugin_utils._bench_run import Bench

STEP = "blackwell.sglang.backend_matrix_step"
# Diagnoses of the engine's own parser or of its checks of arguments: it refused, nothing crashed.
REFUSALS = (
    *("unknown_argument", "invalid_choice", "ambiguous_argument", "argument_needs_value", "capability_too_low"),
    *("speculation_without_extra_buffer", "hybrid_gdn_attention", "bf16_kv_impossible"),
)
# Seconds between two lines on the screen while an engine starts.
REPEAT_S = 30.0
SLICE_S = 5.0
PARTS = ("gate", "lengths", "burst", "long")
WORDS_OF_PART = {
    "gate": "asking the gate's questions",
    "lengths": "asking prompts of many lengths",
    "burst": "asking many at once",
    "long": "asking a long prompt",
}

Entry = dict[str, t.Any]


@dataclasses.dataclass
class Trial:
    """One combination on one host.

    ``call`` runs a module on the host, ``show`` prints a line, ``words`` are the engine's arguments quoted for systemd,
    ``options`` those of the action.
    """

    call: t.Callable[[str, dict[str, t.Any]], dict[str, t.Any]]
    show: t.Callable[[str], None]
    instance: dict[str, t.Any]
    words: list[str]
    options: dict[str, t.Any]
    token_ids: list[int] | None = None

    def run(self, combination: Combination) -> Entry:
        """Start it, ask it, measure it, stop it.

        Raises:
            SglangError: the host does not let the matrix go on (systemd refuses, GPUs stay taken).
        """
        begun = time.monotonic()
        entry = new_entry(combination)
        started = self._step("start", words=self.words, env=self.options["env"])
        invocation = str(started["invocation_id"])
        try:
            invocation = self._wait(entry, invocation, begun)
            if not entry["verdict"]:
                self._ask(entry, invocation)
            if not entry["verdict"]:
                entry["verdict"] = "ok"
                self._measure(entry)
        finally:
            stopped = self._step("stop")
        entry["seconds"] = round(time.monotonic() - begun, 1)
        if not stopped["free"]:
            raise SglangError(
                f"after {combination.id} was stopped its GPUs are not free: {stopped['held']}",
                expected="GPUs that nobody uses before the next combination starts",
                fix="see docs/runbooks for stuck GPU memory, then run the matrix again: it goes on where it stopped",
                kind="gpus_held",
            )
        return entry

    def _wait(self, entry: Entry, invocation: str, begun: float) -> str:
        shown = begun
        while True:
            seen = self._step("wait", invocation_id=invocation, seconds=SLICE_S)
            invocation = str(seen["invocation_id"] or invocation)
            now = time.monotonic()
            entry["start_s"] = round(now - begun, 1)
            if seen["state"] == "ready":
                return invocation
            if seen["state"] == "failed":
                self._ended(entry, seen["diagnosis"], seen["words"])
                return invocation
            if now - begun > self.options["ready_timeout"]:
                entry.update(verdict="hang", why=f"not ready after {now - begun:.0f} s: {seen['words']}")
                return invocation
            if now - shown >= REPEAT_S:
                self.show(f"{entry['id']}: {now - begun:.0f} s: {seen['words']}")
                shown = now

    def _ask(self, entry: Entry, invocation: str) -> None:
        for part in PARTS:
            if part == "long" and not self.options["long_tokens"]:
                continue
            self.show(f"{entry['id']}: {WORDS_OF_PART[part]}")
            reply = self._step(
                "probe",
                part=part,
                invocation_id=invocation,
                request_timeout=self.options["request_timeout"],
                token_ids=self.token_ids,
                lengths=self.options.get("lengths"),
                concurrent=self.options["concurrent"],
                long_tokens=self.options["long_tokens"],
            )
            self.token_ids = reply.get("token_ids") or self.token_ids
            entry["answers"] += reply["answers"]
            failed = [check for check in reply["checks"] if check["passed"] is False]
            entry["failed_checks"] += failed
            missing = _matrix_judge.lost(reply["answers"])
            timeouts = [check for check in failed if "no answer within" in f"{check['seen']} {check['evidence']}"]
            if reply["died"]:
                self._ended(entry, reply["diagnosis"], reply["died"])
            elif timeouts or (missing and missing["lost"] == "timeout"):
                place = timeouts[0]["id"] if timeouts else f"{part} ({missing['probe'] if missing else ''})"
                entry.update(verdict="hang", why=f"no answer within {self.options['request_timeout']:.0f} s: {place}")
            elif failed:
                why = "; ".join(f"{check['id']}: {(check['evidence'] or [check['seen']])[0]}" for check in failed[:2])
                entry.update(verdict="wrong", why=why)
            elif missing:
                entry.update(verdict="wrong", why=f"{missing['probe']}: {missing['faults'][0]}")
            else:
                faults = _matrix_judge.own_faults(reply["answers"])
                if faults:
                    known = [entry["why"]] if entry["why"] else []
                    entry.update(verdict="wrong", why="; ".join([*known, *faults[:3]]))
            if entry["verdict"] and entry["verdict"] != "wrong":
                return
            if entry["verdict"] == "wrong" and part == "gate":
                return  # wrong everywhere: the sizes at which it is wrong teach nothing more

    def _measure(self, entry: Entry) -> None:
        if not self.options["measure_levels"]:
            return
        shape = _bench_plan.Shape(
            self.options["measure_input_len"], self.options["measure_output_len"], self.options["measure_dataset"]
        )
        bench = Bench(self.call, self.show, self.instance, shape, self.options, float(self.options["measure_timeout"]))
        probed = bench.probe()
        if probed.get("failed"):
            entry["why"] = f"not measured: {probed.get('msg')}"
            return
        limits = _bench_plan.Limits(**probed["limits"])
        for level in _bench_plan.plan(self.options["measure_levels"], shape, limits):
            row = bench.level(level)
            entry["levels"].append(row)
            if row["label"] == "errors":
                entry.update(verdict="wrong", why=f"under load at C={row['concurrency']}: {row['why']}")
                state = self._step("wait", invocation_id="", seconds=0.5)
                if state["state"] == "failed":
                    self._ended(entry, state["diagnosis"], state["words"])
                return
            self.show(f"{entry['id']}: C={level.concurrency}: {row['tok_s'] or 0:.0f} tok/s")

    def _ended(self, entry: Entry, diagnosis: dict[str, t.Any] | None, words: str) -> None:
        found = diagnosis or {}
        refused = found.get("id") in REFUSALS
        what = str(found.get("what") or words) if found.get("id") not in (None, "nothing") else words
        entry.update(verdict="refused" if refused else "crash", why=what, diagnosis=found or None)

    def _step(self, step: str, **arguments: t.Any) -> dict[str, t.Any]:
        given = {key: value for key, value in arguments.items() if value is not None}
        reply = self.call(STEP, {"step": step, "instance": self.instance, "root": self.options["root"], **given})
        if reply.get("failed"):
            raise SglangError(str(reply.get("msg")), where=f"step {step}", kind=str(reply.get("kind") or ""))
        return reply


def new_entry(combination: Combination) -> Entry:
    """An entry before its verdict."""
    return {
        "id": combination.id,
        "args": combination.args,
        "verdict": "",
        "why": "",
        "start_s": None,
        "seconds": None,
        "failed_checks": [],
        "diagnosis": None,
        "answers": [],
        "levels": [],
        "warnings": [],
        "agreement": None,
    }


def settle(entries: list[Entry], wanted: str = "") -> tuple[str | None, str]:
    """Compare the sound entries with a reference and call those that disagree wrong; the reference and why it."""
    name, why = _matrix_judge.choose_reference(entries, wanted)
    reference = next((entry for entry in entries if entry["id"] == name), None)
    if reference is None:
        return None, why
    for entry in entries:
        if not entry["answers"]:
            continue
        entry["agreement"] = _matrix_judge.agreement(entry["answers"], reference["answers"])
        if entry["verdict"] != "ok" or entry is reference:
            continue
        lines = _matrix_judge.against(entry["answers"], reference["answers"])
        if lines:
            entry.update(verdict="wrong", why="; ".join(lines[:3]))
    return name, why

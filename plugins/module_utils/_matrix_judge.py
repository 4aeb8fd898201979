# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge one combination by its own answers and by those of a reference (private to the collection).

Two correct backends never agree to the last bit, and greedy decoding turns a near tie into another text. So single
differences prove nothing; these do: log-probabilities that are no numbers, loops, a prompt that became much less likely
than under the reference, or all prompts of one length answered otherwise from the first token on.
"""

from __future__ import annotations

import statistics
import typing as t

Answer = dict[str, t.Any]

# Mean log-probability, in nats a token, by which a prompt's last tokens may be less likely than under the reference.
# NVFP4 variants of one model differ by some 0.04 nats (KLD of published comparisons); zeros or noise cost 5 or more.
PROMPT_LOSS = 1.0
# The reference is sure of a token from this log-probability on (75 %): another choice there is no near tie.
SURE = -0.29
# Share of sure first tokens that may differ over all probes.
SURE_DIFFERENT = 0.15
# Share of answers that may be loops: a right model, too, repeats itself now and then when it decodes greedily.
LENGTH_LOOPS = 0.5
BURST_LOOPS = 0.12
# Answers of a burst that may be loops where the reference's are none: with other rounding one in a hundred is.
FRESH_LOOPS = 4
# Share of first tokens of a burst that may differ in all.
BURST_DIFFERENT = 0.5


def own_faults(answers: list[Answer]) -> list[str]:
    """What is wrong with the answers by themselves, one line a kind of probe with its first fault."""
    lines = []
    for group, members in groups(answers).items():
        bad = [answer for answer in members if answer["faults"] and not answer["lost"]]
        loops = [answer for answer in members if answer["loops"] and not answer["lost"]]
        if bad:
            lines.append(f"{group}: {len(bad)} of {len(members)} answers: {bad[0]['faults'][0]}")
        elif len(loops) > (BURST_LOOPS if group == "burst" else LENGTH_LOOPS) * len(members):
            lines.append(f"{group}: {len(loops)} of {len(members)} answers: {loops[0]['loops'][0]}")
    return lines


def lost(answers: list[Answer]) -> Answer | None:
    """The first answer that never came, None when all came."""
    return next((answer for answer in answers if answer["lost"]), None)


def groups(answers: list[Answer]) -> dict[str, list[Answer]]:
    """Answers by kind of probe: ``M=3072``, ``burst``, ``long=40000``."""
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer["probe"].split("/")[0], []).append(answer)
    return found


def against(answers: list[Answer], reference: list[Answer]) -> list[str]:
    """Where the answers cannot be those of the same model as the reference's; empty when they agree well enough."""
    known = {answer["probe"]: answer for answer in reference if answer["ids"] and not answer["faults"]}
    lines = []
    sure = different = 0
    overall = first_agreement(answers, reference)
    for group, members in groups(answers).items():
        pairs = [(answer, known[answer["probe"]]) for answer in members if answer["probe"] in known and answer["ids"]]
        if not pairs:
            continue
        drops = [
            old["prompt_logprob"] - new["prompt_logprob"]
            for new, old in pairs
            if new["prompt_logprob"] is not None and old["prompt_logprob"] is not None
        ]
        if drops and statistics.fmean(drops) > PROMPT_LOSS:
            loss = statistics.fmean(drops)
            lines.append(f"{group}: the prompt is {loss:.1f} nats a token less likely than under the reference")
        unequal = [new for new, old in pairs if new["ids"][0] != old["ids"][0]]
        sure += sum(1 for _new, old in pairs if _sure(old))
        different += sum(1 for new, old in pairs if _sure(old) and new["ids"][0] != old["ids"][0])
        if group == "burst":
            fresh = [new for new, old in pairs if new["loops"] and not old["loops"]]
            if len(fresh) >= FRESH_LOOPS:
                lines.append(f"burst: {len(fresh)} of {len(pairs)} answers are loops where the reference's are none")
            if len(unequal) > BURST_DIFFERENT * len(pairs):
                lines.append(f"burst: {len(unequal)} of {len(pairs)} answers begin otherwise than the reference's")
        elif len(pairs) > 1 and len(unequal) == len(pairs) and overall >= 0.5:
            lines.append(
                f"{group}: all {len(pairs)} answers begin otherwise than the reference's, unlike other lengths"
            )
    if sure >= 8 and different > SURE_DIFFERENT * sure:
        lines.append(f"{different} of {sure} tokens of which the reference is sure are others here")
    elif len(answers) >= 8 and overall < 0.3:
        lines.append(f"{overall:.0%} of the answers begin as the reference's do")
    return lines


def first_agreement(answers: list[Answer], reference: list[Answer]) -> float:
    """Share of probes whose answers begin with the same token; 1.0 when none can be compared."""
    known = {answer["probe"]: answer for answer in reference if answer["ids"]}
    pairs = [(answer, known[answer["probe"]]) for answer in answers if answer["probe"] in known and answer["ids"]]
    return sum(1 for new, old in pairs if new["ids"][0] == old["ids"][0]) / len(pairs) if pairs else 1.0


def agreement(answers: list[Answer], reference: list[Answer]) -> dict[str, t.Any]:
    """Figures of the comparison for the report: first tokens, whole answers, mean difference of log-probabilities."""
    known = {answer["probe"]: answer for answer in reference if answer["ids"]}
    pairs = [(answer, known[answer["probe"]]) for answer in answers if answer["probe"] in known and answer["ids"]]
    gaps = [
        abs(a - b)
        for new, old in pairs
        for x, y, a, b in zip(new["ids"], old["ids"], new["logprobs"], old["logprobs"], strict=False)
        if x == y and a is not None and b is not None
    ]
    return {
        "probes": len(pairs),
        "first_token": round(first_agreement(answers, reference), 4),
        "whole": round(sum(1 for new, old in pairs if new["ids"] == old["ids"]) / len(pairs), 4) if pairs else None,
        "logprob_gap": round(statistics.fmean(gaps), 4) if gaps else None,
    }


def choose_reference(entries: list[dict[str, t.Any]], wanted: str = "") -> tuple[str | None, str]:
    """The combination that the others are compared with, and why it.

    ``wanted`` if it answered without a fault; else the one that most others agree with, for wrong kernels are wrong in
    their own ways while right ones agree. None when no combination is without a fault.
    """
    sound = [entry for entry in entries if entry["verdict"] == "ok" and entry.get("answers")]
    if not sound:
        return None, "no combination answered without a fault"
    for entry in sound:
        if entry["id"] == wanted:
            return wanted, "asked for"
    votes = {
        entry["id"]: sum(1 for other in sound if not against(other["answers"], entry["answers"])) for entry in sound
    }
    best = max(votes, key=lambda name: votes[name])
    lead = f"{wanted} did not answer without a fault; " if wanted else ""
    return best, f"{lead}{votes[best]} of {len(sound)} sound combinations agree with it"


def _sure(answer: Answer) -> bool:
    value = answer["logprobs"][0] if answer["logprobs"] else None
    return isinstance(value, (int, float)) and value >= SURE

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a server has its GPUs to itself, by each source that may know (private to the collection).

None of them always knows: the log of the start rotates away, nvidia-smi shows only processes of its own namespace, and
a process that took the memory while the server loaded may have ended since.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service_gpus

# Share of a GPU's memory that is free for an engine on a card that nobody else uses. Captured: 139.13 of 140.40 GiB
# (99.1 %) with one rank a card and its CUDA context made; NCCL's buffers may take another two.
FREE_SHARE = 0.95


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one source says: right, wrong or (None) nothing; what was seen, and the evidence."""

    right: bool | None
    seen: str | None
    evidence: list[str]


def of_instance(gpus: dict[str, t.Any], wanted: str | list[int]) -> list[dict[str, t.Any]]:
    """The GPUs that an instance uses, of what :func:`_service_gpus.read` gave."""
    return [gpu for gpu in gpus["gpus"] if wanted == "all" or gpu["index"] in wanted]


def by_log(begin: dict[str, float], cards: list[dict[str, t.Any]]) -> Finding:
    """The memory that was free when loading began, in GiB by rank, against what the GPUs have.

    Where nobody says what they have, a rank that found less than another gives itself away.
    """
    if not begin:
        return Finding(None, None, ["the log no longer holds the memory that was free when loading began"])
    total = min((card["total_mib"] / 1024 for card in cards), default=0.0)
    least = (total or max(begin.values())) * FREE_SHARE
    low = any(free < least for free in begin.values())
    of = f" of {total:.2f}" if total else ""
    evidence = [f"rank {name(rank)}: {free:.2f} GiB free{of}" for rank, free in sorted(begin.items())]
    if low:
        evidence.append("another process held the rest while this server loaded: it serves with too little room")
    rank = min(begin, key=lambda each: begin[each])
    return Finding(False if low else True if total else None, f"{begin[rank]:.2f} GiB on {name(rank)}", evidence)


def by_holders(gpus: dict[str, t.Any], cards: list[dict[str, t.Any]], unit: str) -> Finding:
    """The memory that processes of other units hold now, also those that cannot be seen from here."""
    if not cards:
        return Finding(None, None, [gpus["error"] or "nvidia-smi lists no such GPU"])
    shared, unknown = [], []
    for card in cards:
        here = [holder for holder in gpus["holders"] if holder["index"] == card["index"]]
        ours = sum(holder["mib"] or 0 for holder in here if holder["unit"] == unit)
        others = [holder for holder in here if holder["unit"] != unit and holder["mib"]]
        # Where nvidia-smi gives our processes no share, what is used may all be ours; then only who is seen counts.
        held = card["used_mib"] - ours if ours else sum(holder["mib"] for holder in others)
        if held > card["total_mib"] * (1 - FREE_SHARE):
            shared.append({"index": card["index"], "others_mib": held, "holders": others})
        elif not ours:
            unknown.append(f"GPU {card['index']}")
    if shared:
        words = _service_gpus.sentence(shared)
        return Finding(False, words, [f"beside this server, {words}"])
    if unknown:
        return Finding(None, None, [f"nvidia-smi does not say what this server holds on {', '.join(unknown)}"])
    return Finding(True, "nobody else on its GPUs", ["nobody else holds memory on its GPUs now"])


def name(rank: str) -> str:
    """A rank for people: a server of one rank writes none in its log."""
    return rank or "TP0"

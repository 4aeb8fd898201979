# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate, fourth group: is there the room that there should be (private to the collection).

An engine started beside a forgotten server says nothing and serves with what is left: the captured pair kept 1,194,148
tokens instead of twice as many. Its own log tells, in the memory that was free when loading began.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service_gpus
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_ordered import fetch_info, read_log

# Share of a GPU's memory that is free for an engine on a card that nobody else uses. Captured: 139.13 of 140.40 GiB
# (99.1 %) with one rank a card and its CUDA context made; NCCL's buffers may take another two.
FREE_SHARE = 0.95
_BEGIN = re.compile(r"Load weight begin\. avail mem=([\d.]+) GB")
_RANK = re.compile(r"\[[^\]]*?((?:[A-Z]+\d+ ?)+)\]")
_LIMITS = re.compile(r"max_total_num_tokens=(\d+).*?max_running_requests=(\d+), context_len=(\d+)")


def roomy_free(context: Context) -> Check:
    """When loading began, every GPU had the memory free that it has when nobody uses it."""
    log = read_log(context)
    seen = begin_memory(log.lines if log else [])
    gpus = _service_gpus.read(context.run)
    wanted = context.instance.get("gpus", "all")
    totals = [gpu["total_mib"] / 1024 for gpu in gpus["gpus"] if wanted == "all" or gpu["index"] in wanted]
    if not seen:
        return Check("roomy.free", None, "free memory at the begin of loading", None, ["the log no longer holds it"])
    if not totals:
        reason = gpus["error"] or "nvidia-smi lists no such GPU"
        return Check("roomy.free", None, "the size of the GPUs", None, [reason])
    least = min(totals) * FREE_SHARE
    low = {rank: free for rank, free in seen.items() if free < least}
    evidence = [f"rank {rank}: {free:.2f} GiB free of {min(totals):.2f}" for rank, free in sorted(seen.items())]
    if low:
        evidence.append("another process held the rest while this server loaded: it serves with too little room")
    return Check("roomy.free", not low, f"at least {least:.1f} GiB free on each GPU", _least(seen), evidence)


def roomy_need(context: Context) -> Check:
    """The declared need fits: so many requests at once of so much context."""
    info = fetch_info(context) or {}
    capacity = capacity_of(context, info)
    context.capacity = {**context.capacity, **capacity}
    need = context.instance.get("need")
    if not need:
        hint = "write need: {context, concurrent} to have it checked"
        return Check("roomy.need", None, "no need is declared", capacity, [hint])
    wanted = int(need.get("context") or 0) * int(need.get("concurrent") or 1)
    faults = []
    tokens, requests, longest = capacity["tokens"], capacity["requests"], capacity["context"]
    if tokens is None:
        faults.append("the server does not say how many tokens it holds")
    elif tokens < wanted:
        faults.append(f"{tokens} tokens fit, {wanted} are needed")
    if requests is not None and requests < int(need.get("concurrent") or 1):
        faults.append(f"{requests} requests run at once, {need['concurrent']} are needed")
    if longest is not None and longest < int(need.get("context") or 0):
        faults.append(f"the longest request is {longest} tokens, {need['context']} are needed")
    return Check("roomy.need", not faults, dict(need), capacity, faults)


def capacity_of(context: Context, info: dict[str, t.Any]) -> dict[str, int | None]:
    """``{tokens, requests, context}`` as the running server says, from /server_info and the log of this start."""
    states = [state for state in info.get("internal_states") or [] if isinstance(state, dict)]
    memory = (states[0].get("memory_usage") or {}) if states else {}
    log = read_log(context) if not info.get("max_total_num_tokens") or not states else context.log
    limits = next((m for m in map(_LIMITS.search, reversed(log.lines if log else [])) if m), None)
    return {
        "tokens": _int(info.get("max_total_num_tokens") or memory.get("token_capacity") or (limits and limits[1])),
        "requests": _int(
            (states[0].get("effective_max_running_requests_per_dp") if states else None) or (limits and limits[2])
        ),
        "context": _int(info.get("max_req_input_len") or (limits and limits[3])),
    }


def begin_memory(lines: list[str]) -> dict[str, float]:
    """GiB free when each rank began to load, by rank (``TP0``; one rank alone has no name in the log). First load only:

    a draft model loads later, beside the target's weights.
    """
    found: dict[str, float] = {}
    for line in lines:
        match = _BEGIN.search(line)
        if match:
            rank = _RANK.match(line)
            found.setdefault(rank[1].strip() if rank else "TP0", float(match[1]))
    return found


def _least(seen: dict[str, float]) -> str:
    rank = min(seen, key=lambda each: seen[each])
    return f"{seen[rank]:.2f} GiB on {rank}"


def _int(value: t.Any) -> int | None:
    try:
        return int(value) if value else None
    except (TypeError, ValueError):
        return None


CHECKS: tuple[t.Callable[[Context], Check], ...] = (roomy_free, roomy_need)
QUICK: tuple[t.Callable[[Context], Check], ...] = (roomy_need,)

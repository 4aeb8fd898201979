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

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate_free,
    _kv_budget,
    _kv_dtype,
    _kv_log,
    _service_gpus,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_ordered import fetch_info, read_config, read_log

_LIMITS = re.compile(r"max_total_num_tokens=(\d+).*?max_running_requests=(\d+), context_len=(\d+)")


def roomy_free(context: Context) -> Check:
    """The server has its GPUs to itself and had so when it loaded: by its log, by who holds memory, by its capacity."""
    log = read_log(context)
    begin = _kv_log.facts(log.lines if log else []).load_begin
    gpus = _service_gpus.read(context.run)
    cards = _gate_free.of_instance(gpus, context.instance.get("gpus", "all"))
    findings = [_gate_free.by_log(begin, cards), _gate_free.by_holders(gpus, cards, context.places.unit)]
    if not begin:  # else roomy_capacity computes with what the log says, and better
        findings.append(_by_size(context, cards))
    expected = "its GPUs to itself"
    if cards:
        least = min(card["total_mib"] for card in cards) / 1024 * _gate_free.FREE_SHARE
        expected = f"at least {least:.1f} GiB free on each GPU when loading began, and nobody else on them since"
    told = sorted((each for each in findings if each.right is not None), key=lambda each: bool(each.right))
    evidence = [words for each in findings for words in each.evidence]
    if not told:
        return Check("roomy.free", None, expected, None, evidence)
    return Check("roomy.free", told[0].right, expected, told[0].seen, evidence)


def _by_size(context: Context, cards: list[dict[str, t.Any]]) -> _gate_free.Finding:
    """The server's capacity against that of empty GPUs of this size, where the log no longer tells what was free."""
    info, config = fetch_info(context) or {}, read_config(context)
    tokens = capacity_of(context, info)["tokens"]
    states = [state for state in info.get("internal_states") or [] if isinstance(state, dict)]
    weight = (states[0].get("memory_usage") or {}).get("weight") if states else None
    if not (cards and config and tokens and weight):
        return _gate_free.Finding(None, None, ["nor does the server say enough to compute what fits on empty GPUs"])
    free = min(card["total_mib"] for card in cards) / 1024 * _gate_free.FREE_SHARE
    computed = _computed(context, info, config, free, free - float(weight))
    if not computed["tokens"] or computed["approximate"]:
        return _gate_free.Finding(None, None, ["what fits on empty GPUs is not known for this model"])
    fits = tokens >= computed["tokens"] * (1 - float(context.settings["capacity_tolerance"]))
    words = f"{tokens} tokens, while empty GPUs of this size hold at least {computed['tokens']}"
    return _gate_free.Finding(fits, words, [words])


def roomy_capacity(context: Context) -> Check:
    """The server's capacity is what geometry, dtype and memory give, within the tolerance."""
    info = fetch_info(context) or {}
    config, log = read_config(context), read_log(context)
    tokens = capacity_of(context, info)["tokens"]
    found = _kv_log.facts(log.lines if log else [])
    expected = "the capacity that the budget computes"
    missing = [
        words
        for words, there in (
            (context.checkpoint_error or "config.json", config),
            ("the server's own number of tokens", tokens),
            ("the memory before and after loading, in the log of this start", found.load_begin and found.load_end),
        )
        if not there
    ]
    if missing or config is None or tokens is None:
        return Check("roomy.capacity", None, expected, tokens, [f"not known: {words}" for words in missing])
    computed = _computed(context, info, config, min(found.load_begin.values()), min(found.load_end.values()))
    if not computed["tokens"]:
        return Check(
            "roomy.capacity", None, expected, tokens, list(computed["notes"]) or ["the budget gives no number"]
        )
    off = abs(tokens - computed["tokens"]) / computed["tokens"]
    context.capacity["computed_tokens"] = computed["tokens"]
    evidence = [f"{off:.2%} apart", computed["formula"]]
    # A model of which something is not understood is not held against the server: the notes say what.
    if computed["approximate"]:
        evidence += computed["notes"]
    tolerance = float(context.settings["capacity_tolerance"])
    right = off <= tolerance or (None if computed["approximate"] else False)
    return Check("roomy.capacity", right, f"{computed['tokens']} tokens, {tolerance:.0%} either way", tokens, evidence)


def _computed(
    context: Context, info: dict[str, t.Any], config: dict[str, t.Any], before: float, after: float
) -> dict[str, t.Any]:
    """The budget for the server's own settings and so much memory (GiB) free before and after loading."""
    ordered = (context.kv or {}).get("effective_dtype") or context.instance.get("kv_cache_dtype") or "auto"
    return _kv_budget.budget(
        config,
        kv_cache_dtype=str(ordered),
        engine_version=info.get("version"),
        memory=_kv_budget.Memory(before_load=before, after_load=after, fraction=info.get("mem_fraction_static")),
        **budget_settings(info),
    )


def budget_settings(info: dict[str, t.Any]) -> dict[str, t.Any]:
    """What /server_info says about pools, as arguments of the budget; a name that moved is read under both."""
    strategy = info.get("mamba_scheduler_strategy") or info.get("mamba_radix_cache_strategy")
    return {
        "tp_size": _int(info.get("tp_size")) or 1,
        "pp_size": _int(info.get("pp_size")) or 1,
        "dp_size": _int(info.get("dp_size")) or 1,
        "dp_attention": bool(info.get("enable_dp_attention")),
        "page_size": _int(info.get("page_size")) or 1,
        "max_running_requests": _int(info.get("max_running_requests")),
        "max_total_tokens": _int(info.get("max_total_tokens")),
        "swa_full_tokens_ratio": info.get("swa_full_tokens_ratio"),
        "attention_backend": info.get("attention_backend"),
        "dsa_layout": _dsa_layout(info),
        "states": _kv_budget.StateSettings(
            ssm_dtype=info.get("mamba_ssm_dtype"),
            full_memory_ratio=float(info.get("mamba_full_memory_ratio") or 0.9),
            strategy=str(strategy or "auto"),
            disable_radix_cache=bool(info.get("disable_radix_cache")),
            disable_overlap_schedule=bool(info.get("disable_overlap_schedule")),
            max_cache_size=_int(info.get("max_mamba_cache_size")),
        ),
        "speculative": _kv_budget.Speculative(
            algorithm=info.get("speculative_algorithm"),
            num_draft_tokens=_int(info.get("speculative_num_draft_tokens")),
        ),
    }


def _dsa_layout(info: dict[str, t.Any]) -> str:
    """How the backends of a sparse attention keep the latent; they were renamed in 0.5.13."""
    backends = {info.get(f"{kind}_{side}_backend") for kind in ("nsa", "dsa") for side in ("prefill", "decode")}
    row = kv.pick(kv.DSA_RAW, _kv_dtype.version_of(info.get("version")))
    return "raw" if row and backends & set(row.value) else "scaled"


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


def _int(value: t.Any) -> int | None:
    try:
        return int(value) if value else None
    except (TypeError, ValueError):
        return None


CHECKS: tuple[t.Callable[[Context], Check], ...] = (roomy_free, roomy_capacity, roomy_need)
QUICK: tuple[t.Callable[[Context], Check], ...] = (roomy_need,)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether what an instance needs can fit, computed before anything is stopped for it (private to the collection).

Two capacities are computed. The *most* takes everything in the engine's favour: an empty GPU, a tenth of the weights
not loaded (draft layers, a vision tower), the greatest share of memory that the version chooses. What does not fit
into that fits in no way. The *likely* one is the same without favours.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint_info, _kv_budget, _kv_dtype
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import memory
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_roomy import budget_settings

# Options of the action plugin, documented in plugins/modules/kv_cache_need_assert.py.
ARGUMENTS: dict[str, t.Any] = {
    "checkpoint": {"type": "dict", "required": True},
    "args": {"type": "dict", "default": {}},
    "need": {"type": "dict", "default": {}},
    "gpus": {"type": "raw", "default": "all"},
    "cards": {"type": "list", "elements": "dict", "default": []},
    "engine_version": {"type": "str"},
    "exceptions": {"type": "list", "elements": "dict", "default": []},
}
EXCEPTION = "capacity"
# Of the weights' bytes, what is on the GPUs at the least.
LEAST_WEIGHTS = 0.9
# Of a GPU's memory, what is free for an engine when loading begins. Captured: 139.13 of 140.40 GiB.
LIKELY_FREE = 0.99
# Arguments after which the bytes of the files say nothing on the bytes on the GPUs.
_ELSEWHERE = re.compile(r"cpu_offload_gb|offload_.*|kt_.*|enable_paged_experts|load_format|torchao_config|.*_online")
# Keys of a config.json that only models with a vision tower have.
_VISION = {"image_token_id", "image_token_index", "vision_start_token_id", "media_placeholder_token_id"}
_USUAL = (None, 0, -1, False, "", "auto", "safetensors")


@dataclasses.dataclass
class Outcome:
    """``result`` of the action, ``failure`` what to fail with (empty: nothing), ``warnings`` for the operator."""

    result: dict[str, t.Any]
    failure: str
    warnings: list[str]


def run(options: t.Mapping[str, t.Any]) -> Outcome:
    """Judge with the action's options; what cannot be computed is no failure, but told."""
    args, need = options["args"], options["need"] or {}
    context, concurrent = int(need.get("context") or 0), int(need.get("concurrent") or 1)
    longest = int(args.get("context_length") or 0)
    wanted = max(context * concurrent, longest)
    result: dict[str, t.Any] = {
        "verdict": "fits",
        "needed": {"tokens": wanted, "requests": concurrent if need else 0},
        "most": None,
        "likely": None,
        "notes": [],
        "formula": "",
        "excepted_by": None,
    }
    if not wanted and concurrent == 1:
        return Outcome(result, "", [])  # nothing was asked for
    total = _smallest(options["gpus"], options["cards"])
    if total is None:
        result.update(verdict="unknown", notes=["the memory of the instance's GPUs is not known"])
        return Outcome(result, "", [f"whether {_asked(need, longest)} fits is not predicted: {result['notes'][0]}"])
    try:
        most, likely = (_capacity(options, total, favour) for favour in (True, False))
    except SglangError as error:
        result.update(verdict="unknown", notes=[str(error)])
        return Outcome(result, "", [f"whether {_asked(need, longest)} fits is not predicted: {error}"])
    result.update(
        most=_shown(most), likely=_shown(likely), formula=most["formula"], notes=_weights(options)[1] + most["notes"]
    )
    short = _short(most, wanted, concurrent)
    if not short:
        close = _short(likely, wanted, concurrent)
        result["verdict"] = "close" if close else "fits"
        told = f"{_asked(need, longest)} may not fit: {close}; the gate tells after the start"
        return Outcome(result, "", [told] if close else [])
    words = f"{_asked(need, longest)} cannot fit: {short} ({most['formula']}). {_advice(options, most, wanted)}"
    if most["approximate"]:
        result["verdict"] = "unknown"
        doubts = "; ".join(note for note in most["notes"] if note.startswith("approximate"))
        return Outcome(result, "", [f"{words} It is told only, since the model is not wholly understood: {doubts}"])
    result["verdict"] = "short"
    granted = next((entry for entry in options["exceptions"] if entry.get("id") == EXCEPTION), None)
    if granted is not None:
        result["excepted_by"] = granted
        return Outcome(result, "", [f"{words} Excepted: {granted.get('reason')}"])
    return Outcome(result, f"{words} Or grant the exception {EXCEPTION} with a reason.", [])


def _smallest(gpus: t.Any, cards: t.Sequence[t.Mapping[str, t.Any]]) -> float | None:
    """MiB of the smallest of the GPUs that the instance has; None where one of them is not known."""
    totals = {int(card["index"]): float(card["total_mib"]) for card in cards if card.get("total_mib")}
    wanted = list(totals) if gpus == "all" else [int(index) for index in gpus]
    return min(totals[index] for index in wanted) if wanted and set(wanted) <= set(totals) else None


def _weights(options: t.Mapping[str, t.Any]) -> tuple[float, list[str]]:
    """GiB of the weights, all GPUs together, and what is to be said of it; 0 where the files do not tell."""
    checkpoint, args = options["checkpoint"], options["args"]
    size = (checkpoint.get("files") or {}).get("bytes")
    moved = [name for name, value in args.items() if _ELSEWHERE.fullmatch(name) and value not in _USUAL]
    if args.get("quantization") and not checkpoint.get("weight_algo"):
        moved.append("quantization")  # quantized while it is loaded
    if not size or moved:
        why = f"{moved[0]} is given" if moved else "the files do not tell"
        return 0.0, [f"how much of the GPUs the weights take is not known ({why}); they are counted as nothing"]
    return size / _kv_budget.GIB, []


def _capacity(options: t.Mapping[str, t.Any], total_mib: float, favour: bool) -> dict[str, t.Any]:
    """The budget of one GPU, with its ``tokens`` and ``max_running_requests`` for all groups of GPUs together."""
    args, checkpoint = options["args"], _checkpoint_info.rebuilt(options["checkpoint"])
    version = _kv_dtype.version_of(options["engine_version"])
    settings = budget_settings({**args, "version": options["engine_version"]})
    share = _weights(options)[0] / (settings["tp_size"] * settings["pp_size"])
    before = total_mib / 1024 * (1.0 if favour else LIKELY_FREE)
    fraction = args.get("mem_fraction_static")
    if fraction is None:
        vision = not _VISION.isdisjoint(options["checkpoint"].get("config") or {})
        fraction = memory.most_fraction(version, total_mib) if favour else memory.usual_fraction(total_mib, vision)
    found = _kv_budget.budget(
        checkpoint,
        kv_cache_dtype=str(args.get("kv_cache_dtype") or "auto"),
        engine_version=options["engine_version"],
        memory=_kv_budget.Memory(
            before_load=round(before, 2),
            after_load=round(before - share * (LEAST_WEIGHTS if favour else 1.0), 2),
            fraction=round(float(fraction), 3),
        ),
        **settings,
    )
    groups = settings["dp_size"]
    for key in ("tokens", "max_running_requests"):
        found[key] = max(0, found[key] or 0) * groups
    return found


def _shown(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"tokens": found["tokens"], "requests": found["max_running_requests"]}


def _short(found: t.Mapping[str, t.Any], tokens: int, requests: int) -> str:
    """What is short of the need, in words; empty if nothing is."""
    if found["tokens"] < tokens:
        return f"at most {found['tokens']} tokens fit, {tokens} are needed"
    if found["max_running_requests"] < requests:
        return f"at most {found['max_running_requests']} requests run at once, {requests} are needed"
    return ""


def _asked(need: t.Mapping[str, t.Any], longest: int) -> str:
    """What is asked for, by the variables that say it."""
    words = [f"need.{key} {need[key]}" for key in ("context", "concurrent") if need.get(key)]
    return " and ".join([*words, *([f"args.context_length {longest}"] if longest else [])])


def _advice(options: t.Mapping[str, t.Any], found: t.Mapping[str, t.Any], wanted: int) -> str:
    """Which variable to change, and to what where that is known."""
    args, ways = options["args"], []
    if options["need"]:
        ways.append("lower need.context or need.concurrent")
    if args.get("context_length"):
        ways.append("lower args.context_length")
    if args.get("mem_fraction_static") is not None and args["mem_fraction_static"] < 0.8:
        ways.append(f"raise args.mem_fraction_static (now {args['mem_fraction_static']})")
    if found["kv_cache_dtype"] == "bfloat16" and (found["fp8"]["tokens"] or 0) >= wanted:
        ways.append("write args.kv_cache_dtype: fp8_e4m3 where the checkpoint has calibrated scales")
    ways.append("give it more GPUs (gpus and args.tp_size)")
    return "Fix: " + ", or ".join(ways) + "."

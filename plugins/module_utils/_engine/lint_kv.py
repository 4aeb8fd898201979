# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint rules on the type of the KV cache (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    WARN,
    Facts,
    Finding,
    Rule,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion


def _auto_effect(facts: Facts) -> str:
    if facts.deepseek_v4 or facts.sparse:
        return f"sglang {facts.version} makes the KV cache of this model FP8 on Blackwell, whatever the checkpoint says"
    if facts.within("<0.5.10"):
        return (
            "sglang before 0.5.10 takes BF16 for Qwen3.5 by an oversight, and FP8 for other models whose checkpoint "
            "says kv_cache_quant_algo FP8"
        )
    scales = "scale 1.0" if facts.within("<0.5.17") else "the checkpoint's scales, or 1.0 where it has none"
    return (
        f"sglang {facts.version} makes the KV cache FP8 with {scales} if the checkpoint says kv_cache_quant_algo FP8, "
        "and says so in no warning; answers get worse or turn into garbage"
    )


def _admitted(facts: Facts) -> tuple[str, ...]:
    """The types that the engine admits for this model, best first; empty where the model narrows nothing."""
    rows = kv.DSV4_VALUES if facts.deepseek_v4 else kv.DSA_VALUES if facts.sparse else ()
    row = kv.pick(rows, EngineVersion.parse(facts.version))
    return tuple(row.value) if row else ()


def _right(facts: Facts) -> str:
    admitted = _admitted(facts)
    if facts.deepseek_v4 and admitted:
        return f"write kv_cache_dtype: {' or '.join(admitted)}"
    return "write kv_cache_dtype: bf16"


def _auto(facts: Facts) -> Finding | None:
    given = facts.get("kv_cache_dtype")
    if given not in (None, "auto"):
        return None
    said = "is auto" if given == "auto" else "is not given, which means auto"
    quantization = facts.get("quantization")
    path = str(facts.instance["model_path"]).lower()
    risk = facts.fp4 or "fp8" in path or str(quantization).startswith(("modelopt", "fp8"))
    if not risk:
        return None
    calibrated = "" if facts.deepseek_v4 else " (fp8_e4m3 only for a checkpoint that carries calibrated scales)"
    return Finding(
        "args.kv_cache_dtype",
        f"{said}, and this checkpoint is a quantized one: {_auto_effect(facts)}",
        "a type that is said, so that it can be proved",
        _right(facts) + calibrated,
    )


def _auto_unsure(facts: Facts) -> Finding | None:
    if facts.get("kv_cache_dtype") not in (None, "auto") or _auto(facts) is not None:
        return None
    return Finding(
        "args.kv_cache_dtype",
        "is auto; whether that is right is judged on the host, from the checkpoint",
        "a type that is said",
        _right(facts),
    )


def _not_admitted(facts: Facts) -> Finding | None:
    given, admitted = facts.get("kv_cache_dtype"), _admitted(facts)
    if given in (None, "auto", *admitted) or not admitted:
        return None
    model = "DeepSeek-V4" if facts.deepseek_v4 else "a model with DeepSeek's sparse attention"
    return Finding(
        "args.kv_cache_dtype",
        f"is {given}, which sglang {facts.version} asserts against for {model}",
        "one of " + ", ".join(admitted) + (", in this spelling" if given == "bf16" else ""),
        _right(facts),
    )


def _glm5_fp8(facts: Facts) -> Finding | None:
    if not facts.glm5 or not str(facts.get("kv_cache_dtype")).startswith("fp8"):
        return None
    return Finding(
        "args.kv_cache_dtype",
        f"is {facts.get('kv_cache_dtype')} for a GLM-5: reports of garbled answers, or of one token and no more",
        "bf16",
        "write kv_cache_dtype: bf16",
    )


def _experimental(facts: Facts) -> Finding | None:
    given = facts.get("kv_cache_dtype")
    if given not in ("nvfp4", "fp4_e2m1", "fp4_mx_block16", "mxfp8") or _not_admitted(facts) is not None:
        return None
    return Finding(
        "args.kv_cache_dtype",
        f"is {given}, which is new on SM120 and proved by nobody",
        "bf16, or fp8_e4m3 with calibrated scales",
        "write kv_cache_dtype: bf16",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "kv_cache_dtype_auto",
        REFUSE,
        "",
        "FP8 KV cache with scale 1.0, no line in the log, worse or garbled answers",
        "configure_kv_cache_dtype in model_runner.py; sglang PR 19291; Model-Optimizer PR 1012",
        _auto,
    ),
    Rule(
        "kv_cache_dtype_unsaid",
        WARN,
        "",
        "the type depends on checkpoint and version",
        "sglang PR 19291",
        _auto_unsure,
    ),
    Rule(
        "kv_cache_dtype_model",
        REFUSE,
        "",
        "AssertionError: bf16 is not supported for DeepseekV4ForCausalLM",
        "; ".join(row.source for row in (*kv.DSV4_VALUES, *kv.DSA_VALUES)),
        _not_admitted,
    ),
    Rule(
        "kv_cache_dtype_glm5",
        REFUSE,
        "<0.5.17",
        "garbled text, or one token",
        "local-inference-lab/rtx6kpro, models/",
        _glm5_fp8,
    ),
    Rule(
        "kv_cache_dtype_glm5_told",
        WARN,
        ">=0.5.17",
        "garbled text, or one token, as reported of versions without flashinfer_sparse_mla",
        "local-inference-lab/rtx6kpro, models/; overrides.py of 0.5.17",
        _glm5_fp8,
    ),
    Rule(
        "kv_cache_dtype_experimental",
        WARN,
        "",
        "asserts, or unproved quality",
        "sglang PR 21601; kv_cache_hook.py of 0.5.23",
        _experimental,
    ),
)

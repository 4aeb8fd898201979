# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint rules on backends that run on SM120 with some models, versions or types only (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import lint_kernels
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    WARN,
    Facts,
    Finding,
    Rule,
)

_REPORTS = "local-inference-lab/rtx6kpro, inference-engines/"
# Each of them sets ep_size or asserts that it is more than 1.
_EXPERT_PARALLEL = (
    r"(speculative_)?moe_a2a_backend|elastic_ep_backend|enable_eplb|enable_(nsa|dsa)_prefill_context_parallel"
)


def _trtllm_mha(facts: Facts) -> Finding | None:
    for field, value in facts.matching(lint_kernels.ATTENTION):
        if value == "trtllm_mha":
            if facts.within("<0.5.17"):
                return Finding(
                    f"args.{field}",
                    f"is trtllm_mha, which sglang {facts.version} refuses outside SM100",
                    "triton or flashinfer",
                    f"write {field}: triton",
                )
            if str(facts.get("kv_cache_dtype")).startswith("fp8") and field != "decode_attention_backend":
                return Finding(
                    f"args.{field}",
                    "is trtllm_mha, whose prefill on SM120 takes no FP8 KV cache",
                    "triton or flashinfer, or kv_cache_dtype: bf16",
                    f"write {field}: triton",
                )
    return None


def _hybrid_attention(facts: Facts) -> Finding | None:
    value = facts.get("attention_backend")
    if not facts.hybrid or value == "triton":
        return None
    said = f"is {value}" if value else "is not given, which means flashinfer"
    return Finding(
        "args.attention_backend",
        f"{said}; sglang {facts.version} starts this hybrid model on Blackwell with triton only",
        "triton",
        "write attention_backend: triton",
    )


def _attention_unset(facts: Facts) -> Finding | None:
    if facts.get("attention_backend") is not None or not facts.fp4 or facts.sparse or facts.deepseek_v4:
        return None  # models with an attention of their own have rules of their own
    if facts.hybrid and facts.within("<0.5.10"):
        return None  # refused above
    return Finding(
        "args.attention_backend",
        "is not given; which one the engine takes on SM120 changed between versions",
        "a backend that is said",
        "write attention_backend: triton",
    )


def _moe_triton(facts: Facts) -> Finding | None:
    for field, value in facts.matching(lint_kernels.MOE):
        if value in ("triton", "triton_kernel") and facts.fp4:
            return Finding(
                f"args.{field}",
                f"is {value} with an NVFP4 checkpoint: SM120 has no such kernel, and the server "
                "answers garbage without an error (one report names a model for which it works)",
                "flashinfer_cutlass",
                f"write {field}: flashinfer_cutlass",
            )
    return None


def _moe_auto(facts: Facts) -> Finding | None:
    value = facts.get("moe_runner_backend")
    if value not in (None, "auto") or not facts.fp4:
        return None
    return Finding(
        "args.moe_runner_backend",
        f"is {'auto' if value else 'not given, which means auto'}: this version picks "
        "an SM100-only backend on every Blackwell GPU, and the first request dies",
        "flashinfer_cutlass",
        "write moe_runner_backend: flashinfer_cutlass",
    )


def _moe_auto_told(facts: Facts) -> Finding | None:
    found = _moe_auto(facts)
    if found is None:
        return None
    return found._replace(what="is left to the engine; reports disagree on what it then picks on SM120")


def _moe_cutlass_quantization(facts: Facts) -> Finding | None:
    if facts.get("moe_runner_backend") != "flashinfer_cutlass":
        return None
    allowed = ["modelopt_fp4", "modelopt_fp8"] + (["modelopt_mixed"] if facts.within(">=0.5.23") else [])
    value = facts.get("quantization")
    if value is None or value in allowed:
        return None
    return Finding(
        "args.moe_runner_backend",
        f"is flashinfer_cutlass, which the engine refuses with quantization {value}",
        "quantization " + ", ".join(allowed),
        "write moe_runner_backend: triton",
    )


def _moe_unproven(facts: Facts) -> Finding | None:
    value = facts.get("moe_runner_backend")
    if value != "flashinfer_cutedsl":
        return None
    return Finding(
        "args.moe_runner_backend",
        f"is {value}, of which no report from SM120 exists",
        "flashinfer_cutlass",
        "run the backend matrix before you rely on it",
    )


def _fp4_gemm_race(facts: Facts) -> Finding | None:
    value = facts.get("fp4_gemm_runner_backend")
    if not facts.fp4 or value not in (None, "auto", "flashinfer_cutlass"):
        return None
    return Finding(
        "args.fp4_gemm_runner_backend",
        f"is {value or 'not given'}, which means flashinfer_cutlass: FlashInfer "
        "before 0.6.7 computes wrong under 64 and more concurrent requests with it",
        "flashinfer_cudnn",
        "write fp4_gemm_runner_backend: flashinfer_cudnn",
    )


def _half(facts: Facts) -> Finding | None:
    if facts.get("dtype") not in ("half", "float16") or not facts.fp4:
        return None
    return Finding(
        "args.dtype",
        f"is {facts.get('dtype')} with an NVFP4 checkpoint: SM120 has no such kernel, and the server answers garbage",
        "bfloat16",
        "write dtype: bfloat16, or leave it out",
    )


def _expert_parallel(facts: Facts) -> Finding | None:
    if facts.number("ep_size", 1) > 1:
        return Finding(
            "args.ep_size",
            f"is {facts.number('ep_size', 1)}: expert parallelism on SM120 has no working "
            "kernels (DeepEP needs NVLink or InfiniBand and SM90)",
            "1: tensor parallelism",
            "remove ep_size",
        )
    for field, value in facts.matching(_EXPERT_PARALLEL):
        if value not in (None, False, "none"):
            return Finding(
                f"args.{field}",
                f"is {str(value).lower()}: it brings expert parallelism, which on SM120 has no working kernels",
                "not given: tensor parallelism",
                f"remove {field}",
            )
    return None


def _torch_symm_mem(facts: Facts) -> Finding | None:
    if not facts.get("enable_torch_symm_mem"):
        return None
    effect = "this version looks SM120 up in a table without it" if facts.within("<0.5.15") else "it has no effect"
    return Finding(
        "args.enable_torch_symm_mem",
        f"is true, which is for SM90 and SM100: {effect}",
        "not given",
        "remove enable_torch_symm_mem",
    )


def _allreduce_fusion(facts: Facts) -> Finding | None:
    for field in ("enable_flashinfer_allreduce_fusion", "flashinfer_allreduce_fusion_backend"):
        if facts.get(field) not in (None, False, "none", "disabled"):
            return Finding(
                f"args.{field}",
                "has no effect on SM120: the fusion is for SM90 and SM100",
                "not given",
                f"remove {field}",
            )
    return None


RULES: tuple[Rule, ...] = (
    Rule(
        "attention_trtllm_mha",
        REFUSE,
        "",
        "raises at start",
        "server_args.py of 0.5.9; attention_hook.py of 0.5.23",
        _trtllm_mha,
    ),
    Rule(
        "attention_hybrid_blackwell",
        REFUSE,
        "<0.5.10",
        "triton or trtllm_mha backend are the only supported backends on Blackwell GPUs for hybrid GDN models",
        "attention_registry.py of 0.5.9; sglang issue 18758",
        _hybrid_attention,
    ),
    Rule(
        "attention_backend_unsaid",
        WARN,
        "",
        "other speed or an assert after an upgrade",
        "attention_hook.py of 0.5.23; sglang PR 39807",
        _attention_unset,
    ),
    Rule(
        "moe_triton_fp4",
        REFUSE,
        "",
        "garbage text; run_fp4_blockwise_scaled_group_mm_sm120 half no implementation",
        "AlexGS74/glm47-nvfp4-sm120",
        _moe_triton,
    ),
    Rule(
        "moe_auto",
        REFUSE,
        "<0.5.13.post1",
        "NotImplementedError before the first token",
        "sglang PR 39807; overrides.py of 0.5.23",
        _moe_auto,
    ),
    Rule(
        "moe_auto_unsaid",
        WARN,
        ">=0.5.13.post1",
        "NotImplementedError before the first token, in some builds",
        "sglang PR 39807; overrides.py of 0.5.23",
        _moe_auto_told,
    ),
    Rule(
        "moe_cutlass_quantization",
        REFUSE,
        "",
        "assertion at start",
        "server_args.py of 0.5.9; moe_hook.py of 0.5.23",
        _moe_cutlass_quantization,
    ),
    Rule("moe_unproven", WARN, "", "unknown", _REPORTS, _moe_unproven),
    Rule(
        "fp4_gemm_race",
        WARN,
        "<0.5.12",
        "probability tensor contains either inf, nan, from 64 concurrent requests on",
        "flashinfer issue 2708, PR 2716 and 2913",
        _fp4_gemm_race,
    ),
    Rule("dtype_half_fp4", REFUSE, "", "garbage text", "AlexGS74/glm47-nvfp4-sm120", _half),
    Rule(
        "expert_parallel_sm120",
        REFUSE,
        "",
        "garbage, asserts, hangs or missing kernels",
        "sglang issue 21132; DeepEP's requirements; _handle_a2a_moe and _handle_eplb of 0.5.9",
        _expert_parallel,
    ),
    Rule(
        "torch_symm_mem_sm120",
        REFUSE,
        "<0.5.15",
        "KeyError: 12",
        "device_communicators/torch_symm_mem.py of 0.5.9; sglang PR 24548",
        _torch_symm_mem,
    ),
    Rule(
        "torch_symm_mem_unused",
        WARN,
        ">=0.5.15",
        "Device capability 12 not supported",
        "device_communicators/torch_symm_mem.py of 0.5.23",
        _torch_symm_mem,
    ),
    Rule("allreduce_fusion_sm120", WARN, "", "nothing happens", "sglang issue 18758", _allreduce_fusion),
)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint rules on the KV cache's type and on backends that SM120 has no kernels for (private to the collection).

SM120 has 99 KB of shared memory, no TMEM, no tcgen05 and no WGMMA: whatever ships only SM90 or SM100 binaries fails.
"""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    WARN,
    Facts,
    Finding,
    Rule,
)

_ATTENTION = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
_NO_SM120_ATTENTION = {
    "trtllm_mla": "its kernels are SM100 binaries",
    "fa3": "its kernels are SM90 binaries",
    "fa4": "its kernels need SM90 or SM100",
    "flashmla": "its kernels are SM90 and SM100 binaries",
    "cutlass_mla": "its kernels need SM100",
    "cutedsl_mla": "its kernels need SM100",
}
_MOE = ("moe_runner_backend", "speculative_moe_runner_backend")
_NO_SM120_MOE = {
    "flashinfer_trtllm": "its kernels are SM100 binaries: the first request dies",
    "flashinfer_trtllm_routed": "its kernels are SM100 binaries: the first request dies",
    "experimental_sgl_trtllm": "its kernels are SM100 binaries",
    "flashinfer_mxfp4": "it needs SM90 or SM100",
    "deep_gemm": "SM120 has no such kernel: another one is taken without a word, and the log still names this one",
    "megamoe": "it needs SM100",
    "flashinfer_megamoe": "it needs SM100",
}
_NO_SM120_FP8 = {
    "deep_gemm": "SM120 has no such kernel",
    "flashinfer_trtllm": "its kernels are SM100 binaries",
    "flashinfer_deepgemm": "its kernels are SM90 binaries",
}
_REPORTS = "local-inference-lab/rtx6kpro, inference-engines/"


def _auto_effect(facts: Facts) -> str:
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


def _kv_auto(facts: Facts) -> Finding | None:
    given = facts.get("kv_cache_dtype")
    if given not in (None, "auto"):
        return None
    said = "is auto" if given == "auto" else "is not given, which means auto"
    quantization = facts.get("quantization")
    path = str(facts.instance["model_path"]).lower()
    risk = facts.fp4 or "fp8" in path or str(quantization).startswith(("modelopt", "fp8"))
    if not risk:
        return None
    return Finding(
        "args.kv_cache_dtype",
        f"{said}, and this checkpoint is a quantized one: {_auto_effect(facts)}",
        "a type that is said, so that it can be proved",
        "write kv_cache_dtype: bf16 (fp8_e4m3 only for a checkpoint that carries calibrated scales)",
    )


def _kv_auto_unsure(facts: Facts) -> Finding | None:
    if facts.get("kv_cache_dtype") not in (None, "auto") or _kv_auto(facts) is not None:
        return None
    return Finding(
        "args.kv_cache_dtype",
        "is auto; whether that is right is judged on the host, from the checkpoint",
        "a type that is said",
        "write kv_cache_dtype: bf16",
    )


def _kv_fp4(facts: Facts) -> Finding | None:
    given = facts.get("kv_cache_dtype")
    if given not in ("nvfp4", "fp4_e2m1", "fp4_mx_block16", "mxfp8"):
        return None
    return Finding(
        "args.kv_cache_dtype",
        f"is {given}, which is new on SM120 and proved by nobody",
        "bf16, or fp8_e4m3 with calibrated scales",
        "write kv_cache_dtype: bf16",
    )


def _attention(facts: Facts) -> Finding | None:
    for field in _ATTENTION:
        value = facts.get(field)
        if value in _NO_SM120_ATTENTION:
            return Finding(
                f"args.{field}",
                f"is {value}, which does not run on SM120: {_NO_SM120_ATTENTION[value]}",
                "triton or flashinfer",
                f"write {field}: triton",
            )
    return None


def _trtllm_mha(facts: Facts) -> Finding | None:
    for field in _ATTENTION:
        if facts.get(field) == "trtllm_mha":
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
    if facts.get("attention_backend") is not None or not facts.fp4:
        return None
    if facts.hybrid and facts.within("<0.5.10"):
        return None  # refused above
    return Finding(
        "args.attention_backend",
        "is not given; which one the engine takes on SM120 changed between versions",
        "a backend that is said",
        "write attention_backend: triton",
    )


def _moe(facts: Facts) -> Finding | None:
    for field in _MOE:
        value = facts.get(field)
        if value in _NO_SM120_MOE:
            return Finding(
                f"args.{field}",
                f"is {value}, which does not work on SM120: {_NO_SM120_MOE[value]}",
                "flashinfer_cutlass (NVFP4), triton (FP8, INT4)",
                f"write {field}: {'flashinfer_cutlass' if facts.fp4 else 'triton'}",
            )
    return None


def _moe_triton(facts: Facts) -> Finding | None:
    for field in _MOE:
        value = facts.get(field)
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


def _fp4_gemm(facts: Facts) -> Finding | None:
    if facts.get("fp4_gemm_runner_backend") != "flashinfer_trtllm":
        return None
    return Finding(
        "args.fp4_gemm_runner_backend",
        "is flashinfer_trtllm, which does not run on SM120: mm_fp4 does not "
        "support backend 'trtllm' with capability 120",
        "flashinfer_cudnn",
        "write fp4_gemm_runner_backend: flashinfer_cudnn",
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


def _fp8_gemm(facts: Facts) -> Finding | None:
    value = facts.get("fp8_gemm_runner_backend")
    if value not in _NO_SM120_FP8:
        return None
    return Finding(
        "args.fp8_gemm_runner_backend",
        f"is {value}, which does not work on SM120: {_NO_SM120_FP8[value]}",
        "triton or cutlass",
        "write fp8_gemm_runner_backend: triton",
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
    backend = facts.get("moe_a2a_backend")
    if backend not in (None, "none"):
        return Finding(
            "args.moe_a2a_backend",
            f"is {backend}: expert parallelism on SM120 has no working kernels",
            "none",
            "remove moe_a2a_backend",
        )
    return None


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
        "kv_cache_dtype_auto",
        REFUSE,
        "",
        "FP8 KV cache with scale 1.0, no line in the log, worse or garbled answers",
        "configure_kv_cache_dtype in model_runner.py; sglang PR 19291; Model-Optimizer PR 1012",
        _kv_auto,
    ),
    Rule(
        "kv_cache_dtype_unsaid",
        WARN,
        "",
        "the type depends on checkpoint and version",
        "sglang PR 19291",
        _kv_auto_unsure,
    ),
    Rule(
        "kv_cache_dtype_experimental",
        WARN,
        "",
        "asserts, or unproved quality",
        "sglang PR 21601; kv_cache_hook.py of 0.5.23",
        _kv_fp4,
    ),
    Rule(
        "attention_backend_sm120",
        REFUSE,
        "",
        "Unsupported architecture, at the first request",
        "flashinfer issue 3263; " + _REPORTS,
        _attention,
    ),
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
    Rule("moe_backend_sm120", REFUSE, "", "requires 10.x architecture. Current device has SM 120", _REPORTS, _moe),
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
        "fp4_gemm_trtllm",
        REFUSE,
        "",
        "BackendSupportedError: mm_fp4 does not support backend 'trtllm'",
        "flashinfer issue 2577; sglang PR 35739",
        _fp4_gemm,
    ),
    Rule(
        "fp4_gemm_race",
        WARN,
        "<0.5.12",
        "probability tensor contains either inf, nan, from 64 concurrent requests on",
        "flashinfer issue 2708, PR 2716 and 2913",
        _fp4_gemm_race,
    ),
    Rule("fp8_gemm_sm120", REFUSE, "", "no kernel, or another one in silence", _REPORTS, _fp8_gemm),
    Rule("dtype_half_fp4", REFUSE, "", "garbage text", "AlexGS74/glm47-nvfp4-sm120", _half),
    Rule(
        "expert_parallel_sm120",
        REFUSE,
        "",
        "asserts, hangs or missing kernels",
        "DeepEP's requirements; no report of a working setup",
        _expert_parallel,
    ),
    Rule("allreduce_fusion_sm120", WARN, "", "nothing happens", "sglang issue 18758", _allreduce_fusion),
)

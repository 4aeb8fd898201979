# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backends that have no kernels for SM120, whichever option names them (private to the collection).

SM120 has 99 KB of shared memory, no TMEM, no tcgen05 and no WGMMA: whatever ships only SM90 or SM100 binaries fails.
Options are meant by a pattern over the field names of the option table, so that the draft model's, the prefill's and
the decode's backend are judged like the main one, in each version that has them.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    Facts,
    Finding,
    Rule,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.options import options_for
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion

# Fields of one kind: a regular expression that their whole name matches.
ATTENTION = r"(prefill_|decode_|speculative_draft_)?attention_backend"
SPARSE = r"[nd]sa_(prefill|decode)_backend"
MOE = r"(speculative_)?moe_runner_backend"

_SM90 = "its kernels are SM90 binaries"
_SM100 = "its kernels are SM100 binaries"
_BOTH = "its kernels are SM90 and SM100 binaries"
_ELSEWHERE = "it is for other makers' chips"
_REPORTS = "local-inference-lab/rtx6kpro, inference-engines/"


class Missing(t.NamedTuple):
    """Values of one kind of field that SM120 has no kernels for, and what to write instead."""

    id: str
    fields: str
    values: dict[str, str]  # value: why
    right: t.Callable[[Facts, str], str]  # by facts and field
    expected: str
    symptom: str
    source: str


def _sparse_right(facts: Facts, field: str) -> str:
    """What of a version's choices runs the sparse attention on SM120."""
    choices = options_for(facts.version)[field].choices
    if "flashinfer_sparse_mla" in choices and facts.glm5 and facts.get("kv_cache_dtype") == "fp8_e4m3":
        return "flashinfer_sparse_mla"
    return "tilelang"


MISSING: tuple[Missing, ...] = (
    Missing(
        "attention_backend_sm120",
        ATTENTION,
        {
            "trtllm_mla": _SM100,
            "fa3": _SM90,
            "fa4": "its kernels need SM90 or SM100",
            "flashmla": _BOTH,
            "cutlass_mla": "its kernels need SM100",
            "cutedsl_mla": "its kernels need SM100",
            "tokenspeed_mla": "it is the older name of cutedsl_mla, which needs SM100",
            "hpc_ops": _SM90,
            **dict.fromkeys(("aiter", "wave", "intel_amx", "intel_xpu", "ascend"), _ELSEWHERE),
        },
        lambda facts, field: "triton",
        "triton or flashinfer",
        "Unsupported architecture, at the first request",
        f"flashinfer issue 3263; arg_groups/choices.py of 0.5.23; {_REPORTS}",
    ),
    Missing(
        "sparse_attention_sm120",
        SPARSE,
        {
            "trtllm": _SM100,
            **dict.fromkeys(("flashmla_sparse", "flashmla_sparse_q8", "flashmla_kv", "flashmla_auto"), _BOTH),
            "fa3": _SM90,
            **dict.fromkeys(("triton", "aiter", "intel_xpu"), _ELSEWHERE),
        },
        _sparse_right,
        "tilelang, or from 0.5.17 on flashinfer_sparse_mla (GLM with an FP8 KV cache)",
        "Assertion error (attention.hpp:159): Unsupported architecture",
        "local-inference-lab/rtx6kpro, models/; layers/attention/dsa_backend.py of 0.5.17 and 0.5.23",
    ),
    Missing(
        "sparse_indexer_sm120",
        r"dsa_paged_mqa_logits_backend",
        {"cutedsl": "its kernels need SM100", "aiter": _ELSEWHERE},
        lambda facts, field: "auto",
        "auto",
        "no kernel at the first request",
        "help of --dsa-paged-mqa-logits-backend in 0.5.23",
    ),
    Missing(
        "dsv4_attention_sm120",
        r"dsv4_attn_backend",
        {"trtllm": "the engine asserts SM100 or SM103", "flashmla_mega": "the engine asserts SM100 or SM103"},
        lambda facts, field: "auto",
        "auto or flashmla, which has SM120 kernels for this model",
        "AssertionError: --dsv4-attn-backend trtllm requires an SM100/SM103 (Blackwell) GPU",
        "arg_groups/deepseek_v4_hook.py of 0.5.23",
    ),
    Missing(
        "vision_attention_sm120",
        r"mm_attention_backend",
        {
            "fa3": "the engine refuses it on Blackwell",
            "fa4": "its kernels need SM100",
            **dict.fromkeys(("ascend_attn", "aiter_attn", "amx_attn", "xpu_attn"), _ELSEWHERE),
        },
        lambda facts, field: "triton_attn",
        "triton_attn, or sdpa",
        "ValueError: The 'fa3' backend is not supported on Blackwell GPUs",
        "layers/attention/vision.py of 0.5.9 and 0.5.23",
    ),
    Missing(
        "moe_backend_sm120",
        MOE,
        {
            **dict.fromkeys(("flashinfer_trtllm", "flashinfer_trtllm_routed"), f"{_SM100}: the first request dies"),
            "experimental_sgl_trtllm": _SM100,
            "flashinfer_mxfp4": "it needs SM90 or SM100",
            "deep_gemm": "SM120 has no such kernel: another one is taken without a word, and the log names this one",
            "megamoe": "it needs SM90 or SM100",
            "flashinfer_megamoe": "it needs SM100",
            "hpc_ops": _SM90,
            **dict.fromkeys(("aiter", "intel_xpu"), _ELSEWHERE),
        },
        lambda facts, field: "flashinfer_cutlass" if facts.fp4 else "triton",
        "flashinfer_cutlass (NVFP4), triton (FP8, INT4)",
        "requires 10.x architecture. Current device has SM 120",
        f"{_REPORTS}; arg_groups/choices.py and moe_hook.py of 0.5.23",
    ),
    Missing(
        "quantization_sm120",
        r"(speculative_draft_model_)?quantization",
        {"nvfp4_online": "the engine refuses it outside SM100 and SM103"},
        lambda facts, field: "modelopt_fp4",
        "modelopt_fp4, with a checkpoint that is quantized already",
        "ValueError: --quantization nvfp4_online is supported only on NVIDIA Blackwell SM100/SM103 GPUs",
        "arg_groups/overrides.py of 0.5.23, _moe_runner_backend_quant_constraints",
    ),
    Missing(
        "fp4_gemm_trtllm",
        r"fp4_gemm_runner_backend",
        {"flashinfer_trtllm": "mm_fp4 does not support backend 'trtllm' with capability 120"},
        lambda facts, field: "flashinfer_cudnn",
        "flashinfer_cudnn",
        "BackendSupportedError: mm_fp4 does not support backend 'trtllm'",
        "flashinfer issue 2577; sglang PR 35739",
    ),
    Missing(
        "fp8_gemm_sm120",
        r"fp8_gemm_runner_backend",
        {
            "deep_gemm": "SM120 has no such kernel",
            "flashinfer_trtllm": _SM100,
            "flashinfer_deepgemm": _SM90,
            "aiter": _ELSEWHERE,
        },
        lambda facts, field: "triton",
        "triton or cutlass",
        "no kernel, or another one in silence",
        _REPORTS,
    ),
)

# What a version takes on Blackwell for the sparse attention of GLM-5 and DeepSeek-V3.2 where nothing is given: prefill
# and decode, by the type of the KV cache. None of them runs on SM120.
_WITH_BF16 = ("flashmla_sparse", "trtllm")
SPARSE_DEFAULTS: tuple[kv.Row, ...] = (
    kv.Row(
        "<0.5.10",
        {"fp8": ("flashmla_auto", "flashmla_kv"), "bf16": _WITH_BF16},
        "server_args.py of 0.5.9, _set_default_nsa_backends",
    ),
    kv.Row(
        ">=0.5.10",
        {"fp8": ("trtllm", "trtllm"), "bf16": _WITH_BF16},
        "_set_default_nsa_backends of 0.5.12.post1; overrides.py of 0.5.17 and 0.5.23, _dsa_split_backend_resolution",
    ),
)


def _missing(row: Missing, facts: Facts) -> Finding | None:
    for field, value in facts.matching(row.fields):
        if isinstance(value, str) and value in row.values:
            return Finding(
                f"args.{field}",
                f"is {value}, which does not run on SM120: {row.values[value]}",
                row.expected,
                f"write {field}: {row.right(facts, field)}",
            )
    return None


def _sparse_default(facts: Facts) -> Finding | None:
    if not facts.sparse or facts.get("attention_backend") not in (None, "nsa", "dsa"):
        return None
    taken = kv.pick(SPARSE_DEFAULTS, EngineVersion.parse(facts.version))
    fields = [facts.name_of(name) for name in ("nsa_prefill_backend", "nsa_decode_backend")]
    known = options_for(facts.version)
    if taken is None or not set(fields) <= set(known):
        return None
    fp8 = facts.get("kv_cache_dtype") in (None, "auto", "fp8_e4m3")
    if fp8 and facts.glm5 and "flashinfer_sparse_mla" in known[fields[0]].choices:
        return None  # since it has that one, the engine takes it by itself
    # 0.5.10 puts its own over what was given.
    forced = fp8 and facts.within(">=0.5.10,<0.5.11")
    for field, value in zip(fields, taken.value["fp8" if fp8 else "bf16"], strict=True):
        if facts.get(field) is None or forced:
            said = f"sglang {facts.version} takes {value} on Blackwell, which SM120 cannot run"
            return Finding(
                f"args.{field}",
                f"is overruled: with an FP8 KV cache {said}" if forced else f"is not given: {said}",
                "both backends of the sparse attention, given"
                + (", and kv_cache_dtype: bf16" if forced else "")
                + "; no report from SM120 proves tilelang yet, so run the backend matrix",
                "write "
                + ", ".join(f"{each}: {_sparse_right(facts, each)}" for each in fields)
                + (", kv_cache_dtype: bf16" if forced else ""),
            )
    return None


RULES: tuple[Rule, ...] = (
    *(Rule(row.id, REFUSE, "", row.symptom, row.source, functools.partial(_missing, row)) for row in MISSING),
    Rule(
        "sparse_attention_default",
        REFUSE,
        "",
        "Assertion error (attention.hpp:159): Unsupported architecture",
        "local-inference-lab/rtx6kpro, models/; " + "; ".join(row.source for row in SPARSE_DEFAULTS),
        _sparse_default,
    ),
)

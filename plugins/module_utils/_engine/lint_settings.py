# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint rules on the environment, the network side and general relations of arguments (private to the collection)."""

from __future__ import annotations

import ipaddress
import re

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    WARN,
    Facts,
    Finding,
    Rule,
)

# NCCL's documentation of NCCL_P2P_LEVEL; older spelling by integers is legacy and widely written down wrong.
_P2P_NAMES = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
_P2P_NUMBERS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS"}
_ARCH_LISTS = ("TORCH_CUDA_ARCH_LIST", "FLASHINFER_CUDA_ARCH_LIST", "CMAKE_CUDA_ARCHITECTURES")


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from its own host only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in ("localhost", "ip6-localhost") or host.lower().endswith(".localhost")


def _open_host(facts: Facts) -> Finding | None:
    host = str(facts.instance["listen"]["host"])
    if is_loopback(host) or facts.instance["api_key_set"]:
        return None
    return Finding(
        "args.host",
        f"is {host}, which others reach, and no api_key is set",
        "an api_key, or 127.0.0.1",
        'write api_key: "{{ vault_sglang_api_key }}", or host: 127.0.0.1 behind a proxy',
    )


def _nodes(facts: Facts) -> Finding | None:
    if facts.number("nnodes", 1) <= 1:
        return None
    return Finding(
        "args.nnodes",
        f"is {facts.get('nnodes')}: an instance on several hosts is not supported",
        "1",
        "remove nnodes, node_rank and dist_init_addr",
    )


def _p2p_level(facts: Facts) -> Finding | None:
    value = str(facts.env.get("NCCL_P2P_LEVEL", "")).strip()
    if not value or value.upper() in _P2P_NAMES:
        return None
    if value in _P2P_NUMBERS:
        return Finding(
            "env.NCCL_P2P_LEVEL",
            f"is {value}: NCCL calls integers legacy, and the tables that circulate name the "
            f"wrong ones ({value} is {_P2P_NUMBERS[value]})",
            "a name: " + ", ".join(_P2P_NAMES),
            f"write NCCL_P2P_LEVEL: {_P2P_NUMBERS[value]}",
        )
    return Finding(
        "env.NCCL_P2P_LEVEL",
        f"is {value}, which NCCL does not know",
        "one of " + ", ".join(_P2P_NAMES),
        "write NCCL_P2P_LEVEL: SYS",
    )


def _p2p_both(facts: Facts) -> Finding | None:
    if not (facts.on("NCCL_P2P_DISABLE") and facts.env.get("NCCL_P2P_LEVEL")):
        return None
    return Finding(
        "env.NCCL_P2P_LEVEL", "has no effect beside NCCL_P2P_DISABLE=1", "one of the two", "remove one of them"
    )


def _version_check(facts: Facts) -> Finding | None:
    if not facts.on("FLASHINFER_DISABLE_VERSION_CHECK"):
        return None
    return Finding(
        "env.FLASHINFER_DISABLE_VERSION_CHECK",
        "hides FlashInfer parts of different versions: stale kernels then write where they must not",
        "not set; the parts have one version",
        "remove it and let the stack install equal versions",
    )


def _kernel_check(facts: Facts) -> Finding | None:
    if not facts.on("SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK"):
        return None
    return Finding(
        "env.SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK",
        "hides a kernel package that is older than the engine needs",
        "not set",
        "remove it and let the stack install the version that the engine asks for",
    )


def _plain_arch(facts: Facts) -> Finding | None:
    for name in _ARCH_LISTS:
        value = str(facts.env.get(name, ""))
        if re.search(r"(?<![\w.])(12\.0|120)(?![\w.])", value):
            right = "120a" if name.startswith("CMAKE") else "12.0a"
            return Finding(
                f"env.{name}",
                f"is {value}: the FP4 conversion exists for the targets sm_120a and sm_120f only",
                right,
                f'write {name}: "{right}"',
            )
    return None


def _deep_gemm(facts: Facts) -> Finding | None:
    for name in ("SGLANG_ENABLE_JIT_DEEPGEMM", "SGLANG_ENABLE_DEEP_GEMM"):
        if facts.on(name):
            return Finding(
                f"env.{name}",
                "is on: DeepGEMM has no SM120 kernels and takes UE8M0 scales for NVFP4's E4M3 ones",
                '"0"',
                f'write {name}: "0"',
            )
    return None


def _nan_masked(facts: Facts) -> Finding | None:
    if not facts.get("enable_nan_detection"):
        return None
    return Finding(
        "args.enable_nan_detection",
        "turns NaN into a fixed token instead of stopping: wrong text, no crash",
        "not given; the gate looks for NaN",
        "remove it, or keep it for a diagnosis only",
    )


def _longer_context(facts: Facts) -> Finding | None:
    if not facts.on("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"):
        return None
    return Finding(
        "env.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
        "lets context_length exceed what the model was trained for",
        "not set",
        "remove it, and give the context that the checkpoint names",
    )


def _need_over_arguments(facts: Facts) -> Finding | None:
    """What must fit, against what the arguments allow at most."""
    need = facts.instance["need"] or {}
    context, concurrent = need.get("context"), need.get("concurrent")
    both = f"{context} tokens, {concurrent or 1} at once" if context else ""
    for key, needed, said, field in (
        ("context", context, f"is {context}", "context_length"),
        ("concurrent", concurrent, f"is {concurrent}", "max_running_requests"),
        ("context", context and context * (concurrent or 1), f"is {both}", "max_total_tokens"),
    ):
        limit = facts.number(field, 0)
        if needed and 0 < limit < needed:
            return Finding(
                f"need.{key}",
                f"{said}, more than {field} {limit} of the same instance allows",
                f"{field} of at least {needed}, or less need",
                f"write args: {{{field}: {needed}}}, or remove {field}, or lower need.{key}",
            )
    return None


def _chunk_page(facts: Facts) -> Finding | None:
    chunk, page = facts.number("chunked_prefill_size", 0), facts.number("page_size", 1)
    if chunk <= 0 or page <= 0 or chunk % page == 0:
        return None
    return Finding(
        "args.chunked_prefill_size",
        f"is {chunk}, no multiple of page_size {page}: the engine asserts against it",
        "a multiple of page_size",
        f"write chunked_prefill_size: {max(page, chunk // page * page)}",
    )


def _colon(facts: Facts) -> Finding | None:
    name = facts.get("served_model_name")
    if name is None or ":" not in str(name):
        return None
    return Finding(
        "args.served_model_name",
        "holds a colon, which the engine keeps for LoRA adapters",
        "a name without :",
        f"write {str(name).replace(':', '-')}",
    )


def _memory(facts: Facts) -> Finding | None:
    value = facts.get("mem_fraction_static")
    if not isinstance(value, (int, float)) or 0 < value < 1:
        return None
    return Finding(
        "args.mem_fraction_static", f"is {value}", "a fraction between 0 and 1", "write mem_fraction_static: 0.85"
    )


def _modelopt_unsaid(facts: Facts) -> Finding | None:
    if facts.get("quantization") is not None or not facts.fp4:
        return None
    return Finding(
        "args.quantization",
        "is not given: this version takes a checkpoint with quant_method modelopt for FP8",
        "modelopt_fp4",
        "write quantization: modelopt_fp4",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "open_without_key",
        REFUSE,
        "",
        "anyone on the network uses the model",
        "server_args.py: without api_key every request is served",
        _open_host,
    ),
    Rule(
        "multi_node",
        REFUSE,
        "",
        "waits for the other nodes for ever",
        "scope of this collection",
        _nodes,
        liftable=False,
    ),
    Rule(
        "nccl_p2p_level",
        REFUSE,
        "",
        "another level than meant: slow, or a hang",
        "NCCL's documentation; local-inference-lab/rtx6kpro, troubleshooting/",
        _p2p_level,
    ),
    Rule("nccl_p2p_both", WARN, "", "the level is not used", "NCCL's documentation", _p2p_both),
    Rule(
        "flashinfer_version_check",
        REFUSE,
        "",
        "asynchronous CUDA errors, illegal memory access",
        "lightseekorg/tokenspeed PR 284",
        _version_check,
    ),
    Rule(
        "kernel_version_check",
        WARN,
        "",
        "undefined symbols or wrong results later",
        "version assertion in entrypoints/engine.py",
        _kernel_check,
    ),
    Rule(
        "plain_arch_list",
        REFUSE,
        "",
        "Instruction 'cvt with .e2m1x2' not supported on .target 'sm_120'",
        "flashinfer issue 1966",
        _plain_arch,
    ),
    Rule("deep_gemm_env", REFUSE, "", "NaN", "sglang PR 19948", _deep_gemm),
    Rule(
        "nan_detection",
        WARN,
        "<0.5.13",
        "garbage tokens instead of an error",
        "sampler.py of 0.5.9; sglang issue 20043",
        _nan_masked,
    ),
    Rule(
        "longer_context",
        WARN,
        "",
        "quality falls beyond the trained context",
        "model_config.py, context length check",
        _longer_context,
    ),
    Rule(
        "need_over_arguments",
        REFUSE,
        "",
        "starts, and the gate refuses what could never fit",
        "check roomy.need of the gate",
        _need_over_arguments,
    ),
    Rule("chunk_page", REFUSE, "", "assertion at start", "check_server_args in server_args.py", _chunk_page),
    Rule("served_name_colon", REFUSE, "", "assertion at start", "server_args.py of 0.5.9, line 5156", _colon),
    Rule("mem_fraction", REFUSE, "", "not enough memory, or an error at start", "server_args.py", _memory),
    Rule(
        "modelopt_unsaid",
        REFUSE,
        "<0.5.10",
        "loads as FP8 and fails",
        "_parse_modelopt_quant_config of 0.5.9",
        _modelopt_unsaid,
    ),
)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that changed their name, were taken away, or never were in a release (private to the collection).

Which version knows which name stands in options.json alone; here stands only what belongs together, and why.
"""

from __future__ import annotations

import re
import typing as t


class Rename(t.NamedTuple):
    """Two names of one thing. The version's table decides which of them is written; ``source`` is where it was read."""

    old: str
    new: str
    source: str


class Note(t.NamedTuple):
    """What to say of an argument, or of one value of it, that a version does not know; the first row that fits."""

    field: str  # a regular expression that the whole name matches
    value: str  # empty: whatever the value
    text: str
    source: str


_REGISTERED = "deprecated registration in ServerArgs.add_cli_args"

RENAMES: tuple[Rename, ...] = (
    Rename("mamba_scheduler_strategy", "mamba_radix_cache_strategy", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("cuda_graph_max_bs", "cuda_graph_max_bs_decode", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("cuda_graph_bs", "cuda_graph_bs_decode", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("nsa_prefill_backend", "dsa_prefill_backend", f"{_REGISTERED}, 0.5.13.post1 to 0.5.19"),
    Rename("nsa_decode_backend", "dsa_decode_backend", f"{_REGISTERED}, 0.5.13.post1 to 0.5.19"),
    Rename("enable_nsa_prefill_context_parallel", "enable_prefill_cp", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("enable_dsa_prefill_context_parallel", "enable_prefill_cp", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("enable_prefill_context_parallel", "enable_prefill_cp", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("stream_output", "incremental_streaming_output", f"{_REGISTERED}, 0.5.10.post1 to 0.5.19"),
    Rename("piecewise_cuda_graph_compiler", "cuda_graph_tc_compiler", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("piecewise_cuda_graph_max_tokens", "cuda_graph_max_bs_prefill", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("piecewise_cuda_graph_tokens", "cuda_graph_bs_prefill", f"{_REGISTERED}, 0.5.15.post1 to 0.5.19"),
    Rename("enable_gdn_replayssm_spec", "enable_linear_replayssm_spec", f"{_REGISTERED}, 0.5.17 to 0.5.19"),
    Rename(
        "speculative_dflash_draft_window_size",
        "speculative_draft_window_size",
        f"{_REGISTERED}, 0.5.13.post1 to 0.5.19",
    ),
    Rename("enable_deepep_waterfill", "enable_waterfill", "field lists of 0.5.15.post1 and 0.5.16"),
    Rename("grpc_http_sidecar_port", "smg_http_sidecar_port", "field lists of 0.5.15.post1 and 0.5.16"),
)

_FORK = "facts of the community image, local-inference-lab/rtx6kpro and voipmonitor/blackwell-llm-docker"
_FORK_TEXT = "it exists only in a community fork of SGLang, in no published release"

NOTES: tuple[Note, ...] = (
    Note("enable_pcie_oneshot_allreduce", "", f"{_FORK_TEXT}; remove it, the engine's own all-reduce is used", _FORK),
    Note(r".*moe_runner_backend", "b12x", f"{_FORK_TEXT}; flashinfer_cutlass is the one that works on SM120", _FORK),
    Note(r"fp4_gemm.*", "b12x", f"{_FORK_TEXT}; flashinfer_cudnn is the one that works on SM120", _FORK),
    Note(r"(?!mm_).*attention_backend", "b12x", f"{_FORK_TEXT}; triton is the one that works on SM120", _FORK),
    Note(r".*(gemm|attn|attention|[nd]sa).*_backend", "b12x", f"{_FORK_TEXT}; leave the choice to the engine", _FORK),
    Note(
        r"[nd]sa_(prefill|decode)_backend",
        "flashinfer",
        f"{_FORK_TEXT}; from 0.5.17 on flashinfer_sparse_mla does it, for GLM with an FP8 KV cache",
        "local-inference-lab/rtx6kpro, models/; choices of each version",
    ),
    Note(
        "enable_nan_detection",
        "",
        "taken away after 0.5.12.post1 (and without effect since 0.5.10); the gate looks for "
        "NaN by itself, and env SGLANG_ENABLE_NAN_LOGITS_CHECK=1 makes newer versions look",
        "ServerArgs of each version",
    ),
    Note(
        "kv_cache_dtype",
        "fp4_e2m1",
        "taken away; newer versions call it nvfp4 or fp4_mx_block16",
        "arg_groups/choices.py of 0.5.23",
    ),
    Note(
        "tool_call_parser",
        "qwen3",
        "the Qwen3 family uses qwen3_coder (or qwen25)",
        "FunctionCallParser.ToolCallParserEnum of each version",
    ),
)


def renamed(field: str) -> list[Rename]:
    """Rows in which a field takes part, under either name."""
    return [row for row in RENAMES if field in (row.old, row.new)]


def note_on(field: str, value: t.Any = "") -> str:
    """What is known about an argument or one of its values that a version does not take; empty if nothing is."""
    return next((row.text for row in NOTES if row.value == str(value) and re.fullmatch(row.field, field)), "")


def fork_only(note: str) -> bool:
    """Whether a note says that no published release has the argument or the value."""
    return note.startswith(_FORK_TEXT)

"""What the engine makes of the arguments before it starts a process: defaults filled in, combinations refused."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from sglang._standin import log
from sglang._standin.checkpoint import Checkpoint

# Backends of full attention that 0.5.12.post1 admits beside gated delta nets on Blackwell.
HYBRID_ATTENTION = ("triton", "trtllm_mha", "fa4", "flashinfer")
GRAPH_SIZES = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 513, 16)]
PREFILL_SIZES = [
    *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64), *range(1280, 4097, 256),
    *range(4608, 8193, 512),
]  # fmt: skip


def is_hybrid(checkpoint: Checkpoint) -> bool:
    """Whether some layers keep a state per request (Qwen3-Next, Qwen3.5)."""
    return checkpoint.geometry().linear_layers > 0


def default_mem_fraction(args: Any, memory_mib: int, multimodal: bool) -> float:
    """The share of memory for weights and pools: 10 GiB or more stay free for activations and graphs."""
    reserved = args.chunked_prefill_size * 1.5 + args.cuda_graph_max_bs * 2 + args.tp_size / 8 * 1024
    reserved = max(reserved, 10 * 1024) + (2 * 1024 if args.speculative_algorithm else 0)
    return float(round((memory_mib - reserved) / memory_mib * (0.95 if multimodal else 1.0), 3))


def complete(args: Any, memory_mib: int) -> Checkpoint:
    """Fill in `args` as the real __post_init__ does and return the checkpoint; raises what the real one raises."""
    if not Path(args.model_path).is_dir():
        raise OSError(
            f"Incorrect path_or_model_id: '{args.model_path}'. Please provide either the path to a local folder or the "
            "repo_id of a model on the Hub."
        )
    if not Path(args.model_path, "config.json").exists():
        raise OSError(
            f"{args.model_path} does not appear to have a file named config.json. Checkout "
            f"'https://huggingface.co/{args.model_path}/tree/main' for available files."
        )
    if not Path(args.model_path, "generation_config.json").exists():
        log.line(no_generation_config(args.model_path))
    checkpoint = Checkpoint(args.model_path)
    args.tokenizer_path = args.tokenizer_path or args.model_path
    args.served_model_name = args.served_model_name or args.model_path
    args.device = args.device or "cuda"
    args.random_seed = random.randint(0, 1 << 30) if args.random_seed is None else args.random_seed
    args.chunked_prefill_size = args.chunked_prefill_size or 8192
    args.page_size = args.page_size or 1
    args.grammar_backend = args.grammar_backend or "xgrammar"
    args.sampling_backend = args.sampling_backend or "flashinfer"
    args.cuda_graph_max_bs = args.cuda_graph_max_bs or (512 if args.tp_size >= 4 else 256)
    args.cuda_graph_bs = args.cuda_graph_bs or [size for size in GRAPH_SIZES if size <= args.cuda_graph_max_bs]
    args.piecewise_cuda_graph_max_tokens = args.piecewise_cuda_graph_max_tokens or args.chunked_prefill_size
    args.piecewise_cuda_graph_tokens = args.piecewise_cuda_graph_tokens or [
        size for size in PREFILL_SIZES if size <= args.piecewise_cuda_graph_max_tokens
    ]
    args.mem_fraction_static = args.mem_fraction_static or default_mem_fraction(
        args, memory_mib, checkpoint.is_multimodal
    )
    _complete_attention(args, checkpoint)
    _refuse(args, checkpoint)
    return checkpoint


def _complete_attention(args: Any, checkpoint: Checkpoint) -> None:
    args.attention_backend = args.attention_backend or "flashinfer"
    if args.speculative_algorithm == "NEXTN":
        args.speculative_algorithm = "EAGLE"
    if not is_hybrid(checkpoint):
        return
    if args.attention_backend not in HYBRID_ATTENTION:
        raise AssertionError(
            "triton or trtllm_mha backend are the only supported backends on Blackwell GPUs for hybrid GDN models, use "
            "--attention-backend triton or --attention-backend trtllm_mha to specify the backend. Got: "
            f"{args.attention_backend}"
        )
    if args.mamba_scheduler_strategy == "auto":
        args.mamba_scheduler_strategy = "no_buffer"
    if args.mamba_scheduler_strategy == "no_buffer" and not args.disable_radix_cache:
        if args.speculative_algorithm:
            raise ValueError(
                f"Speculative decoding for {checkpoint.architecture} is not compatible with radix cache when using "
                "--mamba-scheduler-strategy no_buffer.To use radix cache with speculative decoding, please use "
                "--mamba-scheduler-strategy extra_buffer and set SGLANG_ENABLE_SPEC_V2=1."
            )
        if not args.disable_overlap_schedule:
            log.line(
                "Disabling overlap schedule since mamba no_buffer is not compatible with overlap schedule, try to use "
                "--disable-radix-cache if overlap schedule is necessary"
            )
            args.disable_overlap_schedule = True


def _refuse(args: Any, checkpoint: Checkpoint) -> None:
    context = checkpoint.geometry().context
    overwritten = os.environ.get("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") == "1"
    if args.context_length and args.context_length > context and not overwritten:
        raise ValueError(
            f"User-specified context_length ({args.context_length}) is greater than the derived context_length "
            f"({context}). This may lead to incorrect model outputs or CUDA errors. Note that the derived "
            "context_length may differ from max_position_embeddings in the model's config. To allow overriding "
            "this maximum, set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        )
    if args.attention_backend == "trtllm_mha":
        raise ValueError(
            "TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
        )
    if args.chunked_prefill_size > 0 and args.chunked_prefill_size % args.page_size:
        raise AssertionError("chunked_prefill_size must be divisible by page_size")
    if ":" in args.served_model_name:
        raise AssertionError(
            "served_model_name cannot contain a colon (':') character. The colon is reserved for the 'model:adapter' "
            "syntax used in LoRA adapter specification."
        )
    if args.moe_runner_backend == "flashinfer_cutlass":
        if args.quantization not in ("modelopt_fp4", "modelopt_fp8", None):
            raise AssertionError(
                f"Invalid quantization '{args.quantization}'. flashinfer_cutlass MoE supports modelopt_fp4 and "
                "modelopt_fp8."
            )
        if args.ep_size not in (1, args.tp_size):
            raise AssertionError("The expert parallel size must be 1 or the same as the tensor parallel size")


def no_generation_config(path: str) -> str:
    """The line that every process of the real server writes for a checkpoint without generation_config.json."""
    return (
        f"Failed to load generation config for {path}: {path} does not appear to have a file named "
        f"generation_config.json. Checkout 'https://huggingface.co/{path}/tree/main' for available files.. Proceeding "
        "without generation config."
    )

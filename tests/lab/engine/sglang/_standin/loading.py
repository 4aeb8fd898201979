"""The schedulers' way from their first line to the pools: what each rank logs and holds, in the captured order."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

from sglang._standin import complete, gpus
from sglang._standin.checkpoint import Checkpoint, check_shard
from sglang._standin.children import Child
from sglang._standin.errors import AcceleratorError, NotEnoughMemory, OutOfMemoryError
from sglang._standin.pools import Pools, divide

CONTEXT_GIB = 0.67  # 139.80 GiB free on an idle H200, 139.13 when loading begins (captures, TP 1)
NCCL_GIB = 0.85  # 138.28 when loading begins with TP 2
GRAPH_GIB = 0.13  # four graphs of up to 8 requests
ACTIVATION_GIB = 0.12
TORCH_DTYPE = {"bf16": "torch.bfloat16", "fp8_e4m3": "torch.float8_e4m3fn", "fp8_e5m2": "torch.float8_e5m2"}
ELEMENT_BYTES = {"bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp4_e2m1": 0.5625}


class SchedulerFailed(Exception):
    """A scheduler raised; its traceback has been logged."""


class Loader:
    """Loads one model onto the ranks; afterwards its attributes say what the server knows about itself."""

    def __init__(self, args: Any, checkpoint: Checkpoint, ranks: list[Child], settings: Any) -> None:
        self.args = args
        self.checkpoint = checkpoint
        self.ranks = ranks
        self.settings = settings
        self.geometry = checkpoint.geometry()
        self.kv_dtype = self._kv_dtype()
        self.context_len = args.context_length or self.geometry.context
        self.pools: Pools
        self.weight_gib = 0.0
        self.graph_gib = 0.0
        self.free_gib = 0.0
        self._cards: list[gpus.Gpu] = []
        self._held: list[float] = []

    def _kv_dtype(self) -> str:
        """`auto` becomes fp8_e4m3 if the checkpoint says FP8, else the model's dtype; bfloat16 is bf16."""
        asked = self.args.kv_cache_dtype
        if self.settings.get("ignore_kv_flag"):
            asked = "auto"
        if asked == "auto":
            return "fp8_e4m3" if self.checkpoint.kv_algo == "FP8" else "bf16"
        return "bf16" if asked == "bfloat16" else asked

    def sleep(self, seconds: float) -> None:
        """Sleep for a captured time, scaled."""
        slow = self.settings.get("slow")
        time.sleep(seconds * self.settings.time_scale * (float(slow.get("factor", 10)) if slow else 1))

    def run(self) -> None:
        """Go all the way; raises SchedulerFailed after the failing rank has logged its traceback."""
        try:
            self._distributed()
            self._weights()
            self._pools()
            self._graphs()
        except Exception as error:
            if isinstance(error, SchedulerFailed | ConnectionError):
                raise
            if type(error).__name__ == "ChildDied":
                raise
            self.fail(self.ranks[0], traceback.format_exc())

    def fail(self, child: Child, text: str) -> None:
        """Let a rank log its exception as the real scheduler does."""
        child.line(f"Scheduler hit an exception: {text}")
        raise SchedulerFailed

    def _free(self, rank: int) -> float:
        return self._cards[rank].free_gib - self._held[rank]

    def _hold(self, rank: int, gib: float) -> None:
        self._held[rank] += gib
        self.ranks[rank].hold(self._cards[rank].index, self._held[rank])

    def _distributed(self) -> None:
        tp = self.args.tp_size
        for child in self.ranks:
            if not Path(self.args.model_path, "generation_config.json").exists():
                child.line(complete.no_generation_config(self.args.model_path))
            child.line("Init torch distributed begin.")
        cards = gpus.visible(gpus.snapshot(self.settings.values))
        chosen = [self.args.base_gpu_id + rank * self.args.gpu_id_step for rank in range(tp)]
        if not cards:
            raise RuntimeError("No CUDA GPUs are available")
        if max(chosen) >= len(cards):
            raise AcceleratorError(
                "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?"
            )
        self._cards = [cards[index] for index in chosen]
        self._held = [0.0] * tp
        if tp > 1:
            self.ranks[0].line("sglang is using nccl==2.28.9")
        for rank, child in enumerate(self.ranks):
            if self._cards[rank].free_gib < CONTEXT_GIB:
                raise AcceleratorError("CUDA error: out of memory")
            self._hold(rank, CONTEXT_GIB + (NCCL_GIB if tp > 1 else 0))
            usage = 0.09 if tp == 1 else 1.07 if rank == 0 else 1.01
            child.line(
                f"Init torch distributed ends. elapsed={0.24 if tp == 1 else 1.0:.2f} s, mem usage={usage:.2f} GB"
            )
        self.sleep(1)
        for child in self.ranks:
            for name in ("mimo_audio", "mimo_v2", "mimo_v2_nextn"):
                child.line(
                    f"Ignore import error when loading sglang.srt.models.{name}: Can not import FA3 in sgl_kernel. "
                    "Please check your installation."
                )

    def _weights(self) -> None:
        args, checkpoint = self.args, self.checkpoint
        exact = self.settings.values.get("weight_gib")  # per rank, to feed the figures of a capture
        self.weight_gib = float(exact) if exact else self.geometry.weight_bytes / args.tp_size / 2**30
        self._before = min(self._free(rank) for rank in range(args.tp_size))
        method = args.quantization or checkpoint.quant_method
        quantized = f", quant={method}, quant_algo={checkpoint.quant_algo}" if checkpoint.quant_algo else ""
        began = time.monotonic()
        for rank, child in enumerate(self.ranks):
            child.line(f"Load weight begin. avail mem={self._free(rank):.2f} GB")
            if method == "modelopt_fp8":
                child.line("Detected ModelOpt FP8 checkpoint. The format is experimental and subject to change.")
            if method == "modelopt_fp4":
                child.line(
                    "Detected nvfp4 checkpoint. Please note that the format is experimental and subject to change."
                )
                self._check_capability(method)
            child.raw("[transformers] `torch_dtype` is deprecated! Use `dtype` instead!\n")
            if "linear_num_value_heads" in checkpoint.text:
                child.line("using attn output gate!")
        if self.settings.get("hang_loading"):
            while True:
                time.sleep(3600)
        crash = self.settings.get("crash_loading")
        if crash:
            self.sleep(2)
            message = crash.get("message", "CUDA error: no kernel image is available for execution on the device")
            raise AcceleratorError(message)
        if args.load_format == "dummy":
            self.sleep(5)
        else:
            self._shards()
        for rank, child in enumerate(self.ranks):
            if self._free(rank) < self.weight_gib:
                raise OutOfMemoryError(
                    f"CUDA out of memory. Tried to allocate {self.weight_gib:.2f} GiB. GPU {rank} has a total capacity "
                    f"of {self._cards[rank].total / 1024:.2f} GiB of which {self._free(rank):.2f} GiB is free."
                )
            self._hold(rank, self.weight_gib)
            if args.kv_cache_dtype == "fp8_e4m3" and not args.quantization_param_path:
                child.line(
                    "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This "
                    "may lead to less accurate results!"
                )
            child.line(
                f"Load weight end. elapsed={time.monotonic() - began:.2f} s, type={checkpoint.architecture}"
                f"{quantized}, avail mem={self._free(rank):.2f} GB, mem usage={self.weight_gib:.2f} GB."
            )

    def _check_capability(self, method: str) -> None:
        capability = float(self.settings.values.get("gpus", {}).get("compute_cap", 12.0))
        if capability < 10:
            raise ValueError(
                f"The quantization method {method} is not supported for the current GPU. Minimum capability: 100. "
                f"Current capability: {int(capability * 10)}."
            )

    def _shards(self) -> None:
        shards = self.checkpoint.shards()
        if not shards:
            raise RuntimeError(f"Cannot find any model weights with `{self.args.model_path}`")
        for done, path in enumerate([*shards, None]):
            bar = "█" * (done * 10 // len(shards))
            self.ranks[0].raw(
                f"\rLoading safetensors checkpoint shards: {done * 100 // len(shards):3d}% Completed | "
                f"{done}/{len(shards)} [{bar:<10}]\n"
            )
            if path:
                self.sleep(8 / len(shards))
                check_shard(path)

    def _pools(self) -> None:
        args = self.args
        self.ranks[0].line(f"Using KV cache dtype: {TORCH_DTYPE.get(self.kv_dtype, 'torch.' + self.kv_dtype)}")
        if self.settings.get("no_memory"):
            raise NotEnoughMemory
        after = min(self._free(rank) for rank in range(args.tp_size))
        self.pools = pools = divide(self.geometry, args, ELEMENT_BYTES[self.kv_dtype], self._before, after)
        odd = self.settings.get("wrong_kv_log")
        for rank, child in enumerate(self.ranks):
            self._hold(rank, pools.total_gib)
            if self.geometry.linear_layers:
                child.line(
                    f"Mamba Cache is allocated. max_mamba_cache_size: {pools.slots}, conv_state size: "
                    f"{pools.conv_gib:.2f}GB, ssm_state size: {pools.ssm_gib:.2f}GB "
                )
            share = 1.0
            if odd and rank == min(int(odd.get("rank", 1)), args.tp_size - 1):
                child.line("Using KV cache dtype: torch.float8_e4m3fn")
                share = 0.5
            child.line(
                f"KV Cache is allocated. #tokens: {pools.tokens}, K size: {pools.k_gib * share:.2f} GB, "
                f"V size: {pools.v_gib * share:.2f} GB"
            )
            self._hold(rank, ACTIVATION_GIB)
            child.line(f"Memory pool end. avail mem={self._free(rank):.2f} GB")
        self.sleep(1)

    def _graphs(self) -> None:
        args = self.args
        if self.geometry.linear_layers:
            backend = args.linear_attn_backend
            self.ranks[0].line(
                f"Linear attention kernel backend: decode={args.linear_attn_decode_backend or backend}, "
                f"prefill={args.linear_attn_prefill_backend or backend}"
            )
            for child in self.ranks:
                child.line("Using hybrid linear attention backend for hybrid GDN models.")
            self.ranks[0].line(
                "GDN kernel dispatcher: decode=TritonGDNKernel, extend=TritonGDNKernel, verify=TritonGDNKernel "
                "packed_decode=True"
            )
        for rank in range(args.tp_size):
            self._hold(rank, 0.09)
        if not args.disable_cuda_graph:
            self._capture()
        if args.disable_piecewise_cuda_graph:
            for child in self.ranks:
                child.line("Disable piecewise CUDA graph because --disable-piecewise-cuda-graph is set")
        self.free_gib = min(self._free(rank) for rank in range(args.tp_size))
        self.ranks[0].line(
            f"max_total_num_tokens={self.pools.tokens}, chunked_prefill_size={args.chunked_prefill_size}, "
            f"max_prefill_tokens={args.max_prefill_tokens}, max_running_requests={self.pools.requests}, "
            f"context_len={self.context_len}, available_gpu_mem={self.free_gib:.2f} GB"
        )

    def _capture(self) -> None:
        sizes = list(reversed(self.args.cuda_graph_bs))
        began = time.monotonic()
        for rank, child in enumerate(self.ranks):
            child.line(
                f"Capture cuda graph begin. This can take up to several minutes. avail mem={self._free(rank):.2f} GB"
            )
        self.ranks[0].line(f"Capture cuda graph bs {self.args.cuda_graph_bs}")
        self.ranks[0].raw(f"\r  0%|          | 0/{len(sizes)} [00:00<?, ?it/s]")
        self.graph_gib = GRAPH_GIB if len(sizes) <= 4 else round(0.05 + 0.02 * len(sizes), 2)
        for done, size in enumerate(sizes, 1):
            self.sleep(8 / len(sizes))
            bar = "█" * (done * 10 // len(sizes))
            self.ranks[0].raw(
                f"\rCapturing batches (bs={size} avail_mem={self._free(0):.2f} GB): {done * 100 // len(sizes):3d}%|"
                f"{bar:<10}| {done}/{len(sizes)} [00:00<00:00,  1.00s/it]"
            )
        self.ranks[0].raw("\n")
        for rank, child in enumerate(self.ranks):
            self._hold(rank, self.graph_gib)
            child.line(
                f"Capture cuda graph end. Time elapsed: {time.monotonic() - began:.2f} s. mem usage="
                f"{self.graph_gib:.2f} GB. avail mem={self._free(rank):.2f} GB."
            )

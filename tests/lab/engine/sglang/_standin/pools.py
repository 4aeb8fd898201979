"""How SGLang 0.5.12.post1 divides a GPU's memory: request states first, then tokens.

rest = free after loading - free before loading x (1 - mem_fraction_static). A hybrid model gives r/(1+r) of it
(r = mamba_full_memory_ratio) to state slots, and the KV pool gets what is left. Against the captures slots are exact
and tokens are within 0.1 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang._standin.checkpoint import Geometry
from sglang._standin.errors import NotEnoughMemory

GIB = 2**30


@dataclass(frozen=True)
class Pools:
    """Sizes on one GPU; sizes in GiB, as the log prints them."""

    tokens: int
    slots: int
    requests: int
    k_gib: float
    v_gib: float
    conv_gib: float
    ssm_gib: float

    @property
    def kv_gib(self) -> float:
        """K and V together."""
        return self.k_gib + self.v_gib

    @property
    def total_gib(self) -> float:
        """Everything allocated."""
        return self.kv_gib + self.conv_gib + self.ssm_gib


def slots_per_request(args: Any) -> int:
    """State slots that one request may need: 1 without radix cache, 3 with no_buffer, 5 or 4 with extra_buffer."""
    if args.disable_radix_cache:
        return 1
    if args.mamba_scheduler_strategy != "extra_buffer":
        return 3
    return 4 if args.speculative_algorithm else 5


def divide(geometry: Geometry, args: Any, element_bytes: float, before_gib: float, after_gib: float) -> Pools:
    """Divide one GPU; `before_gib` and `after_gib` are its free memory before and after the weights were loaded.

    Raises NotEnoughMemory when no token fits.
    """
    rest = (after_gib - before_gib * (1 - args.mem_fraction_static)) * GIB
    if rest <= 0:
        raise NotEnoughMemory
    cell = geometry.kv_bytes_per_token(args.tp_size, element_bytes)
    if args.speculative_algorithm in ("NEXTN", "EAGLE", "EAGLE3"):
        cell += cell // geometry.full_attention_layers  # the draft layer keeps its own keys and values
    slots = 0
    conv = geometry.conv_bytes_per_slot(args.tp_size)
    ssm = geometry.ssm_bytes_per_slot(args.tp_size)
    if geometry.linear_layers:
        if args.speculative_algorithm:
            rest -= (conv + ssm) * (args.max_running_requests or 48) * (args.speculative_num_draft_tokens or 4)
        if args.max_mamba_cache_size is not None:
            slots = args.max_mamba_cache_size
        elif args.disable_radix_cache and args.max_running_requests is not None:
            slots = args.max_running_requests
        else:
            share = args.mamba_full_memory_ratio / (1 + args.mamba_full_memory_ratio)
            slots = int(rest * share // (conv + ssm)) if rest > 0 else 0
        rest -= slots * (conv + ssm)
    tokens = int(rest // cell) if rest > 0 else 0
    if args.max_total_tokens is not None:
        tokens = min(tokens, args.max_total_tokens)
    page = args.page_size or 1
    tokens = tokens // page * page
    if tokens <= 0 or (geometry.linear_layers and slots <= 0):
        raise NotEnoughMemory
    requests = min(max(int(tokens / geometry.context * 512), 2048), 4096)
    if args.max_running_requests is not None:
        requests = min(args.max_running_requests, requests)
    if geometry.linear_layers:
        requests = max(1, min(requests, slots // slots_per_request(args)))
    half = tokens * cell / 2 / GIB
    padded = slots + 1 if slots else 0  # one slot more for padded batches
    return Pools(tokens, slots, requests, half, half, padded * conv / GIB, padded * ssm / GIB)

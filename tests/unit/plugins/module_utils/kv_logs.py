# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs and answers of servers that never ran, in the words of ones that did."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._unit_log import UnitLog

SEED = 327776380
GIB = 1024**3
# Bytes per token and GPU of the captured model on one GPU and on more.
CELL = {("bfloat16", 1): 30720, ("bfloat16", 8): 15360, ("float8_e4m3fn", 1): 15360, ("float8_e4m3fn", 8): 7680}


def log(
    dtypes: t.Sequence[str],
    tokens: int = 1251491,
    *,
    named: str = "first",
    modern: bool = False,
    seed: int = SEED,
    pid: int = 1716,
    sizes: bool = True,
) -> list[str]:
    """A start with one pool per rank. ``named``: first (only rank 0 logs a dtype, as 0.5.12 does), all or none."""
    ranks = len(dtypes)
    lines = [
        f"[2026-11-29 17:56:43] server_args=ServerArgs(model_path='/models/x', tp_size={ranks}, random_seed={seed})",
        "[2026-11-29 17:57:10] Load weight begin. avail mem=139.13 GB",
    ]
    for rank, dtype in enumerate(dtypes):
        mark = f"[2026-11-29 17:57:10{f' TP{rank}' if ranks > 1 else ''}]"
        half = CELL[dtype, 1 if ranks == 1 else 8] * tokens / GIB / 2
        size = f", K size: {half:.2f} GB, V size: {half:.2f} GB" if sizes else ""
        tells = named == "all" or (named == "first" and rank == 0)
        if modern:
            lines.append(f"{mark} KV Cache is allocated. dtype: torch.{dtype}, #tokens: {tokens}{size}")
            continue
        if tells:
            lines.append(f"{mark} Using KV cache dtype: torch.{dtype}")
        lines.append(f"{mark} KV Cache is allocated. #tokens: {tokens}{size}")
    return [
        *lines,
        f"[2026-11-29 17:57:11] max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_running_requests=59, x=1",
        f"[2026-11-29 17:57:12] INFO:     Started server process [{pid}]",
        "[2026-11-29 17:57:50] The server is fired up and ready to roll!",
    ]


def unit(lines: list[str], invocation: str = "a" * 32, **more: t.Any) -> UnitLog:
    """The same as the journal of a unit's current start."""
    fields: dict[str, t.Any] = {
        "active_state": "active",
        "complete": True,
        "belongs": "yes",
        "source": "journal",
        **more,
    }
    return UnitLog(invocation_id=invocation, main_pid=1716, lines=lines, **fields)


def info(
    dtype: str | None = "bf16",
    gib: float | None = 35.81,
    tokens: int = 1251491,
    *,
    seed: int = SEED,
    version: str = "0.5.12.post1",
    tp: int = 1,
    **more: t.Any,
) -> dict[str, t.Any]:
    """What /server_info answers."""
    state: dict[str, t.Any] = {"kv_cache_dtype": dtype, "random_seed": seed}
    if gib is not None:
        state["memory_usage"] = {"weight": 1.7, "kvcache": gib, "token_capacity": tokens, "graph": 0.1}
    return {
        "kv_cache_dtype": "bf16",
        "tp_size": tp,
        "random_seed": seed,
        "max_total_num_tokens": tokens,
        "version": version,
        "internal_states": [state],
        **more,
    }

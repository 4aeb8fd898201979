# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes that one token and one request slot cost in SGLang's pools, per GPU (private to the collection).

Sources: model_executor/pool_configurator.py and mem_cache/kv_cache_configurator.py of SGLang 0.5.9 to 0.5.23, and the
logs of running servers that the tests hold these figures against.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Section
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_layers import FILE, Geometry, Latent, geometry
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_state import State, state_per_layer


@dataclasses.dataclass(frozen=True)
class Parallel:
    """How a model is spread: attention heads over ``tp // dp`` GPUs where attention is data parallel, else over
    ``tp``.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_attention: bool = False

    @property
    def attention_tp(self) -> int:
        """GPUs among which the heads of one request are divided."""
        return max(1, self.tp // self.dp) if self.dp_attention else self.tp


@dataclasses.dataclass
class Cell:
    """What one token of max_total_num_tokens costs one GPU, and what it is made of.

    ``pools`` are the allocations that the engine logs: name, bytes per token of that pool, and tokens of it per token
    of the whole (1, or the share of a window's pool).
    """

    bytes: float
    pools: list[dict[str, t.Any]]
    formula: str
    geometry: Geometry
    notes: list[str]
    doubts: list[str]
    state: State | None = None
    state_layers: int = 0
    kv_heads_replicated: bool = False

    @property
    def state_bytes(self) -> int:
        """Bytes of one request slot's state."""
        return self.state.total * self.state_layers if self.state else 0


def cell(
    text: t.Mapping[str, t.Any],
    architectures: t.Sequence[str],
    dtype: str,
    version: EngineVersion,
    parallel: Parallel,
    *,
    draft_layers: int = 0,
    swa_ratio: float | None = None,
    dsa_layout: str = "scaled",
    ssm_dtype: str | None = None,
    compress_state_dtype: str = "float32",
) -> Cell:
    """Compute the cell.

    Args:
        text: the language model's configuration.
        architectures: model classes.
        dtype: of the KV cache, an engine's word such as ``bfloat16`` or ``fp8_e4m3``.
        version: engine version.
        parallel: how the model is spread.
        draft_layers: layers of an EAGLE or NEXTN draft, 0 without speculation.
        swa_ratio: --swa-full-tokens-ratio.
        dsa_layout: ``scaled`` (656 bytes a layer in FP8) or ``raw`` (576; the trtllm and tilelang backends).
        ssm_dtype: --mamba-ssm-dtype.
        compress_state_dtype: SGLANG_DSV4_COMPRESS_STATE_DTYPE.

    Raises:
        SglangError: a dtype that is not known, or a configuration without what every model has.
    """
    size = kv.ELEMENT_BYTES.get(dtype)
    if size is None:
        raise SglangError(
            f"{dtype!r} is no dtype of a KV cache",
            where="kv_cache_dtype",
            expected=", ".join(kv.ELEMENT_BYTES),
            fix="write bfloat16 or fp8_e4m3",
        )
    config = Section(text, FILE)
    if config.raw("compress_ratios") is not None:
        return _deepseek_v4(config, dtype, swa_ratio, compress_state_dtype)
    shape = geometry(text, architectures, version)
    stages = _stages(shape.total, parallel.pp)
    best = max(
        (_stage(shape, stage, size, dtype, parallel, swa_ratio=swa_ratio, dsa_layout=dsa_layout) for stage in stages),
        key=lambda made: made.bytes,
    )
    _draft(best, draft_layers, version)
    _state(best, text, parallel, stages, ssm_dtype)
    if parallel.pp > 1:
        best.notes.append(f"pipeline of {parallel.pp}: the figures are those of the stage that needs most")
    return best


def _stages(layers: int, pp: int) -> list[range]:
    """Layers of each pipeline stage; the last ones get one more where it does not divide (distributed/utils.py)."""
    base, extra = divmod(layers, pp)
    ranges, start = [], 0
    for stage in range(pp):
        count = base + (1 if stage >= pp - extra else 0)
        ranges.append(range(start, start + count))
        start += count
    return ranges


def _stage(
    shape: Geometry,
    stage: range,
    size: float,
    dtype: str,
    parallel: Parallel,
    *,
    swa_ratio: float | None,
    dsa_layout: str,
) -> Cell:
    tp = parallel.attention_tp
    notes, doubts = list(shape.notes), list(shape.doubts)
    pools: list[dict[str, t.Any]] = []
    parts: list[str] = []
    total = 0.0
    if shape.latent is not None:
        layers = _within(shape.latent.layers, stage)
        width, words = _latent_bytes(shape.latent, shape.kind, size, dtype, dsa_layout)
        latent = layers * width
        index = _within(shape.index_layers, stage) * shape.index_bytes
        total = latent + index
        parts.append(f"{layers} layers x {words}")
        if shape.index_layers:
            parts.append(f"{_within(shape.index_layers, stage)} layers x {shape.index_bytes} B of index")
        pools.append({"name": "full", "bytes_per_token": total, "share": 1.0})
        if tp > 1:
            notes.append(f"one latent vector serves all heads, so each of the {tp} GPUs keeps all of it")
    ratio = kv.SWA_RATIO if swa_ratio is None else swa_ratio
    for groups, share in ((shape.full, 1.0), (shape.swa, ratio)):
        for group in groups:
            layers = _within(group.layers, stage)
            each = layers * group.elements(tp) * size
            total += share * each
            factor = f"{share:g} x " if share != 1.0 else ""
            parts.append(
                f"{factor}{layers} layers x {group.heads_per_gpu(tp)} KV heads"
                f" x ({group.k_dim} + {group.v_dim}) x {size:g} B"
            )
            pools.append({"name": group.name, "bytes_per_token": each, "share": share})
    if shape.swa:
        notes.append(
            f"{len(shape.swa[0].layers)} layers keep a window of {shape.window} tokens, "
            f"in a pool of {ratio:g} times the tokens"
        )
    if shape.latent is None and shape.index_layers:
        index = _within(shape.index_layers, stage) * shape.index_bytes
        total += index
        pools[0]["bytes_per_token"] += index
        parts.append(f"{_within(shape.index_layers, stage)} x {shape.index_bytes} B of index, in the model's dtype")
    heads = [group for group in (*shape.full, *shape.swa) if group.layers]
    replicated = any(group.kv_heads < tp for group in heads)
    if replicated:
        few = min(group.kv_heads for group in heads)
        notes.append(
            f"KV heads are replicated: {few} of them on {tp} GPUs leave one on each, as with TP {few}; "
            "more GPUs do not make a token cheaper"
        )
    return Cell(total, pools, " + ".join(parts) or "0", shape, notes, doubts, kv_heads_replicated=replicated)


def _within(layers: tuple[int, ...], stage: range) -> int:
    return sum(layer in stage for layer in layers)


def _latent_bytes(latent: Latent, kind: str, size: float, dtype: str, dsa_layout: str) -> tuple[float, str]:
    """Bytes of one layer's latent: DSA in FP8 keeps scales and a rope part in BF16, unless a backend takes it raw."""
    rank, rope = latent.rank, latent.rope
    if kind.endswith("dsa") and dtype == "fp8_e4m3" and dsa_layout != "raw":
        return rank + rank // 128 * 4 + rope * 2, f"({rank} + {rank // 128} x 4 + {rope} x 2) B"
    return (rank + rope) * size, f"({rank} + {rope}) x {size:g} B"


def _draft(best: Cell, draft_layers: int, version: EngineVersion) -> None:
    """Layers of a draft that shares the target's shape; its cache is as long as the target's."""
    shape = best.geometry
    target = len(shape.latent.layers) if shape.latent else sum(len(group.layers) for group in shape.full)
    if not draft_layers or not target:
        return
    if not kv.has("draft_in_cell", version):
        best.notes.append(f"SGLang {version} does not count the draft model's cache when it sizes the pool")
        return
    if shape.latent is not None:
        index = _sum_index(shape)
        extra = int((best.bytes - index) * draft_layers / target) + shape.index_bytes * draft_layers
    else:
        full = best.pools[0]["bytes_per_token"] if shape.swa else best.bytes
        extra = int(full * draft_layers / target)
    best.bytes += extra
    best.formula += f" + {extra} B for {draft_layers} draft layer{'s' if draft_layers > 1 else ''}"
    best.pools.append({"name": "draft", "bytes_per_token": extra, "share": 1.0})


def _sum_index(shape: Geometry) -> int:
    return len(shape.index_layers) * shape.index_bytes


def _state(
    best: Cell,
    text: t.Mapping[str, t.Any],
    parallel: Parallel,
    stages: list[range],
    ssm_dtype: str | None,
) -> None:
    if not best.geometry.states:
        return
    best.state = state_per_layer(text, parallel.attention_tp, ssm_dtype)
    best.state_layers = max(_within(best.geometry.states, stage) for stage in stages)
    best.doubts += best.state.doubts


# --- DeepSeek-V4 -------------------------------------------------------------------------------------------------


def _deepseek_v4(config: Section, dtype: str, swa_ratio: float | None, compress_state_dtype: str) -> Cell:
    """Compressed latents of two ratios, an index, a window's latents and the state of the compressor (facts D2)."""
    layers = config.number("num_hidden_layers") or 0
    ratios = config.raw("compress_ratios")
    ratio = kv.DSV4_SWA_RATIO if swa_ratio is None else swa_ratio
    shape = Geometry("dsv4", layers)
    doubts = ["DeepSeek-V4: page padding and fixed rings of newer builds are not counted"]
    if not isinstance(ratios, list) or not layers:
        return Cell(0.0, [], "unknown", shape, [], ["field compress_ratios"])
    own = ratios[:layers]
    strange = sorted({r for r in own if r not in (0, 4, 128)}, key=str)
    if strange:
        doubts.append(f"field compress_ratios: ratios {', '.join(map(str, strange))}")
    n4, n128 = own.count(4), own.count(128)
    dim, index = config.number("head_dim") or 512, config.number("index_head_dim") or 128
    rope = config.number("qk_rope_head_dim") or 64
    window = config.number("sliding_window") or 128
    ring = 8
    # 448 numbers in FP8 with a scale for 64 of them and one byte of padding, 64 of rope in bfloat16: 584 bytes
    latent = (dim - rope) + rope * 2 + (dim - rope) // 64 + 1
    key = index + index // 128 * 4
    state = 4 if compress_state_dtype in ("float32", "fp32") else 2
    compressed = n4 * (latent + key) / 4 + n128 * latent / 128
    swa = latent * layers + ring / window * 4 * (dim + index) * state * n4
    notes = [
        "the layout is fixed: keys are FP8 whatever dtype is asked for",
        f"window pool of {ratio:g} times the tokens",
    ]
    if not dtype.startswith("fp8"):
        doubts.append(f"DeepSeek-V4 with {dtype}: the figure is that of its FP8 layout")
    return Cell(
        compressed + ratio * swa,
        [
            {"name": "compressed", "bytes_per_token": compressed, "share": 1.0},
            {"name": "swa", "bytes_per_token": swa, "share": ratio},
        ],
        f"{n4} x ({latent} + {key}) / 4 + {n128} x {latent} / 128 + {ratio:g} x ({latent} x {layers}"
        f" + {ring}/{window} x 4 x ({dim} + {index}) x {state} x {n4})",
        shape,
        notes,
        doubts,
    )

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layers of a model keep what per token: the geometry behind a KV cache's size (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_fields as fields
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion, in_range
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Section, wrong_type

FILE = "config.json"


@dataclasses.dataclass(frozen=True)
class Heads:
    """Layers that store keys and values by head: ``layers`` are their indices."""

    name: str
    layers: tuple[int, ...]
    kv_heads: int
    k_dim: int
    v_dim: int

    def heads_per_gpu(self, tp: int) -> int:
        """KV heads that one of ``tp`` GPUs keeps; below one per GPU they are replicated."""
        return max(1, self.kv_heads // tp)

    def elements(self, tp: int) -> int:
        """Numbers stored per token, layer and GPU."""
        return self.heads_per_gpu(tp) * (self.k_dim + self.v_dim)


@dataclasses.dataclass(frozen=True)
class Latent:
    """Layers that store one latent vector for all heads (MLA): not divided by TP."""

    layers: tuple[int, ...]
    rank: int
    rope: int


@dataclasses.dataclass
class Geometry:
    """What a model's layers keep per token.

    ``kind`` is a word for people. ``total`` counts all layers. ``full`` and ``swa`` are groups of layers that keep the
    whole context or a window; ``latent`` is set for MLA. ``index`` are (layers, bytes) of an index cache that is stored
    beside, whatever the KV dtype. ``states`` are the layers that keep a state per request. ``doubts`` name what is not
    understood; any of them makes a figure approximate.
    """

    kind: str
    total: int
    full: list[Heads] = dataclasses.field(default_factory=list)
    swa: list[Heads] = dataclasses.field(default_factory=list)
    latent: Latent | None = None
    index_layers: tuple[int, ...] = ()
    index_bytes: int = 0
    states: tuple[int, ...] = ()
    window: int | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    doubts: list[str] = dataclasses.field(default_factory=list)


def geometry(text: t.Mapping[str, t.Any], architectures: t.Sequence[str], version: EngineVersion) -> Geometry:
    """The geometry of a language model, from its (inner) configuration.

    Raises:
        SglangError: a value of a type that makes no sense, or no number of layers or heads at all.
    """
    config = Section(text, FILE)
    kinds = layer_kinds(config)
    shape = Geometry("gqa", len(kinds))
    shape.states = tuple(i for i, kind in enumerate(kinds) if kind == "state")
    attention = tuple(i for i, kind in enumerate(kinds) if kind in ("full", "sliding", "chunked"))
    strange = sorted({kind for kind in kinds if kind.startswith("?")})
    if strange:
        shape.doubts.append("layer types " + ", ".join(word[1:] for word in strange))
    rank, rope = config.number("kv_lora_rank"), config.number("qk_rope_head_dim")
    if rank:
        shape.kind = "mla"
        shape.latent = Latent(attention, rank, rope or 0)
        _sparse_index(config, shape, attention, version)
    else:
        _by_heads(config, architectures, shape, kinds, attention=attention, version=version)
        _minimax_index(config, shape)
    if shape.states:
        shape.kind = f"{state_kind(config)}+{shape.kind}"
    elif state_kind(config) != "state":
        if any(name.startswith("FalconH1") for name in architectures):
            shape.states = tuple(range(shape.total))  # attention and Mamba side by side in every layer
            shape.kind = f"mamba2+{shape.kind}"
        elif not _type_list(config):
            shape.doubts.append(f"fields of {state_kind(config)} layers, but nothing says which layers those are")
    shape.doubts += [f"field {name}" for name in fields.unknown_fields(text)]
    return shape


# --- kinds of layers ------------------------------------------------------------------------------------------------


def layer_kinds(config: Section) -> list[str]:
    """full, sliding, chunked, state, none or ?word for every layer.

    The number of layers comes from num_hidden_layers, else from a list (facts D1: Nemotron-3-Ultra has only the list).
    """
    pattern = config.raw("hybrid_override_pattern")
    listed = _type_list(config)
    blocks = config.raw("block_configs")
    count = _layer_count(config, pattern, listed, blocks)
    if isinstance(pattern, str) and pattern:
        return [_kind(mark) for mark in pattern[:count]]
    interval = config.number("full_attention_interval")
    if (interval or config.number("linear_num_value_heads")) and config.number("linear_key_head_dim"):
        # The engine's own classes go by the interval alone (configs/qwen3_next.py); 4 is their default.
        return ["full" if (i + 1) % (interval or 4) == 0 else "state" for i in range(count)]
    linear = config.section("linear_attn_config")
    if linear is not None:
        return _kimi(linear, count)
    marks = config.raw("attn_type_list")  # MiniMax: 0 is linear attention
    if isinstance(marks, list) and 0 in marks:
        return ["full" if i >= len(marks) or marks[i] else "state" for i in range(count)]
    grouped = _grouped(config, count)
    if grouped is not None:
        return grouped
    if isinstance(blocks, list) and blocks:
        return [_block_kind(blocks, i) for i in range(count)]
    if listed:
        kinds = [_kind(word) for word in listed[:count]]
        return kinds + ["full"] * (count - len(kinds))
    period = config.number("attn_layer_period")
    if period:
        offset = config.number("attn_layer_offset") or 0
        return ["full" if i % period == offset else "state" for i in range(count)]
    indices = config.raw("attn_layer_indices")
    if isinstance(indices, list):
        return ["full" if i in indices else "state" for i in range(count)]
    return _windows(config, count)


def _layer_count(config: Section, pattern: t.Any, listed: list[str], blocks: t.Any) -> int:
    for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        value = config.number(name)
        if value:
            return value
    for known in (listed, pattern, blocks):
        if isinstance(known, (list, str)) and known:
            return len(known)
    raise wrong_type(FILE, config.path("num_hidden_layers"), config.raw("num_hidden_layers"), "the number of layers")


def _type_list(config: Section) -> list[str]:
    return config.strings("layers_block_type") or config.strings("layer_types") or []


def _kind(word: str) -> str:
    mark = word.lower()
    for kind, words in (
        ("full", fields.FULL_TYPES),
        ("sliding", fields.SLIDING_TYPES),
        ("chunked", fields.CHUNKED_TYPES),
        ("state", fields.STATE_TYPES),
        ("none", fields.NO_CACHE_TYPES),
    ):
        if mark in words:
            return kind
    return "?" + word


def _kimi(linear: Section, count: int) -> list[str]:
    """Kimi-Linear and Kimi-K3: layers are counted from 1 (configs/kimi_linear.py)."""
    full = linear.raw("full_attn_layers")
    states = linear.raw("kda_layers")
    if isinstance(full, list):
        return ["full" if i + 1 in full else "state" for i in range(count)]
    if isinstance(states, list):
        return ["state" if i + 1 in states else "full" for i in range(count)]
    raise wrong_type(FILE, linear.path("full_attn_layers"), full, "a list of layers, counted from 1")


def _grouped(config: Section, count: int) -> list[str] | None:
    """Ling (layer_group_size: the last of each group has attention) and MiniCPM-SALA (mixer_types, repeated).

    Source: configs/bailing_hybrid.py layers_block_type; configs/minicpm.py.
    """
    group = config.raw("layer_group_size")
    if isinstance(group, list) and len(group) == count:
        return ["state" if mark == 1 else "full" for mark in group]
    size = config.number("layer_group_size") if not isinstance(group, list) else None
    if size:
        return ["full" if (i + 1) % size == 0 else "state" for i in range(count)]
    mixers = config.strings("mixer_types")
    if mixers:
        return ["state" if "lightning" in mixers[i % len(mixers)] else "full" for i in range(count)]
    return None


def _block_kind(blocks: list[t.Any], i: int) -> str:
    block = blocks[i] if i < len(blocks) else None
    if not isinstance(block, dict):
        raise wrong_type(FILE, f"block_configs[{i}]", block, "an object")
    attention = block.get("attention")
    if not isinstance(attention, dict) or attention.get("no_op") or attention.get("replace_with_linear"):
        return "none"
    if attention.get("mamba"):
        return "state"
    return "full"


def _windows(config: Section, count: int) -> list[str]:
    """Models whose layers differ in their window alone."""
    pattern = config.raw("hybrid_layer_pattern")
    if isinstance(pattern, list) and pattern:  # MiMo-V2: 1 is a window
        return ["sliding" if i < len(pattern) and pattern[i] == 1 else "full" for i in range(count)]
    if config.number("attention_chunk_size"):  # Llama 4: every fourth layer sees everything
        nope = config.raw("no_rope_layers")
        if isinstance(nope, list) and len(nope) == count and any(value == 0 for value in nope):
            return ["full" if value == 0 else "chunked" for value in nope]
        return ["full" if (i + 1) % 4 == 0 else "chunked" for i in range(count)]
    window = config.raw("sliding_window")
    if not window or config.raw("use_sliding_window") is False:
        return ["full"] * count
    every = config.number("sliding_window_pattern") or config.number("_sliding_window_pattern")
    if every:  # Gemma 3: 6, Cohere 2: 4
        return ["full" if (i + 1) % every == 0 else "sliding" for i in range(count)]
    return ["sliding"] * count


# --- keys and values by head -------------------------------------------------------------------------------------


def _by_heads(
    config: Section,
    architectures: t.Sequence[str],
    shape: Geometry,
    kinds: list[str],
    *,
    attention: tuple[int, ...],
    version: EngineVersion,
) -> None:
    head_dim = head_dimension(config)
    v_dim = config.number("v_head_dim") or head_dim
    kv_heads = kv_head_count(config, shape)
    windowed = tuple(i for i in attention if kinds[i] != "full")
    full = tuple(i for i in attention if kinds[i] == "full")
    shape.window = config.number("sliding_window") or config.number("attention_chunk_size")
    if not windowed:
        shape.full.append(Heads("full", full, kv_heads, head_dim, v_dim))
        return
    known = next((a for a in architectures if a in kv.SWA_ARCHS), None)
    listed = known is not None and in_range(version, kv.SWA_ARCHS[known])
    own_pool = listed or config.raw("is_hybrid_swa") is True
    if not own_pool or not full:
        # One size for all layers; where every layer has a window the engine has one pool as well.
        shape.full.append(Heads("full", attention, kv_heads, head_dim, v_dim))
        if full:
            shape.notes.append(
                f"{len(windowed)} of {len(attention)} layers have a window, but SGLang keeps no separate pool for "
                f"{known or next(iter(architectures), 'this class')}: every layer costs the whole context"
            )
            if known is None and not any(name.startswith(fields.ONE_POOL) for name in architectures):
                shape.doubts.append(
                    "windows in a class that is not known: each layer is counted with the whole context"
                )
        return
    shape.kind = "chunked" if "chunked" in kinds else "swa"
    global_dim, global_heads = config.number("global_head_dim"), config.number("num_global_key_value_heads")
    if global_dim:  # Gemma 4: layers that see everything have heads of their own shape
        shared = config.number("num_kv_shared_layers") or 0
        last = shape.total - shared
        if shared:
            shape.notes.append(f"the last {shared} layers share the KV cache of earlier ones")
        full, windowed = (tuple(i for i in group if i < last) for group in (full, windowed))
        shape.full.append(Heads("full", full, global_heads or kv_heads, global_dim, global_dim))
        shape.swa.append(Heads("swa", windowed, kv_heads, head_dim, v_dim))
        return
    other = config.section("attention_other_setting")  # Step 3.5
    swa_heads = config.number("swa_num_key_value_heads") or (other.number("num_attention_groups") if other else None)
    swa_dim = config.number("swa_head_dim") or head_dim
    shape.full.append(Heads("full", full, kv_heads, head_dim, v_dim))
    swa_v = config.number("swa_v_head_dim") or (v_dim if swa_dim == head_dim else swa_dim)
    shape.swa.append(Heads("swa", windowed, swa_heads or kv_heads, swa_dim, swa_v))


def head_dimension(config: Section) -> int:
    """Width of one head; null and 0 count as missing."""
    for name in ("head_dim", "attention_head_dim", "hidden_size_per_head"):
        value = config.number(name)
        if value:
            return value
    hidden = next((v for n in ("hidden_size", "n_embd", "d_model") if (v := config.number(n))), None)
    heads = attention_heads(config)
    if not hidden:
        raise wrong_type(FILE, config.path("hidden_size"), None, "the width of a head or of the model")
    return hidden // heads


def attention_heads(config: Section) -> int:
    """Number of query heads."""
    for name in ("num_attention_heads", "n_head", "n_heads", "num_heads"):
        value = config.number(name)
        if value:
            return value
    raise wrong_type(FILE, config.path("num_attention_heads"), config.raw("num_attention_heads"), "the number of heads")


def kv_head_count(config: Section, shape: Geometry | None = None) -> int:
    """Number of KV heads, by the names that models give it (configs/model_config.py get_total_num_kv_heads)."""
    if config.raw("multi_query") is True and not config.raw("new_decoder_architecture"):
        return 1
    per_layer = config.raw("num_kv_heads")
    if isinstance(per_layer, list) and per_layer and all(isinstance(n, int) for n in per_layer):
        if shape is not None:
            shape.doubts.append("field num_kv_heads: a different number in each layer")
        return -(-sum(per_layer) // len(per_layer))
    for name in ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"):
        value = config.number(name)
        if value:
            return value
    inner = config.section("attn_config")
    if inner is not None and (value := inner.number("kv_n_heads")):
        return value
    grouped = _group_sizes(config)
    if grouped:
        heads = {attention_heads(config) // size for size in grouped}
        if len(heads) > 1 and shape is not None:
            shape.doubts.append("field block_configs: layers with different numbers of KV heads")
        return max(heads)
    return attention_heads(config)


def _group_sizes(config: Section) -> set[int]:
    """DeciLM: query heads per KV head, where num_key_value_heads is null."""
    sizes = set()
    blocks = config.raw("block_configs")
    for block in blocks if isinstance(blocks, list) else []:
        attention = block.get("attention") if isinstance(block, dict) else None
        size = attention.get("n_heads_in_group") if isinstance(attention, dict) else None
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            sizes.add(size)
    return sizes


# --- index caches ---------------------------------------------------------------------------------------------------


def _sparse_index(config: Section, shape: Geometry, attention: tuple[int, ...], version: EngineVersion) -> None:
    """DeepSeek sparse attention keeps one index key per token and layer: FP8 with a float32 scale for 128 numbers."""
    if not config.raw("index_topk") or not config.number("index_head_dim"):
        return
    dim = config.number("index_head_dim") or 0
    shape.kind = "dsa"
    shape.index_bytes = dim + dim // 128 * 4
    pooled = config.number("index_kpool") or 1
    if pooled > 1:
        shape.index_bytes = -(-shape.index_bytes // pooled)
        shape.doubts.append("field index_kpool: pooled index keys were not compared with a running engine")
    layers = tuple(i for i in attention if not _shares_index(config, i))
    if kv.has("index_elided", version):
        shape.index_layers = layers
        if len(layers) < len(attention):
            shape.notes.append(f"{len(attention) - len(layers)} layers use another layer's index and keep none")
    else:
        shape.index_layers = attention


def _shares_index(config: Section, layer: int) -> bool:
    """configs/model_config.py dsa_layer_skips_topk."""
    types = config.raw("indexer_types")
    if isinstance(types, list):
        return layer < len(types) and types[layer] == "shared"
    factor = config.number("cli_factor") or 1
    if factor > 1:
        return layer % factor != 0
    pattern = config.raw("index_topk_pattern")
    if isinstance(pattern, (str, list)):
        return layer < len(pattern) and pattern[layer] == "S"
    every = config.number("index_topk_freq") or 1
    offset = config.number("index_skip_topk_offset")
    return max(layer - (offset if offset is not None else 2) + 1, 0) % every != 0


def _minimax_index(config: Section, shape: Geometry) -> None:
    """MiniMax-M3: an index head per sparse layer, in the model's dtype; its values only where they are not disabled."""
    sparse = config.section("sparse_attention_config")
    if sparse is None:
        return
    marks = sparse.raw("sparse_attention_freq")
    dim = sparse.number("sparse_index_dim")
    if not isinstance(marks, list) or not dim:
        shape.doubts.append("field sparse_attention_config")
        return
    layers = [i for i, mark in enumerate(marks) if mark]
    no_value = sparse.raw("sparse_disable_index_value")
    keys_only = [i for i in layers if isinstance(no_value, list) and i < len(no_value) and no_value[i]]
    if no_value is True:
        keys_only = layers
    shape.kind = "gqa+index"
    # A layer that keeps values too counts twice.
    shape.index_layers = tuple(sorted(layers + [i for i in layers if i not in set(keys_only)]))
    shape.index_bytes = dim * 2


# --- states ---------------------------------------------------------------------------------------------------------


def state_kind(config: Section) -> str:
    """gdn, kda, mamba2, mamba1, conv or unknown."""
    if config.number("linear_num_value_heads"):
        return "gdn"
    if config.section("linear_attn_config") is not None:
        return "kda"
    if config.number("mamba_num_heads") or config.number("mamba_n_heads"):
        return "mamba2"
    if config.number("mamba_d_state"):
        return "mamba1"
    if config.number("layer_group_size") or isinstance(config.raw("layer_group_size"), list):
        return "kda" if config.number("short_conv_kernel_size") else "lightning"
    if config.strings("mixer_types"):
        return "lightning"
    if config.raw("conv_L_cache"):
        return "conv"
    return "state"


def kv_scale_tensors(text: t.Mapping[str, t.Any]) -> int | None:
    """How many KV scales a checkpoint with scales has: two for each layer with attention; None where layers are not
    known.
    """
    try:
        kinds = layer_kinds(Section(text, FILE))
    except Exception:  # a configuration without layers has no expectation, and the reading of scales goes on
        return None
    return 2 * sum(kind in ("full", "sliding", "chunked") for kind in kinds)

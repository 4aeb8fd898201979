# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of the state that linear-attention and Mamba layers keep per request slot (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Section
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_layers import FILE, state_kind

# The convolution's window is kept in the model's dtype (SGLANG_MAMBA_CONV_DTYPE, default bfloat16).
CONV_BYTES = 2


@dataclasses.dataclass(frozen=True)
class State:
    """Bytes per request slot, layer and GPU: ``conv`` and ``ssm``; ``formula`` has the numbers in place."""

    kind: str
    conv: int
    ssm: int
    formula: str
    doubts: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Both parts."""
        return self.conv + self.ssm


def state_per_layer(text: t.Mapping[str, t.Any], tp: int, ssm_dtype: str | None = None) -> State:
    """The state of one layer on one of ``tp`` GPUs.

    Args:
        text: the language model's configuration.
        tp: GPUs among which attention heads are divided.
        ssm_dtype: --mamba-ssm-dtype; else what the configuration says, else float32.

    Formulas: configs/mamba_utils.py Mamba2StateShape, KimiLinearStateShape (facts D3). Heads are whole per GPU.
    """
    config = Section(text, FILE)
    kind = state_kind(config)
    size = int(kv.ELEMENT_BYTES.get(ssm_dtype or _configured(config) or "float32", 4.0))
    maker = {
        "gdn": _gdn,
        "kda": _kda,
        "mamba2": _mamba2,
        "mamba1": _mamba1,
        "conv": _conv,
        "lightning": _lightning,
    }.get(kind)
    if maker is None:
        return State(kind, 0, 0, "unknown", ("layers that keep a state of a kind that is not understood",))
    return maker(config, tp, size)


def _configured(config: Section) -> str | None:
    return config.text("mamba_ssm_dtype") or config.text("mamba_ssm_cache_dtype")


def _number(config: Section, *names: str, default: int = 0) -> int:
    return next((value for name in names if (value := config.number(name))), default)


def _share(heads: int, tp: int) -> int:
    return max(1, -(-heads // tp))


def _gdn(config: Section, tp: int, size: int) -> State:
    k_heads, k_dim = _number(config, "linear_num_key_heads"), _number(config, "linear_key_head_dim")
    v_heads, v_dim = _number(config, "linear_num_value_heads"), _number(config, "linear_value_head_dim")
    window = _number(config, "linear_conv_kernel_dim", default=4) - 1
    padded = -(-k_heads // tp) * tp
    width = (2 * padded * k_dim + v_heads * v_dim) // tp
    conv, ssm = window * width * CONV_BYTES, _share(v_heads, tp) * v_dim * k_dim * size
    return State(
        "gdn",
        conv,
        ssm,
        f"{window} x (2 x {padded} x {k_dim} + {v_heads} x {v_dim}) / {tp} x {CONV_BYTES} B"
        f" + {v_heads} / {tp} x {v_dim} x {k_dim} x {size} B",
    )


def _kda(config: Section, tp: int, size: int) -> State:
    linear = config.section("linear_attn_config") or config  # Ling keeps the numbers at the top
    heads, dim = _number(linear, "num_heads", "num_attention_heads"), _number(linear, "head_dim")
    window = _number(linear, "short_conv_kernel_size", default=4) - 1
    conv, ssm = window * 3 * heads * dim // tp * CONV_BYTES, _share(heads, tp) * dim * dim * size
    return State(
        "kda",
        conv,
        ssm,
        f"{window} x 3 x {heads} x {dim} / {tp} x {CONV_BYTES} B + {heads} / {tp} x {dim} x {dim} x {size} B",
    )


def _mamba2(config: Section, tp: int, size: int) -> State:
    heads = _number(config, "mamba_num_heads", "mamba_n_heads")
    dim = _number(config, "mamba_head_dim", "mamba_d_head")
    if not dim:
        inner = _number(config, "mamba_expand", "expand", default=2) * _number(config, "hidden_size")
        dim = inner // heads
    states = _number(config, "ssm_state_size", "mamba_d_state", "state_size")
    groups = _number(config, "n_groups", "mamba_n_groups", default=1)
    window = _number(config, "conv_kernel", "mamba_d_conv", default=4) - 1
    # Groups that do not divide are repeated until they do (extra_groups_for_head_shards).
    padded = -(-groups // tp) * tp
    width = (heads * dim + 2 * padded * states) // tp
    conv, ssm = window * width * CONV_BYTES, _share(heads, tp) * dim * states * size
    return State(
        "mamba2",
        conv,
        ssm,
        f"{window} x ({heads} x {dim} + 2 x {padded} x {states}) / {tp} x {CONV_BYTES} B"
        f" + {heads} / {tp} x {dim} x {states} x {size} B",
    )


def _mamba1(config: Section, tp: int, size: int) -> State:
    inner = _number(config, "mamba_expand", "expand", default=2) * _number(config, "hidden_size")
    states, window = _number(config, "mamba_d_state", "state_size"), _number(config, "mamba_d_conv", default=4) - 1
    conv, ssm = window * inner // tp * CONV_BYTES, inner // tp * states * size
    return State(
        "mamba1", conv, ssm, f"{window} x {inner} / {tp} x {CONV_BYTES} B + {inner} / {tp} x {states} x {size} B"
    )


def _conv(config: Section, tp: int, size: int) -> State:
    _rest = size
    window, hidden = _number(config, "conv_L_cache") - 1, _number(config, "hidden_size")
    return State(
        "conv",
        max(window, 0) * hidden // tp * CONV_BYTES,
        0,
        f"{window} x {hidden} / {tp} x {CONV_BYTES} B",
        ("layers with a short convolution alone: their state was not compared with a running engine",),
    )


def _lightning(config: Section, tp: int, size: int) -> State:
    """Lightning attention: one matrix per head, no convolution (configs/bailing_hybrid.py, configs/minicpm.py)."""
    heads = _number(config, "lightning_nkv", "lightning_nh", "num_attention_heads")
    dim = _number(config, "lightning_head_dim", "head_dim") or _number(config, "hidden_size") // max(heads, 1)
    return State("lightning", 0, _share(heads, tp) * dim * dim * size, f"{heads} / {tp} x {dim} x {dim} x {size} B")

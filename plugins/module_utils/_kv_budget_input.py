# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of kv_cache_budget_info and its filter twin to :func:`_kv_budget.budget` (private)."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info, _kv_budget
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# Options and their defaults, as documented by the module.
DEFAULTS: dict[str, t.Any] = {
    "kv_cache_dtype": "bfloat16",
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "page_size": 1,
    "dp_attention": False,
    "engine_version": None,
    "attention_backend": None,
    "compute_capability": None,
    "kv_pool_bytes": None,
    "available_after_load_gib": None,
    "available_before_load_gib": None,
    "mem_fraction_static": None,
    "contexts": list(_kv_budget.CONTEXTS),
    "max_running_requests": None,
    "max_total_tokens": None,
    "speculative_algorithm": None,
    "speculative_num_draft_tokens": None,
    "speculative_draft_layers": None,
    "mamba_ssm_dtype": None,
    "mamba_full_memory_ratio": 0.9,
    "mamba_strategy": "auto",
    "max_mamba_cache_size": None,
    "disable_radix_cache": False,
    "disable_overlap_schedule": False,
    "swa_full_tokens_ratio": None,
    "compress_state_dtype": "float32",
}
# Backends that keep the latent of DeepSeek sparse attention without scales (mem_cache calculate_mla_kv_cache_dim).
_RAW_LATENT = ("trtllm", "trtllm_mla", "tilelang", "triton")


def run(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Compute with the module's options; ``path`` or ``config`` among them.

    Raises:
        SglangError: a value that makes no sense, or a checkpoint that cannot be read.
    """
    unknown = sorted(set(options) - set(DEFAULTS) - {"path", "config"})
    if unknown:
        raise SglangError(f"no such option: {', '.join(unknown)}", expected=", ".join(sorted(DEFAULTS)))
    given = {**DEFAULTS, **{key: value for key, value in options.items() if value is not None}}
    for name, low, high in (("mem_fraction_static", 0.0, 1.0), ("mamba_full_memory_ratio", 0.0, float("inf"))):
        value = given[name]
        if value is not None and not low <= value <= high:
            raise SglangError(f"{name} is {value}", where=name, expected=f"a number from {low:g} to {high:g}")
    return _kv_budget.budget(
        _model(given),
        given["kv_cache_dtype"],
        tp_size=given["tp_size"],
        pp_size=given["pp_size"],
        dp_size=given["dp_size"],
        dp_attention=_groups(given["dp_attention"]),
        page_size=given["page_size"],
        engine_version=given["engine_version"],
        contexts=given["contexts"],
        memory=_kv_budget.Memory(
            given["kv_pool_bytes"],
            given["available_before_load_gib"],
            given["available_after_load_gib"],
            given["mem_fraction_static"],
        ),
        states=_kv_budget.StateSettings(
            given["mamba_ssm_dtype"],
            given["mamba_full_memory_ratio"],
            given["mamba_strategy"],
            given["disable_radix_cache"],
            given["disable_overlap_schedule"],
            given["max_mamba_cache_size"],
        ),
        speculative=_kv_budget.Speculative(
            given["speculative_algorithm"], given["speculative_num_draft_tokens"], given["speculative_draft_layers"]
        ),
        max_running_requests=given["max_running_requests"],
        max_total_tokens=given["max_total_tokens"],
        swa_full_tokens_ratio=given["swa_full_tokens_ratio"],
        dsa_layout="raw" if given["attention_backend"] in _RAW_LATENT else "scaled",
        compress_state_dtype=given["compress_state_dtype"],
        attention_backend=given["attention_backend"],
        compute_capability=given["compute_capability"],
    )


def _groups(value: t.Any) -> bool | int:
    """dp_attention: yes or no, or a number of groups; also as text."""
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "false", "no", "off", "none", ""):
        return word in ("true", "yes", "on")
    if not word.isdigit():
        raise SglangError(
            f"dp_attention is {value!r}", where="dp_attention", expected="true, false or a number of groups"
        )
    return int(word)


def _model(given: t.Mapping[str, t.Any]) -> _checkpoint.Checkpoint:
    path, config = given.get("path"), given.get("config")
    if path:
        folder = str(pathlib.Path(path).parent) if pathlib.Path(path).name == "config.json" else path
        return _checkpoint.read(folder or ".", scales=False)
    if not isinstance(config, t.Mapping):
        raise SglangError(
            "there is no configuration", where="config", expected="a config.json as a dictionary, or path"
        )
    if "engine_auto_kv_cache_dtype" in config:
        return _checkpoint_info.rebuilt(config)
    return _checkpoint.from_config(config)

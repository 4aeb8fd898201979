# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Costs of a token and of a state, and what fits, against public figures and a real server's own log."""

from __future__ import annotations

import typing as t

import kv_models
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_budget
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_budget import (
    GIB,
    Memory,
    Speculative,
    StateSettings,
    budget,
)


@pytest.mark.parametrize("model", kv_models.CELLS)
def test_cells_and_states_of_28_models(model: str) -> None:
    config, tp1, tp8, tp8_fp8, state1, state8 = kv_models.CELLS[model]
    one, eight = budget(config), budget(config, tp_size=8)
    assert one["bytes_per_token"] == tp1
    assert eight["bytes_per_token"] == tp8
    assert budget(config, "fp8_e4m3", tp_size=8)["bytes_per_token"] == tp8_fp8
    assert eight["fp8"]["bytes_per_token"] == tp8_fp8
    assert (one["state_bytes_per_slot"], eight["state_bytes_per_slot"]) == (state1, state8)
    # Of all these only DeepSeek-V4's layout differs between builds that are in use.
    assert one["approximate"] is model.startswith("DeepSeek-V4")


@pytest.mark.parametrize("model", kv_models.TOKENS_60_GIB)
def test_tokens_in_60_gib(model: str) -> None:
    result = budget(kv_models.CELLS[model][0], tp_size=8, memory=Memory(kv_pool_bytes=60 * GIB))
    assert result["tokens"] == kv_models.TOKENS_60_GIB[model]


def test_glm_5_2_keeps_an_index_for_21_of_78_layers() -> None:
    config = kv_models.stored("zai-org/GLM-5.2-FP8")
    assert budget(config)["bytes_per_token"] == 92628
    assert budget(config, "fp8_e4m3")["bytes_per_token"] == 53940
    # Builds before the elision count all 78, and triton's raw layout has no scales: the public log of GLM-5.2-NVFP4.
    old = budget(config, "fp8_e4m3", engine_version="0.5.17", dsa_layout="raw")
    assert old["bytes_per_token"] == 55224


# --- the captured servers ---------------------------------------------------------------------------------------------

# name: dtype, TP, version, GiB before and after loading, then slots, requests and tokens as the server logged them
CAPTURES = {
    "kv_bf16_override": ("bfloat16", 1, "0.5.12.post1", 139.13, 137.42, 179, 59, 1251491),
    "kv_auto_fp8_checkpoint": ("fp8_e4m3", 1, "0.5.12.post1", 139.13, 137.42, 179, 59, 2502982),
    "tp2_auto_beaten_to_the_port": ("fp8_e4m3", 2, "0.5.12.post1", 138.28, 137.37, 361, 120, 5024705),
    "tp2_bf16_beside_a_forgotten_server": ("bfloat16", 2, "0.5.12.post1", 66.58, 65.67, 171, 57, 1194148),
    "kv_auto_fp8_checkpoint_0.5.16": ("fp8_e4m3", 1, "0.5.16", 139.09, 137.38, 179, 35, 2500115),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_what_a_real_server_found_to_fit(name: str) -> None:
    dtype, tp, version, before, after, slots, requests, tokens = CAPTURES[name]
    result = budget(
        kv_models.CAPTURED,
        dtype,
        tp_size=tp,
        engine_version=version,
        memory=Memory(before_load=before, after_load=after, fraction=0.5),
    )
    assert result["state_slots"] == slots
    assert result["max_running_requests"] == requests
    assert result["tokens"] == pytest.approx(tokens, rel=0.002)
    assert all(row["by_slots"] == requests for row in result["requests"])
    assert not result["approximate"]


def test_the_factor_of_two_is_one_head_per_gpu() -> None:
    """17.4 GB for FP8 tokens: 1.22 million by TP 1's figure, about twice that on eight GPUs with two KV heads."""
    config = kv_models.stored("nvidia/Qwen3.5-397B-A17B-NVFP4")
    memory = Memory(kv_pool_bytes=17.4 * GIB)
    one = budget(config, "fp8_e4m3", memory=memory)
    eight = budget(config, "fp8_e4m3", tp_size=8, memory=memory)
    assert one["bytes_per_token"] == 15360
    assert one["tokens"] == pytest.approx(1_220_000, rel=0.005)
    assert eight["bytes_per_token"] == 7680
    assert not one["kv_heads_replicated"] and eight["kv_heads_replicated"]
    assert eight["tokens"] == 2 * one["tokens"] + 1 or eight["tokens"] == 2 * one["tokens"]
    # The log said 2,565,571, so its pool had 18.35 GiB.
    assert pytest.approx(18.35, abs=0.01) == 2565571 * 7680 / GIB


# --- numbers from public server logs --------------------------------------------------------------------------------


def pool_gib(config: dict[str, t.Any], dtype: str, tp: int, tokens: int, page: int, **more: t.Any) -> float:
    """GiB of a pool: the engine allocates a page more than it hands out."""
    return budget(config, dtype, tp_size=tp, **more)["bytes_per_token"] * (tokens + page) / GIB


QWQ_32B = {
    "architectures": ["Qwen2ForCausalLM"],
    "num_hidden_layers": 64,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "hidden_size": 5120,
}
LING_3 = {
    "architectures": ["BailingMoeV3ForCausalLM"],
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "hidden_size": 2048,
    "head_dim": 128,
    "layer_group_size": 4,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "short_conv_kernel_size": 4,
}
MINICPM_SALA = {
    "architectures": ["MiniCPMSALAForCausalLM"],
    "num_hidden_layers": 32,
    "mixer_types": ["minicpm4", "lightning", "lightning", "lightning"],
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_size": 4096,
}
PUBLISHED = {
    "Qwen3-235B-A22B-FP8, TP 4": (kv_models.stored("Qwen/Qwen3-235B-A22B-FP8"), "bfloat16", 4, 367404, 1, 16.46, {}),
    "QwQ-32B class, TP 4": (QWQ_32B, "bfloat16", 4, 46611, 1, 2.84, {}),
    "Qwen3-0.6B": (kv_models.stored("Qwen/Qwen3-0.6B"), "bfloat16", 1, 1360288, 1, 145.3, {}),
    "Ling-3": ({**LING_3, "num_hidden_layers": 24}, "bfloat16", 1, 1933682, 1, 12.45, {}),
    "Kimi-K3-like, TP 8": (kv_models.KIMI_K3, "fp8_e4m3", 8, 1167552, 1, 15.03, {}),
    "Nemotron-Nano-9B-v2": (kv_models.NEMOTRON_NANO_9B_V2, "bfloat16", 1, 2618868, 1, 39.96, {}),
    "MiniCPM-SALA": (MINICPM_SALA, "bfloat16", 1, 6612763, 1, 50.46, {}),
    "DeepSeek-V3.2-Exp, DP 8": (
        kv_models.stored("deepseek-ai/DeepSeek-V3.2"),
        "fp8_e4m3",
        8,
        975424,
        64,
        43.67,
        {"dp_size": 8, "dp_attention": True},
    ),
    "GLM-5.2-NVFP4, raw latent, index on every layer": (
        kv_models.stored("zai-org/GLM-5.2-FP8"),
        "fp8_e4m3",
        8,
        464768,
        64,
        23.91,
        {"engine_version": "0.5.17", "dsa_layout": "raw"},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_pools(name: str) -> None:
    config, dtype, tp, tokens, page, gib, more = PUBLISHED[name]
    assert pool_gib(config, dtype, tp, tokens, page, **more) == pytest.approx(gib, rel=0.005)


def test_published_pools_of_windows() -> None:
    pools = budget(kv_models.MIMO_V2_FLASH, tp_size=4)["pools"]
    window = next(pool for pool in pools if pool["name"] == "swa")
    assert window["bytes_per_token"] * (300288 + 64) / GIB == pytest.approx(13.97, rel=0.005)
    assert int(375360 * window["share"]) == 300288
    full = budget(kv_models.stored("google/gemma-4-26B-A4B"))["pools"][0]
    assert full["bytes_per_token"] * (67584 + 256) / GIB == pytest.approx(1.30, rel=0.005)


def test_published_index_cache_was_missing_from_the_log() -> None:
    """54.52 GB were logged for DeepSeek-V3.2, 65.49 used: the index was not counted before PR 11309."""
    config = kv_models.stored("deepseek-ai/DeepSeek-V3.2")
    whole = budget(config, "fp8_e4m3")["bytes_per_token"]
    assert whole - 61 * 132 == 61 * 656
    assert 54.52 * whole / (61 * 656) == pytest.approx(65.49, rel=0.005)


def test_published_states() -> None:
    kimi = budget(kv_models.KIMI_K3, tp_size=8)
    conv = 69 * 3 * 3 * 96 * 128 // 8 * 2
    assert (257 + 1) * (kimi["state_bytes_per_slot"] - conv) / GIB == pytest.approx(13.04, rel=0.005)
    nemotron = budget(kv_models.NEMOTRON_NANO_9B_V2)
    conv = 27 * 3 * (128 * 80 + 2 * 8 * 128) * 2
    assert (48 + 1) * (nemotron["state_bytes_per_slot"] - conv) / GIB == pytest.approx(6.46, rel=0.005)
    # Qwen3.8-27B's convolution is logged as 0.34 GiB, two digits, so no figure can be had within 0.5 %: it is 0.3433.
    qwen = kv_models.stored("Qwen/Qwen3.5-27B")
    ssm = 48 * 48 * 128 * 128 * 4
    assert round((124 + 1) * (budget(qwen)["state_bytes_per_slot"] - ssm) / GIB, 2) == 0.34


def test_published_deepseek_v4() -> None:
    flash = kv_models.stored("deepseek-ai/DeepSeek-V4-Flash")
    pro = kv_models.stored("sgl-project/DeepSeek-V4-Pro-FP8")
    assert budget(flash, "fp8_e4m3", compress_state_dtype="bfloat16")["bytes_per_token"] == 7033.45
    assert round(budget(pro, "fp8_e4m3", swa_full_tokens_ratio=0.15)["bytes_per_token"], 2) == 13735.04
    npu = budget(flash, "fp8_e4m3", page_size=256, memory=Memory(kv_pool_bytes=(11.89 - 0.11) * GIB))
    assert npu["tokens"] == pytest.approx(1641472, rel=0.005)


# --- rules ---------------------------------------------------------------------------------------------------------


def test_an_mtp_draft_costs_one_more_layer_since_0_5_14() -> None:
    config = kv_models.stored("Qwen/Qwen3.5-397B-A17B")
    spec = Speculative("NEXTN", num_draft_tokens=4)
    assert budget(config, tp_size=8, speculative=spec)["bytes_per_token"] == 15360 * 16 // 15
    before = budget(config, tp_size=8, speculative=spec, engine_version="0.5.12.post1")
    assert before["bytes_per_token"] == 15360
    assert any("does not count the draft" in note for note in before["notes"])
    assert budget(config, tp_size=8, speculative=Speculative("NGRAM"))["bytes_per_token"] == 15360


def test_data_parallel_attention_divides_heads_by_less() -> None:
    config = kv_models.stored("meta-llama/Meta-Llama-3.1-70B")
    assert budget(config, tp_size=8, dp_size=4, dp_attention=True)["bytes_per_token"] == 327680 / 2
    assert budget(config, tp_size=8, dp_attention=4)["bytes_per_token"] == 327680 / 2
    assert budget(config, tp_size=8, dp_size=4)["bytes_per_token"] == 40960


def test_a_pipeline_costs_what_its_fullest_stage_does() -> None:
    config = kv_models.stored("Qwen/Qwen3.5-397B-A17B")
    two = budget(config, tp_size=8, pp_size=4)  # 15 layers each: 3, 4, 4 and 4 with attention
    assert two["bytes_per_token"] == 4 * 1024
    assert two["state_bytes_per_slot"] == 24007680 // 45 * 12


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"disable_radix_cache": True}, 1),
        ({"strategy": "no_buffer"}, 3),
        ({"strategy": "extra_buffer"}, 5),
        ({"strategy": "extra_buffer", "disable_overlap_schedule": True}, 4),
        ({"strategy": "extra_buffer_lazy"}, 4),
    ],
)
def test_state_slots_of_a_request(settings: dict[str, t.Any], slots: int) -> None:
    memory = Memory(before_load=139.13, after_load=137.42, fraction=0.5)
    result = budget(kv_models.CAPTURED, engine_version="0.5.12.post1", memory=memory, states=StateSettings(**settings))
    assert result["slots_per_request"] == slots
    assert result["requests"][0]["by_slots"] == 179 // slots


def test_concurrency_is_the_smaller_of_the_two() -> None:
    memory = Memory(before_load=139.13, after_load=137.42, fraction=0.5)
    rows = budget(kv_models.CAPTURED, "fp8_e4m3", engine_version="0.5.12.post1", memory=memory, contexts=(1024, 262144))
    short, long = rows["requests"]
    assert short["concurrent"] == short["by_slots"] < short["by_tokens"]
    assert long["concurrent"] == long["by_tokens"] < long["by_slots"]
    assert any("limited by state slots" in note and "1024" in note for note in rows["notes"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kv_source_layer_ids", [0, 0, 1, 1]),
        ("qsa_config", {"compress_ratio": 4}),
        ("cross_layer_attention_every", 2),
        ("attention_window_schedule", [1, 2]),
        ("kv_sharing_groups", 4),
        ("num_memory_tokens", 128),
    ],
)
def test_a_field_that_nobody_knows_is_named(field: str, value: t.Any) -> None:
    config = {**kv_models.stored("meta-llama/Meta-Llama-3.1-70B"), field: value}
    result = budget(config)
    assert result["approximate"]
    assert any(field in note for note in result["notes"])
    # Switched off, it changes nothing.
    for off in (None, False, 0, []):
        assert not budget({**config, field: off})["approximate"]


def test_layer_types_that_nobody_knows_are_named() -> None:
    config = {**kv_models.stored("meta-llama/Meta-Llama-3.1-8B"), "layer_types": ["full_attention", "holographic"] * 16}
    result = budget(config)
    assert result["approximate"]
    assert any("holographic" in note for note in result["notes"])


def test_block_configurations() -> None:
    """DeciLM: blocks without attention or with a linear one keep nothing; KV heads come from the groups."""
    blocks = [
        {"attention": {"n_heads_in_group": 8}},
        {"attention": {"no_op": True}},
        {"attention": {"replace_with_linear": True}},
        {"attention": {"n_heads_in_group": 8}},
    ]
    config = {
        "architectures": ["DeciLMForCausalLM"],
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": None,
        "block_configs": blocks,
    }
    result = budget(config)
    assert result["bytes_per_token"] == 2 * 8 * (128 + 128) * 2
    assert not result["approximate"]


def test_gemma_3_has_one_pool_and_says_so() -> None:
    notes = budget(kv_models.GEMMA_3_27B)["notes"]
    assert any("52 of 62 layers have a window" in note and "whole context" in note for note in notes)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({}, "num_hidden_layers"),
        ({"num_hidden_layers": 4}, "num_attention_heads"),
        ({"num_hidden_layers": "four"}, "num_hidden_layers"),
        ({"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": [1]}, "hidden_size"),
        ({"num_hidden_layers": 4, "num_attention_heads": True, "hidden_size": 64}, "num_attention_heads"),
        ({"text_config": "none"}, "text_config"),
    ],
)
def test_values_that_make_no_sense_are_named(config: dict[str, t.Any], place: str) -> None:
    with pytest.raises(SglangError) as caught:
        budget(config)
    assert place in str(caught.value)


def test_options_that_make_no_sense_are_named() -> None:
    config = kv_models.CAPTURED
    for wrong in ({"tp_size": 0}, {"page_size": -1}, {"contexts": (0,)}):
        with pytest.raises(SglangError, match=next(iter(wrong))):
            budget(config, **wrong)
    with pytest.raises(SglangError, match="kv_cache_dtype"):
        budget(config, "int3")


def test_auto_is_what_the_version_makes_of_it() -> None:
    config = {
        **kv_models.stored("meta-llama/Meta-Llama-3.1-8B"),
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "FP8",
            "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": False},
        },
    }
    assert budget(config, "auto", engine_version="0.5.12.post1")["kv_cache_dtype"] == "fp8_e4m3"
    sparse = budget(kv_models.stored("deepseek-ai/DeepSeek-V3.2"), "auto")
    assert sparse["approximate"] and sparse["kv_cache_dtype"] == "bfloat16"


def test_the_formula_has_its_numbers_filled_in() -> None:
    result = budget(
        kv_models.CAPTURED,
        "fp8_e4m3",
        engine_version="0.5.12.post1",
        memory=Memory(before_load=139.13, after_load=137.42, fraction=0.5),
    )
    for figure in ("15 layers x 2 KV heads x (256 + 256) x 1 B = 15360 B", "192061440 B", "67.855 GiB", "= 179"):
        assert figure in result["formula"]


def test_nothing_fits_is_no_crash() -> None:
    result = budget(kv_models.CAPTURED, memory=Memory(before_load=139.13, after_load=137.05, fraction=0.005))
    assert result["tokens"] == 0
    assert any("Not enough memory" in note for note in result["notes"])


def test_without_memory_only_costs_are_given() -> None:
    result = budget(kv_models.CAPTURED)
    assert result["tokens"] is None and result["requests"][0]["concurrent"] is None
    assert tuple(row["context"] for row in result["requests"]) == _kv_budget.CONTEXTS

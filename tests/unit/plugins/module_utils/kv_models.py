# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations and figures that the tests of KV caches share, typed in from public facts.

CELLS: model -> (configuration, cell TP 1 BF16, cell TP 8 BF16, cell TP 8 FP8, state TP 1, state TP 8); bytes of one
token of max_total_num_tokens and of one request slot, per GPU, in SGLang.
"""

from __future__ import annotations

import json
import pathlib
import typing as t

FIXTURES = pathlib.Path(__file__).parent / "fixtures" / "kv"
CHECKPOINTS: dict[str, t.Any] = json.loads((FIXTURES / "checkpoints.json").read_text())


def stored(name: str) -> dict[str, t.Any]:
    """The configuration of one of the public checkpoints."""
    return dict(CHECKPOINTS[name]["config"])


# The model of the captures: Qwen3-Next's classes with the attention geometry of Qwen3.5-397B-A17B.
CAPTURED = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 60,
    "full_attention_interval": 4,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_value_heads": 64,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 262144,
}
MINIMAX_M3 = {
    "architectures": ["MiniMaxM3ForCausalLM"],
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "hidden_size": 6144,
    "sparse_attention_config": {
        "sparse_attention_freq": [0, 0, 0] + [1] * 57,
        "sparse_index_dim": 128,
        "sparse_disable_index_value": [1] * 60,
    },
}
MISTRAL_SMALL = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 5120,
        "sliding_window": None,
    },
}
KIMI_LINEAR = {
    "architectures": ["KimiLinearForCausalLM"],
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "hidden_size": 2304,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [i for i in range(1, 28) if i not in (4, 8, 12, 16, 20, 24, 27)],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
}
KIMI_K3 = {
    "architectures": ["KimiK3ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 93,
        "num_attention_heads": 96,
        "hidden_size": 7168,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "linear_attn_config": {
            "full_attn_layers": [4 * i for i in range(1, 24)] + [93],
            "kda_layers": [],
            "num_heads": 96,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    },
}
QWEN3_NEXT = {
    **CAPTURED,
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "linear_num_value_heads": 32,
}
JAMBA = {
    "architectures": ["JambaForCausalLM"],
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 256,
}
GPT_OSS_120B = {
    "architectures": ["GptOssForCausalLM"],
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "hidden_size": 2880,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}
GEMMA_3_27B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "hidden_size": 5376,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
    },
}
LLAMA_4_SCOUT = {
    "architectures": ["Llama4ForConditionalGeneration"],
    "text_config": {
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 5120,
        "attention_chunk_size": 8192,
        "no_rope_layers": [0 if (i + 1) % 4 == 0 else 1 for i in range(48)],
    },
}
MIMO_V2_FLASH = {
    "architectures": ["MiMoV2FlashForCausalLM"],
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_num_key_value_heads": 8,
    "swa_head_dim": 192,
    "swa_v_head_dim": 128,
    "hidden_size": 4096,
    "sliding_window": 128,
    "attention_chunk_size": 128,
    "hybrid_layer_pattern": [0 if i in (0, 5, 11, 17, 23, 29, 35, 41, 47) else 1 for i in range(48)],
}
NEMOTRON_NANO_9B_V2 = {
    "architectures": ["NemotronHForCausalLM"],
    "num_hidden_layers": 56,
    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4480,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
}

CELLS: dict[str, tuple[dict[str, t.Any], float, float, float, int, int]] = {
    "Llama-3.1-8B": (stored("meta-llama/Meta-Llama-3.1-8B"), 131072, 16384, 8192, 0, 0),
    "Llama-3.1-70B": (stored("meta-llama/Meta-Llama-3.1-70B"), 327680, 40960, 20480, 0, 0),
    "Qwen3-0.6B": (stored("Qwen/Qwen3-0.6B"), 114688, 14336, 7168, 0, 0),
    "Qwen3-30B-A3B": (stored("Qwen/Qwen3-30B-A3B"), 98304, 24576, 12288, 0, 0),
    "Qwen3-235B-A22B": (stored("Qwen/Qwen3-235B-A22B"), 192512, 48128, 24064, 0, 0),
    "Qwen3-Coder-480B-A35B": (stored("Qwen/Qwen3-Coder-480B-A35B-Instruct"), 253952, 31744, 15872, 0, 0),
    "MiniMax-M2.7": (stored("MiniMaxAI/MiniMax-M2.7"), 253952, 31744, 15872, 0, 0),
    "MiniMax-M3": (MINIMAX_M3, 137472, 45312, 29952, 0, 0),
    "Mistral-Small-3.2-24B": (MISTRAL_SMALL, 163840, 20480, 10240, 0, 0),
    "DeepSeek-R1": (stored("deepseek-ai/DeepSeek-R1"), 70272, 70272, 35136, 0, 0),
    "DeepSeek-V3.2": (stored("deepseek-ai/DeepSeek-V3.2"), 78324, 78324, 48068, 0, 0),
    "GLM-5": (stored("zai-org/GLM-5"), 100152, 100152, 61464, 0, 0),
    "DeepSeek-V4-Flash": (stored("deepseek-ai/DeepSeek-V4-Flash"), 7705.45, 7705.45, 7705.45, 0, 0),
    "DeepSeek-V4-Pro": (stored("sgl-project/DeepSeek-V4-Pro-FP8"), 10993.8375, 10993.8375, 10993.8375, 0, 0),
    "Kimi-Linear-48B-A3B": (KIMI_LINEAR, 8064, 8064, 4032, 43417600, 5427200),
    "Qwen3-Next-80B-A3B": (QWEN3_NEXT, 24576, 12288, 6144, 77266944, 9658368),
    "Qwen3.5-27B": (stored("Qwen/Qwen3.5-27B"), 65536, 16384, 8192, 153944064, 19243008),
    "Qwen3.5-35B-A3B": (stored("Qwen/Qwen3.5-35B-A3B"), 20480, 10240, 5120, 64389120, 8048640),
    "Qwen3.5-397B-A17B": (stored("Qwen/Qwen3.5-397B-A17B"), 30720, 15360, 7680, 192061440, 24007680),
    "Nemotron-3-Nano": (stored("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"), 6144, 3072, 1536, 49082368, 6135296),
    "Nemotron-3-Ultra": (
        stored("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"),
        12288,
        6144,
        3072,
        407961600,
        50995200,
    ),
    "Nemotron-H-56B": (stored("nvidia/Nemotron-H-56B-Base-8K"), 40960, 5120, 2560, 912605184, 114075648),
    "Jamba-v0.1": (JAMBA, 16384, 2048, 1024, 16056320, 2007040),
    "gpt-oss-120b": (GPT_OSS_120B, 66355.2, 8294.4, 4147.2, 0, 0),
    "gemma-3-27b": (GEMMA_3_27B, 507904, 63488, 31744, 0, 0),
    "gemma-4-26B-A4B": (stored("google/gemma-4-26B-A4B"), 184320, 30720, 15360, 0, 0),
    "Llama-4-Scout": (LLAMA_4_SCOUT, 167116.8, 20889.6, 10444.8, 0, 0),
    "MiMo-V2-Flash": (MIMO_V2_FLASH, 182784, 25728, 12864, 0, 0),
}
# Tokens that fit in 60 GiB at TP 8 in BF16, for those of the models above where the figure is public.
TOKENS_60_GIB = {
    "Llama-3.1-8B": 3932160,
    "Qwen3-0.6B": 4493897,
    "DeepSeek-R1": 916787,
    "DeepSeek-V3.2": 822538,
    "DeepSeek-V4-Flash": 8360901,
    "Kimi-Linear-48B-A3B": 7989150,
    "Qwen3.5-397B-A17B": 4194304,
    "gpt-oss-120b": 7767229,
    "Llama-4-Scout": 3084047,
    "MiMo-V2-Flash": 2504062,
}

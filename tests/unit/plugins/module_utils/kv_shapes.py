# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of quantization metadata seen in the wild, written again, with what SGLang 0.5.23 makes of each.

SHAPES: name -> (files, weight algorithm, KV algorithm, auto). A file that is not named config.json stands beside a
minimal one. None for auto is a shape that no engine reads alone.
"""

from __future__ import annotations

import json
import pathlib
import typing as t

MINIMAL = {"architectures": ["ExampleForCausalLM"], "model_type": "example", "torch_dtype": "bfloat16"}
FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}
FLOAT4 = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
HF, CFG, OLD = "hf_quant_config.json", "config.json", "quant_cfg.json"


def nested(algo: str | None, kv: str | None = None, version: str = "0.33.0", **more: t.Any) -> dict[str, t.Any]:
    """ModelOpt's separate file."""
    section: dict[str, t.Any] = {"quant_algo": algo, "kv_cache_quant_algo": kv, "exclude_modules": ["lm_head"], **more}
    return {HF: {"producer": {"name": "modelopt", "version": version}, "quantization": section}}


def flat(algo: str, **more: t.Any) -> dict[str, t.Any]:
    """ModelOpt's section as it stands in config.json."""
    return {
        "config_groups": {"group_0": {"input_activations": FLOAT4, "weights": FLOAT4, "targets": ["Linear"]}},
        "ignore": ["lm_head"],
        "quant_algo": algo,
        "producer": {"name": "modelopt", "version": "0.37.0"},
        "quant_method": "modelopt",
        **more,
    }


def inline(section: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    """config.json with a section."""
    return {CFG: {**MINIMAL, "quantization_config": section, **more}}


AWQ = {"has_zero_point": False, "pre_quant_scale": True}
MIXED_LAYERS = {
    "model.language_model.layers.0.linear_attn.in_proj_qkv": {"quant_algo": "FP8"},
    "model.language_model.layers.0.mlp.down_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
}
M3_LAYERS = {
    "model.layers.0.self_attn.q_proj": {"quant_algo": "MXFP8"},
    "model.layers.3.block_sparse_moe.experts.0.w1": {"quant_algo": "NVFP4", "group_size": 16},
}
MIXED_FILE = nested("MIXED_PRECISION", "FP8", "0.45.0", quantized_layers=MIXED_LAYERS)
CT_GROUP = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}
CT_KV = {"num_bits": 8, "type": "float", "strategy": "attn_head", "symmetric": True, "dynamic": False}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, "dynamic": False}

FP8, DTYPE, NOT_READ, RAISES = "fp8_e4m3", "bfloat16", "unrecognised", "refused"
SHAPES: dict[str, tuple[dict[str, t.Any], str | None, str, str | None]] = {
    "01 NVFP4, KV FP8": (nested("NVFP4", "FP8", group_size=16), "NVFP4", "fp8", FP8),
    "02 NVFP4, KV null": (nested("NVFP4", None, "0.23.0", group_size=16), "NVFP4", "none", DTYPE),
    "04 NVFP4, KV NVFP4": (nested("NVFP4", "NVFP4", group_size=16), "NVFP4", "nvfp4", DTYPE),
    "05 NVFP4, KV affine": (nested("NVFP4", "NVFP4_AFFINE", group_size=16), "NVFP4", "nvfp4_affine", DTYPE),
    "07 FP8 of 0.17": (
        {HF: {"producer": {"name": "modelopt", "version": "0.17.0"}, "quantization": {"quant_algo": "FP8"}}},
        "FP8",
        "none",
        DTYPE,
    ),
    "08 FP8, KV INT8": (nested("FP8", "INT8"), "FP8", "int8", DTYPE),
    "10 FP8 per channel": (nested("FP8_PER_CHANNEL_PER_TOKEN"), "FP8_PER_CHANNEL_PER_TOKEN", "none", NOT_READ),
    "11 lower case": (nested("fp8_pb_wo"), "FP8_PB_WO", "none", NOT_READ),
    "13 AWQ": (nested("W4A16_AWQ", group_size=128, **AWQ), "W4A16_AWQ", "none", NOT_READ),
    "14 AWQ, group 0": (nested("W4A16_AWQ", group_size=0, **AWQ), "W4A16_AWQ", "none", NOT_READ),
    "16 NVFP4 AWQ": (nested("NVFP4_AWQ", "FP8", group_size=16, **AWQ), "NVFP4_AWQ", "fp8", FP8),
    "17 W4A16 NVFP4": (nested("W4A16_NVFP4", "FP8", group_size=16), "W4A16_NVFP4", "fp8", FP8),
    "19 W4A8 MXFP4 FP8": (nested("W4A8_MXFP4_FP8", group_size=32), "W4A8_MXFP4_FP8", "none", RAISES),
    "20 MXFP8": (nested("MXFP8", group_size=32), "MXFP8", "none", DTYPE),
    "22 NVFP4 SVD": (nested("NVFP4_SVD", group_size=16, lora_rank=32, **AWQ), "NVFP4_SVD", "none", RAISES),
    "23 SmoothQuant": (nested("W8A8_SQ_PER_CHANNEL", "INT8"), "W8A8_SQ_PER_CHANNEL", "int8", NOT_READ),
    "25 layer map of 0.19": (
        {
            OLD: {
                "quant_algo": "MIXED_PRECISION",
                "kv_cache_quant_algo": "FP8",
                "quantized_layers": {
                    "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                    "model.layers.0.mlp.down_proj": {"quant_algo": "W4A8_AWQ", "group_size": 128, **AWQ},
                },
            }
        },
        "MIXED_PRECISION",
        "fp8",
        None,
    ),
    "26 mixed in one file": (MIXED_FILE, "MIXED_PRECISION", "fp8", FP8),
    "28 mixed without NVFP4": (
        nested("MIXED_PRECISION", quantized_layers={"model.layers.3.mlp.up_proj": {"quant_algo": "W4A8_AWQ"}}),
        "MIXED_PRECISION",
        "none",
        DTYPE,
    ),
    "29 MiniMax-M3": (
        {
            HF: {
                **nested("MIXED_PRECISION", version="minimax-m3-mxfp8-nvfp4-mixed", quantized_layers=M3_LAYERS)[HF],
                "quant_method": "modelopt",
            }
        },
        "MIXED_PRECISION",
        "none",
        DTYPE,
    ),
    "31 a version that sorts below 0.17": (
        nested("NVFP4", "FP8", "0.0.1.dev294+g0a4f0a8b9.d20251202", group_size=16),
        "NVFP4",
        "fp8",
        FP8,
    ),
    "32 KV alone": (nested(None, "FP8", "0.48.0rc1"), None, "fp8", NOT_READ),
    "34 flat file": ({HF: flat("NVFP4", kv_cache_scheme=FLOAT8)}, "NVFP4", "fp8", FP8),
    "40 flat, KV FP8": (inline(flat("NVFP4", kv_cache_scheme=FLOAT8)), "NVFP4", "fp8", FP8),
    "42 flat, KV left out": (inline(flat("NVFP4")), "NVFP4", "none", DTYPE),
    "43 flat, KV a string": (inline(flat("NVFP4", kv_cache_scheme="NVFP4")), "NVFP4", "nvfp4", DTYPE),
    "45 the files disagree": (
        {**inline(flat("MIXED_PRECISION", quantized_layers=dict(list(MIXED_LAYERS.items())[1:]))), **MIXED_FILE},
        "MIXED_PRECISION",
        "fp8",
        FP8,
    ),
    "46 exclude_modules in config.json": (
        inline(
            {
                "quant_algo": "MIXED_PRECISION",
                "kv_cache_quant_algo": None,
                "exclude_modules": ["lm_head"],
                "quantized_layers": M3_LAYERS,
                "quant_method": "modelopt",
            }
        ),
        "MIXED_PRECISION",
        "none",
        DTYPE,
    ),
    "48 DeepSeek-V4's section": (
        inline(
            {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "weight_block_size": [128, 128],
                "quant_algo": "MIXED_PRECISION",
                "moe_quant_algo": "NVFP4",
                "kv_cache_quant_algo": None,
                "group_size": 16,
                "ignore": ["*.attn.*"],
                "quantized_layers": {"layers.0.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}},
            }
        ),
        "MIXED_PRECISION",
        "none",
        DTYPE,
    ),
    "49 compressed-tensors in text_config": (
        {
            CFG: {
                **MINIMAL,
                "architectures": ["KimiK25ForConditionalGeneration"],
                "text_config": {
                    "num_hidden_layers": 61,
                    "quantization_config": {
                        "quant_method": "compressed-tensors",
                        "format": "pack-quantized",
                        "kv_cache_scheme": None,
                        "ignore": ["lm_head", "re:.*self_attn.*"],
                        "config_groups": {"group_0": {"targets": ["Linear"], "weights": INT4}},
                    },
                },
            }
        },
        "INT4",
        "none",
        DTYPE,
    ),
    "51 compressed-tensors, KV per head": (
        inline(
            {
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "kv_cache_scheme": CT_KV,
                "config_groups": CT_GROUP,
            }
        ),
        "FP8",
        "fp8",
        DTYPE,
    ),
    "52 compression_config": (
        {
            CFG: {
                **MINIMAL,
                "compression_config": {"quant_method": "compressed-tensors", "config_groups": CT_GROUP},
            }
        },
        "FP8",
        "none",
        DTYPE,
    ),
    "54 MXFP4": (inline({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}), "MXFP4", "none", DTYPE),
}


def write(folder: pathlib.Path, files: dict[str, t.Any]) -> str:
    """Write files of a checkpoint, with a minimal config.json where none is given."""
    folder.mkdir(exist_ok=True)
    for name, content in {CFG: MINIMAL, **files}.items():
        (folder / name).write_text(json.dumps(content))
    return str(folder)

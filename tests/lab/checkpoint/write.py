"""Write the lab's checkpoint: geometry and quantization metadata of nvidia/Qwen3.5-397B-A17B-NVFP4, tiny tensors.

    python3 tests/lab/checkpoint/write.py /models/Qwen3.5-397B-A17B-NVFP4
    python3 tests/lab/checkpoint/write.py DIR --kv-scales unit
    python3 tests/lab/checkpoint/write.py DIR --kv-algo none        # nothing declared: auto stays BF16
    python3 tests/lab/checkpoint/write.py DIR --damage truncated-shard

Names, types and the split into shards follow the real checkpoint; every tensor is a few bytes long and only some of the
512 experts are there. Index and headers agree, so that a check of names and lengths passes. It declares FP8 for the KV
cache and carries no KV scales, like the original.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAYERS = 60
INTERVAL = 4  # every fourth layer has full attention, the others gated delta nets
PREFIX = "model.language_model"
SCALES = ("absent", "unit", "calibrated")
DAMAGES = ("none", "truncated-shard", "missing-shard", "lying-header", "no-config", "broken-config", "broken-quant")

# dtype -> (bytes per element, one element that is a sane value)
TYPES = {
    "BF16": (2, b"\x80\x3f"),  # 1.0
    "F32": (4, struct.pack("<f", 1.0)),
    "F8_E4M3": (1, b"\x38"),  # 1.0
    "U8": (1, b"\x22"),  # two NVFP4 elements
}


def is_full_attention(layer: int) -> bool:
    """Whether a layer keeps keys and values."""
    return (layer + 1) % INTERVAL == 0


def text_config() -> dict[str, Any]:
    """The language model's part of config.json."""
    return {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "bos_token_id": None,
        "dtype": "bfloat16",
        "eos_token_id": 248044,
        "full_attention_interval": INTERVAL,
        "head_dim": 256,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "initializer_range": 0.02,
        "layer_types": ["full_attention" if is_full_attention(n) else "linear_attention" for n in range(LAYERS)],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "linear_value_head_dim": 128,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
        "mlp_only_layers": [],
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": 1024,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": 32,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 2,
        "output_router_logits": False,
        "pad_token_id": None,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000,
            "rope_type": "default",
        },
        "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": 1024,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": 248320,
    }


def excluded_modules() -> list[str]:
    """Modules left in BF16: attention of both kinds, shared experts, vision, the draft layer, the head."""
    names = []
    for layer in range(LAYERS):
        attention = "self_attn*" if is_full_attention(layer) else "linear_attn*"
        where = f"{PREFIX}.layers.{layer}"
        names += [f"{where}.{attention}", f"{where}.mlp.shared_expert*", f"{where}.mlp.shared_expert_gate"]
    return ["lm_head", "*.mlp.shared_expert.*", *sorted(names), "model.visual*", "mtp.layers.0*"]


def producer() -> dict[str, str]:
    """Who exported it: a development build, as on the original."""
    return {"name": "modelopt", "version": "0.0.1.dev538+g26cad678d"}


def quantization_config(weights: str, kv_algo: str) -> dict[str, Any]:
    """The flat form in config.json."""
    bits = {"NVFP4": {"num_bits": 4, "type": "float", "group_size": 16}, "FP8": {"num_bits": 8, "type": "float"}}[
        weights
    ]
    group = {
        "input_activations": {"dynamic": False, **bits},
        "weights": {"dynamic": False, **bits},
        "targets": ["Linear"],
    }
    config: dict[str, Any] = {"config_groups": {"group_0": group}, "ignore": excluded_modules(), "quant_algo": weights}
    if kv_algo == "FP8":
        config["kv_cache_scheme"] = {"dynamic": False, "num_bits": 8, "type": "float"}
    return {**config, "producer": producer(), "quant_method": "modelopt"}


def hf_quant_config(weights: str, kv_algo: str) -> dict[str, Any]:
    """The nested form in hf_quant_config.json."""
    quantization = {"quant_algo": weights, "kv_cache_quant_algo": None if kv_algo == "none" else kv_algo}
    if weights == "NVFP4":
        quantization["group_size"] = 16  # type: ignore[assignment]
    return {"producer": producer(), "quantization": {**quantization, "exclude_modules": excluded_modules()}}


def config(weights: str, kv_algo: str) -> dict[str, Any]:
    """config.json."""
    whole: dict[str, Any] = {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "dtype": "bfloat16",
        "image_token_id": 248056,
        "model_type": "qwen3_5_moe",
        "text_config": text_config(),
        "tie_word_embeddings": False,
        "transformers_version": "5.3.0",
        "video_token_id": 248057,
        "vision_config": {
            "deepstack_visual_indexes": [],
            "depth": 27,
            "dtype": "bfloat16",
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 1152,
            "in_channels": 3,
            "initializer_range": 0.02,
            "intermediate_size": 4304,
            "model_type": "qwen3_5_moe",
            "num_heads": 16,
            "num_position_embeddings": 2304,
            "out_hidden_size": 4096,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": 248054,
        "vision_start_token_id": 248053,
    }
    if weights != "BF16":
        whole["quantization_config"] = quantization_config(weights, kv_algo)
    return whole


Tensor = tuple[str, str, list[int], bytes]


def _tensor(name: str, dtype: str, *shape: int) -> Tensor:
    count = 1
    for extent in shape:
        count *= extent
    return name, dtype, list(shape), TYPES[dtype][1] * count


def _linear(name: str, weights: str) -> Iterator[Tensor]:
    if weights == "NVFP4":
        yield _tensor(f"{name}.input_scale", "F32")
        yield _tensor(f"{name}.weight", "U8", 2, 8)
        yield _tensor(f"{name}.weight_scale", "F8_E4M3", 2, 1)
        yield _tensor(f"{name}.weight_scale_2", "F32")
    elif weights == "FP8":
        yield _tensor(f"{name}.input_scale", "F32")
        yield _tensor(f"{name}.weight", "F8_E4M3", 2, 8)
        yield _tensor(f"{name}.weight_scale", "F32")
    else:
        yield _tensor(f"{name}.weight", "BF16", 2, 8)


def _layer(layer: int, weights: str, experts: int, scales: str) -> Iterator[Tensor]:
    where = f"{PREFIX}.layers.{layer}"
    if is_full_attention(layer):
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield _tensor(f"{where}.self_attn.{name}.weight", "BF16", 2, 8)
        for name in ("q_norm", "k_norm"):
            yield _tensor(f"{where}.self_attn.{name}.weight", "BF16", 8)
        if scales != "absent":
            for kind in ("k", "v"):
                value = 1.0 if scales == "unit" else 0.01 + layer / 1000 + (0.002 if kind == "v" else 0)
                yield f"{where}.self_attn.{kind}_proj.{kind}_scale", "F32", [], struct.pack("<f", value)
    else:
        yield _tensor(f"{where}.linear_attn.A_log", "F32", 8)
        yield _tensor(f"{where}.linear_attn.conv1d.weight", "BF16", 2, 1, 4)
        yield _tensor(f"{where}.linear_attn.dt_bias", "BF16", 8)
        for name in ("in_proj_a", "in_proj_b", "in_proj_qkv", "in_proj_z", "out_proj"):
            yield _tensor(f"{where}.linear_attn.{name}.weight", "BF16", 2, 8)
        yield _tensor(f"{where}.linear_attn.norm.weight", "F32", 8)
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield _tensor(f"{where}.{name}.weight", "BF16", 8)
    yield _tensor(f"{where}.mlp.gate.weight", "BF16", 2, 8)
    for expert in range(experts):
        for name in ("down_proj", "gate_proj", "up_proj"):
            yield from _linear(f"{where}.mlp.experts.{expert}.{name}", weights)
    for name in ("down_proj", "gate_proj", "up_proj"):
        yield _tensor(f"{where}.mlp.shared_expert.{name}.weight", "BF16", 2, 8)
    yield _tensor(f"{where}.mlp.shared_expert_gate.weight", "BF16", 1, 8)


def tensors(weights: str, experts: int, scales: str) -> Iterator[Tensor]:
    """Yield (name, dtype, shape, bytes) of the whole checkpoint in the order of the layers."""
    yield _tensor(f"{PREFIX}.embed_tokens.weight", "BF16", 2, 8)
    for layer in range(LAYERS):
        yield from _layer(layer, weights, experts, scales)
    yield _tensor(f"{PREFIX}.norm.weight", "BF16", 8)
    for block in range(27):
        for name in ("attn.proj", "attn.qkv", "mlp.linear_fc1", "mlp.linear_fc2", "norm1", "norm2"):
            yield _tensor(f"model.visual.blocks.{block}.{name}.weight", "BF16", 2, 8)
    for name in ("merger.linear_fc1", "merger.linear_fc2", "patch_embed.proj", "pos_embed"):
        yield _tensor(f"model.visual.{name}.weight", "BF16", 2, 8)
    for name in ("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "layers.0.self_attn.k_proj"):
        yield _tensor(f"mtp.{name}.weight", "BF16", 2, 8)
    yield _tensor("lm_head.weight", "BF16", 2, 8)


def write_shard(path: Path, content: list[Tensor]) -> int:
    """Write one safetensors file and return the bytes of its tensors; the header is padded to 8 bytes as usual."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, dtype, shape, data in content:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as handle:
        handle.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, data in content:
            handle.write(data)
    return offset


def write_weights(folder: Path, weights: str, experts: int, scales: str, shards: int) -> None:
    """Write the shards, each about as long as the others, and the index."""
    whole = list(tensors(weights, experts, scales))
    per_shard = -(-len(whole) // shards)
    weight_map: dict[str, str] = {}
    total = 0
    for number in range(shards):
        content = whole[number * per_shard : (number + 1) * per_shard]
        name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        total += write_shard(folder / name, content)
        weight_map.update({tensor[0]: name for tensor in content})
    _write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": weight_map},
    )


def write_tokenizer(folder: Path) -> None:
    """The smallest tokenizer files that are valid: bytes as tokens, and a chat template."""
    marks = {"<|endoftext|>": 248044, "<|im_start|>": 248045, "<|im_end|>": 248046}
    added = [
        {
            "id": number,
            "content": mark,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for mark, number in marks.items()
    ]
    vocabulary = {chr(code): code - 33 for code in range(33, 127)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    template = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    settings = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "model_max_length": 262144}
    _write_json(folder / "tokenizer.json", tokenizer)
    _write_json(folder / "tokenizer_config.json", {**settings, "chat_template": template})
    _write_json(
        folder / "generation_config.json",
        {"do_sample": True, "eos_token_id": [248046, 248044], "temperature": 0.6, "top_k": 20, "top_p": 0.95},
    )


def _write_json(path: Path, content: Any) -> None:
    with path.open("w", encoding="utf-8") as handle:
        json.dump(content, handle, indent=4)
        handle.write("\n")


def damage(folder: Path, kind: str) -> None:
    """Break a written checkpoint in one way."""
    last = max(folder.glob("*.safetensors"))
    if kind == "truncated-shard":
        os.truncate(last, last.stat().st_size - 64)
    elif kind == "missing-shard":
        last.unlink()
    elif kind == "lying-header":
        with last.open("r+b") as handle:
            handle.write(struct.pack("<Q", 1 << 40))
    elif kind == "no-config":
        (folder / "config.json").unlink()
    elif kind in ("broken-config", "broken-quant"):
        path = folder / ("config.json" if kind == "broken-config" else "hf_quant_config.json")
        os.truncate(path, path.stat().st_size // 2)


def write(
    folder: Path,
    *,
    weights: str = "NVFP4",
    kv_algo: str = "FP8",
    kv_scales: str = "absent",
    shards: int = 11,
    experts: int = 2,
    damaged: str = "none",
) -> None:
    """Write the checkpoint into `folder`, which appears complete or not at all; an existing one is replaced."""
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    _write_json(part / "config.json", config(weights, kv_algo))
    if weights != "BF16":
        _write_json(part / "hf_quant_config.json", hf_quant_config(weights, kv_algo))
    write_weights(part, weights, experts, kv_scales, shards)
    write_tokenizer(part)
    damage(part, damaged)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def main() -> int:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description="Write the lab's checkpoint.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", choices=("NVFP4", "FP8", "BF16"), default="NVFP4")
    parser.add_argument("--kv-algo", choices=("FP8", "none"), default="FP8", help="what the checkpoint declares")
    parser.add_argument("--kv-scales", choices=SCALES, default="absent")
    parser.add_argument("--shards", type=int, default=11)
    parser.add_argument("--experts", type=int, default=2, help="of the 512 experts per layer, how many have tensors")
    parser.add_argument("--damage", choices=DAMAGES, default="none")
    args = parser.parse_args()
    write(
        args.folder,
        weights=args.weights,
        kv_algo=args.kv_algo,
        kv_scales=args.kv_scales,
        shards=args.shards,
        experts=args.experts,
        damaged=args.damage,
    )
    print(args.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

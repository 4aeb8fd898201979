#!/usr/bin/env python3
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write small FP8 checkpoints that a real engine serves, with the attention geometry of Qwen3.5-397B-A17B.

usage: checkpoints.py FOLDER

A server on dummy weights answers with one token for ever, since its embedding and its head are the same numbers; the
gate calls that a loop, and rightly. So these checkpoints hold weights that compute something known: the head's row of
token n+1 is the embedding of token n along one cycle through the vocabulary, so that every answer walks that cycle and
reads as a row of different words. All layers take part with small random weights (their sum is about a third of the
residual), so that a wrong attention or MoE kernel shows in the log-probabilities.

fp8      weights in FP8 (modelopt), whose hf_quant_config.json asks for an FP8 KV cache
nan      the same weights; rms_norm_eps is NaN, so every layer yields NaN
broken   the same weights; hf_quant_config.json ends in the middle

Needs torch, safetensors and tokenizers; 1.9 GB of disk.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
import typing as t

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = 2000
CONFIG: dict[str, t.Any] = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "hidden_size": 512,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 64,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "intermediate_size": 512,
    "norm_topk_prob": True,
    "mlp_only_layers": [],
    "decoder_sparse_step": 1,
    "vocab_size": 2048,
    "hidden_act": "silu",
    "max_position_embeddings": 262144,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000000,
    "partial_rotary_factor": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": None,
    "eos_token_id": WORDS,
    "attention_bias": False,
}
QUANTIZATION: dict[str, t.Any] = {
    "producer": {"name": "modelopt", "version": "0.41.0"},
    "quantization": {
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head", "*linear_attn*", "*shared_expert_gate*", "*mlp.gate", "*embed_tokens*"],
    },
}
# Size of what a layer adds to the residual, whose own size is 1; 120 of them add up to about a third.
SHARE = 0.06
# Sharpness of the head: the next word of the cycle gets a probability of about 0.9.
SHARPNESS = 0.02
FP8_MAX = 448.0


class Weights:
    """Tensors by name, as the engine's loader of Qwen3-Next asks for them. Seeded, so every run writes the same."""

    def __init__(self, config: dict[str, t.Any]) -> None:
        self.config = config
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.random = torch.Generator(device=self.device).manual_seed(20)
        self.tensors: dict[str, torch.Tensor] = {}

    def normal(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Normal numbers, float32."""
        return torch.randn(*shape, generator=self.random, device=self.device) * scale

    def put(self, name: str, tensor: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
        """Keep a tensor that is not quantized."""
        self.tensors[name] = tensor.to(dtype).cpu().contiguous()

    def put_fp8(self, name: str, rows: int, columns: int, size: float = 1.0) -> None:
        """Keep a linear layer in FP8 with one scale for its weight and one for its input (which is about 1)."""
        weight = self.normal(rows, columns, scale=size / math.sqrt(columns))
        scale = float(weight.abs().max()) / FP8_MAX
        self.tensors[f"{name}.weight"] = (weight / scale).to(torch.float8_e4m3fn).cpu().contiguous()
        self.put(f"{name}.weight_scale", torch.tensor(scale), torch.float32)
        self.put(f"{name}.input_scale", torch.tensor(8.0 / FP8_MAX), torch.float32)

    def attention(self, layer: str) -> None:
        """A layer with full attention; its query projection also holds the output gate."""
        hidden, dim = self.config["hidden_size"], self.config["head_dim"]
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.put_fp8(f"{layer}.self_attn.q_proj", heads * dim * 2, hidden)
        self.put_fp8(f"{layer}.self_attn.k_proj", kv_heads * dim, hidden)
        self.put_fp8(f"{layer}.self_attn.v_proj", kv_heads * dim, hidden)
        self.put_fp8(f"{layer}.self_attn.o_proj", hidden, heads * dim, SHARE)
        for name in ("q_norm", "k_norm"):
            self.put(f"{layer}.self_attn.{name}.weight", torch.zeros(dim))

    def linear_attention(self, layer: str) -> None:
        """A layer with gated delta net."""
        config = self.config
        hidden, keys = config["hidden_size"], config["linear_num_key_heads"] * config["linear_key_head_dim"]
        value_heads = config["linear_num_value_heads"]
        values = value_heads * config["linear_value_head_dim"]
        name = f"{layer}.linear_attn"
        self.put(f"{name}.in_proj_qkvz.weight", self.normal(2 * keys + 2 * values, hidden, scale=hidden**-0.5))
        self.put(f"{name}.in_proj_ba.weight", self.normal(2 * value_heads, hidden, scale=hidden**-0.5))
        self.put(
            f"{name}.conv1d.weight", self.normal(2 * keys + values, 1, config["linear_conv_kernel_dim"], scale=0.5)
        )
        self.put(f"{name}.out_proj.weight", self.normal(hidden, values, scale=SHARE * values**-0.5))
        self.put(f"{name}.norm.weight", torch.ones(config["linear_value_head_dim"]))
        self.put(f"{name}.dt_bias", torch.ones(value_heads))
        self.put(f"{name}.A_log", torch.linspace(0.0, 2.7, value_heads), torch.float32)

    def experts(self, layer: str) -> None:
        """Router, experts and the shared expert."""
        hidden, width = self.config["hidden_size"], self.config["moe_intermediate_size"]
        names = [f"{layer}.mlp.experts.{number}" for number in range(self.config["num_experts"])]
        for name in [*names, f"{layer}.mlp.shared_expert"]:
            self.put_fp8(f"{name}.gate_proj", width, hidden)
            self.put_fp8(f"{name}.up_proj", width, hidden)
            self.put_fp8(f"{name}.down_proj", hidden, width, SHARE)
        self.put(f"{layer}.mlp.gate.weight", self.normal(len(names), hidden, scale=hidden**-0.5))
        self.put(f"{layer}.mlp.shared_expert_gate.weight", self.normal(1, hidden, scale=hidden**-0.5))

    def all(self) -> dict[str, torch.Tensor]:
        """Every tensor of the model."""
        vocabulary, hidden = self.config["vocab_size"], self.config["hidden_size"]
        embedding = self.normal(vocabulary, hidden)
        cycle = torch.randperm(WORDS, generator=self.random, device=self.device)
        head = torch.zeros(vocabulary, hidden, device=self.device)
        head[cycle.roll(-1)] = embedding[cycle] * SHARPNESS
        self.put("model.embed_tokens.weight", embedding)
        self.put("lm_head.weight", head)
        self.put("model.norm.weight", torch.zeros(hidden))
        for number in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{number}"
            full = (number + 1) % self.config["full_attention_interval"] == 0
            (self.attention if full else self.linear_attention)(layer)
            self.experts(layer)
            self.put(f"{layer}.input_layernorm.weight", torch.zeros(hidden))
            self.put(f"{layer}.post_attention_layernorm.weight", torch.zeros(hidden))
        return self.tensors


def tokenizer() -> Tokenizer:
    """A byte-level tokenizer whose every token is readable text: no answer can hold half a character."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
    text = [f" {one}{two}" for one in syllables for two in syllables] + ["The capital of France is Paris."] * 9
    # Printable ASCII, and the two signs that stand for blank and newline in the byte-level alphabet.
    alphabet = [chr(code) for code in range(33, 127)] + ["\u0120", "\u010a"]
    made.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=WORDS, initial_alphabet=alphabet, limit_alphabet=len(alphabet))
    )
    if made.get_vocab_size() != WORDS:
        raise SystemExit(f"the tokenizer has {made.get_vocab_size()} words, {WORDS} are needed")
    made.add_special_tokens(["<|im_end|>"])
    return made


def write(folder: pathlib.Path, config: dict[str, t.Any], quantization: str, weights: pathlib.Path | None) -> None:
    """Write one checkpoint; ``weights`` of another one are linked."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "hf_quant_config.json").write_text(quantization, encoding="utf-8")
    tokenizer().save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "model_max_length": config["max_position_embeddings"],
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    target = folder / "model.safetensors"
    if weights is None:
        save_file(Weights(config).all(), target, metadata={"format": "pt"})
    elif not target.exists():
        target.symlink_to(weights)


def main() -> None:
    """Write the three checkpoints under the folder given."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    root = pathlib.Path(sys.argv[1]).resolve()
    whole = json.dumps(QUANTIZATION, indent=1)
    write(root / "fp8", CONFIG, whole, None)
    weights = root / "fp8" / "model.safetensors"
    write(root / "nan", {**CONFIG, "rms_norm_eps": math.nan}, whole, weights)
    write(root / "broken", CONFIG, whole[: len(whole) // 2], weights)


if __name__ == "__main__":
    main()

"""What the engine takes from a checkpoint folder: geometry, quantization, KV cache algorithm, context length, shards.

Read as SGLang 0.5.12.post1 does: if config.json carries a quantization_config, hf_quant_config.json is not opened.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang._standin.errors import SafetensorError


@dataclass(frozen=True)
class Geometry:
    """What memory depends on; layers with linear attention keep a state per request, not keys and values per token."""

    layers: int
    full_attention_layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    conv_kernel: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    ssm_bytes: int
    context: int
    vocab: int
    weight_bytes: int

    @property
    def linear_layers(self) -> int:
        """Layers that keep a state per request."""
        return self.layers - self.full_attention_layers

    def kv_bytes_per_token(self, tp_size: int, element_bytes: float) -> int:
        """Bytes of K and V for one token on one GPU: full layers x local KV heads x 2 head_dim x element size."""
        heads = max(1, self.kv_heads // tp_size)
        return int(self.full_attention_layers * heads * 2 * self.head_dim * element_bytes)

    def conv_bytes_per_slot(self, tp_size: int) -> int:
        """Bytes of convolution state (BF16) for one request slot on one GPU."""
        width = (2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim) // tp_size
        return self.linear_layers * (self.conv_kernel - 1) * width * 2

    def ssm_bytes_per_slot(self, tp_size: int) -> int:
        """Bytes of recurrent state for one request slot on one GPU."""
        return self.linear_layers * self.value_heads // tp_size * self.value_dim * self.key_dim * self.ssm_bytes


class Checkpoint:
    """config.json, and hf_quant_config.json where the engine reads it."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        with (self.path / "config.json").open(encoding="utf-8") as handle:
            self.config: dict[str, Any] = json.load(handle)
        self.text: dict[str, Any] = {**self.config, **self.config.get("text_config", {})}
        self.quant: dict[str, Any] = {}
        inline = self.config.get("quantization_config")
        if isinstance(inline, dict):
            self.quant = inline
        elif (self.path / "hf_quant_config.json").exists():
            with (self.path / "hf_quant_config.json").open(encoding="utf-8") as handle:
                self.quant = json.load(handle).get("quantization", {})

    @property
    def architecture(self) -> str:
        """The first architecture of config.json."""
        return str((self.config.get("architectures") or ["LlamaForCausalLM"])[0])

    @property
    def is_multimodal(self) -> bool:
        """Whether the model looks at images (its warm-up is then a chat request)."""
        return "vision_config" in self.config

    @property
    def quant_algo(self) -> str | None:
        """Weight algorithm in upper case, or None for an unquantized checkpoint."""
        algo = self.quant.get("quant_algo")
        return str(algo).upper() if algo else None

    @property
    def quant_method(self) -> str | None:
        """What --quantization becomes: modelopt_fp4, modelopt_fp8, another method's name, or None."""
        algo = self.quant_algo
        if algo is None:
            return self.quant.get("quant_method")
        if algo == "MIXED_PRECISION":
            return "w4afp8"
        return "modelopt_fp4" if "FP4" in algo else "modelopt_fp8"

    @property
    def kv_algo(self) -> str | None:
        """KV algorithm in upper case: a scheme of 8-bit floats is FP8, whatever else is named stays as it is."""
        scheme = self.quant.get("kv_cache_scheme")
        if isinstance(scheme, dict) and scheme.get("type") == "float" and scheme.get("num_bits") == 8:
            return "FP8"
        algo = scheme if isinstance(scheme, str) else self.quant.get("kv_cache_quant_algo")
        return str(algo).upper() if algo else None

    def geometry(self) -> Geometry:
        """Collect the numbers; layers have full attention by layer_types, else by the interval, else all of them."""
        text = self.text
        layers = int(text["num_hidden_layers"])
        heads = int(text["num_attention_heads"])
        interval = text.get("full_attention_interval")
        full = layers // int(interval) if interval else layers
        if text.get("layer_types"):
            full = sum(1 for kind in text["layer_types"] if kind == "full_attention")
        return Geometry(
            layers=layers,
            full_attention_layers=full,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or int(text["hidden_size"]) // heads),
            hidden=int(text["hidden_size"]),
            conv_kernel=int(text.get("linear_conv_kernel_dim", 1)),
            key_heads=int(text.get("linear_num_key_heads", 0)),
            key_dim=int(text.get("linear_key_head_dim", 0)),
            value_heads=int(text.get("linear_num_value_heads", 0)),
            value_dim=int(text.get("linear_value_head_dim", 0)),
            ssm_bytes=2 if text.get("mamba_ssm_dtype") == "bfloat16" else 4,
            context=int(text.get("max_position_embeddings", 32768)),
            vocab=int(text.get("vocab_size", 32000)),
            weight_bytes=self._weight_bytes(),
        )

    def _weight_bytes(self) -> int:
        """Bytes of all weights as the real checkpoint would have them: experts quantized, the rest BF16."""
        text = self.text
        hidden, layers = int(text["hidden_size"]), int(text["num_hidden_layers"])
        expert_bytes = {"NVFP4": 0.5625, "FP8": 1.0}.get(self.quant_algo or "", 2.0)
        experts = int(text.get("num_experts", 0))
        if experts:
            moe = layers * 3 * hidden * experts * int(text["moe_intermediate_size"]) * expert_bytes
            moe += layers * 3 * hidden * int(text.get("shared_expert_intermediate_size", 0)) * 2
        else:
            moe = layers * 3 * hidden * int(text.get("intermediate_size", 4 * hidden)) * expert_bytes
        attention = layers * 4 * hidden * hidden * 2
        return int(moe + attention + 2 * int(text.get("vocab_size", 32000)) * hidden * 2)

    def shards(self) -> list[Path]:
        """Return the paths of the safetensors shards, from the index if there is one."""
        index = self.path / "model.safetensors.index.json"
        if index.exists():
            with index.open(encoding="utf-8") as handle:
                names = sorted(set(json.load(handle)["weight_map"].values()))
        else:
            return sorted(self.path.glob("*.safetensors"))
        return [self.path / name for name in names]


def check_shard(path: Path) -> None:
    """Open a shard as the loader does; raise FileNotFoundError or SafetensorError if it cannot be loaded."""
    if not path.exists():
        raise FileNotFoundError(f"No such file or directory: {path}")
    size = path.stat().st_size
    with path.open("rb") as handle:
        first = handle.read(8)
        if len(first) < 8:
            raise SafetensorError("Error while deserializing header: header too small")
        length = struct.unpack("<Q", first)[0]
        if length > 100_000_000:
            raise SafetensorError("Error while deserializing header: header too large")
        if 8 + length > size:
            raise SafetensorError("Error while deserializing header: invalid header length")
        try:
            header = json.loads(handle.read(length))
        except ValueError as error:
            raise SafetensorError("Error while deserializing header: invalid header deserialization") from error
    end = max((tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"), default=0)
    if 8 + length + end != size:
        raise SafetensorError("Error while deserializing header: incomplete metadata, file not fully covered")

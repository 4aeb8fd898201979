"""The lab's checkpoint: valid files, the facts of the original, variants and damages."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from lab_engine_kit import write
from sglang._standin.checkpoint import Checkpoint, check_shard


def header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file, which must fill the file exactly."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    assert length % 8 == 0
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    found.pop("__metadata__")
    assert max(tensor["data_offsets"][1] for tensor in found.values()) == len(data) - 8 - length
    return found


def scale_values(folder: Path) -> list[float]:
    values = []
    for path in folder.glob("*.safetensors"):
        data = path.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        for name, tensor in header(path).items():
            if name.endswith((".k_scale", ".v_scale")):
                begin, end = tensor["data_offsets"]
                values.append(struct.unpack("<f", data[start + begin : start + end])[0])
    return values


def test_index_and_headers_agree(tmp_path: Path) -> None:
    write.write(tmp_path / "m", shards=5, experts=2)
    index = json.loads((tmp_path / "m" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) == 5
    total = 0
    for shard in sorted(set(index["weight_map"].values())):
        names = header(tmp_path / "m" / shard)
        assert {name for name, where in index["weight_map"].items() if where == shard} == set(names)
        total += sum(tensor["data_offsets"][1] - tensor["data_offsets"][0] for tensor in names.values())
        check_shard(tmp_path / "m" / shard)
    assert total == index["metadata"]["total_size"]


def test_tensor_names_follow_layers_and_quantization(tmp_path: Path) -> None:
    write.write(tmp_path / "m", shards=2, experts=1)
    names = json.loads((tmp_path / "m" / "model.safetensors.index.json").read_text())["weight_map"]
    layers = {int(name.split(".")[3]) for name in names if name.startswith("model.language_model.layers.")}
    assert layers == set(range(60))
    attention = {
        int(name.split(".")[3]) for name in names if name.endswith("self_attn.k_proj.weight") and "mtp" not in name
    }
    assert attention == set(range(3, 60, 4))
    assert "model.language_model.layers.0.linear_attn.in_proj_qkv.weight" in names
    assert "model.language_model.layers.7.mlp.experts.0.up_proj.weight_scale_2" in names
    assert not [name for name in names if name.endswith((".k_scale", ".v_scale"))]


@pytest.mark.parametrize(("scales", "unit"), [("unit", True), ("calibrated", False)])
def test_variants_with_scales(tmp_path: Path, scales: str, unit: bool) -> None:
    write.write(tmp_path / "m", shards=2, experts=1, kv_scales=scales)
    values = scale_values(tmp_path / "m")
    assert len(values) == 30
    assert (set(values) == {1.0}) == unit


@pytest.mark.parametrize(
    ("options", "method", "kv_algo"),
    [
        ({}, "modelopt_fp4", "FP8"),
        ({"kv_algo": "none"}, "modelopt_fp4", None),
        ({"weights": "FP8"}, "modelopt_fp8", "FP8"),
        ({"weights": "BF16"}, None, None),
    ],
)
def test_what_the_engine_reads(
    tmp_path: Path, options: dict[str, str], method: str | None, kv_algo: str | None
) -> None:
    write.write(tmp_path / "m", shards=1, experts=1, **options)
    checkpoint = Checkpoint(str(tmp_path / "m"))
    assert (checkpoint.quant_method, checkpoint.kv_algo) == (method, kv_algo)
    assert checkpoint.geometry().full_attention_layers == 15
    assert (tmp_path / "m" / "hf_quant_config.json").exists() == (method is not None)


def test_writing_again_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write.write(tmp_path / "m", shards=4, experts=1)
    write.write(tmp_path / "m", shards=2, experts=1)
    assert len(list((tmp_path / "m").glob("*.safetensors"))) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_same_facts_as_the_original(shared: Path, tmp_path: Path) -> None:
    write.write(tmp_path / "m", shards=1, experts=1)
    original = shared / "cases" / "checkpoints" / "nvidia--Qwen3.5-397B-A17B-NVFP4"
    for name in ("config.json", "hf_quant_config.json"):
        assert json.loads((tmp_path / "m" / name).read_text()) == json.loads((original / name).read_text())

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared and what an engine makes of it; what is refused, with file, line and key."""

from __future__ import annotations

import pathlib
import typing as t

import kv_models
import kv_shapes
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _checkpoint,
    _checkpoint_info,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Limits
from kv_shapes import CFG, FLOAT8, HF, flat, inline, nested, write


def read(folder: pathlib.Path, files: dict[str, t.Any], version: str = "0.5.23", **more: t.Any) -> dict[str, t.Any]:
    return _checkpoint_info.info(_checkpoint.read(write(folder, files)), version, **more)


@pytest.mark.parametrize("name", kv_shapes.SHAPES)
def test_every_shape_seen_in_the_wild(name: str, tmp_path: pathlib.Path) -> None:
    files, weights, kv, auto = kv_shapes.SHAPES[name]
    result = read(tmp_path / "model", files)
    assert result["weight_algo"] == weights
    assert result["kv_cache_algo"] == kv
    if auto is not None:
        assert result["engine_auto_kv_cache_dtype"] == auto, result["explanation"]
    assert auto in (None, "fp8_e4m3", "bfloat16") or auto in result["explanation"] or "refuses" in result["explanation"]


def test_33_shapes() -> None:
    assert len(kv_shapes.SHAPES) == 33


@pytest.mark.parametrize("name", kv_models.CHECKPOINTS)
def test_every_public_checkpoint(name: str, tmp_path: pathlib.Path) -> None:
    case = kv_models.CHECKPOINTS[name]
    files = {CFG: case["config"], **({HF: case[HF]} if HF in case else {})}
    result = read(tmp_path / "model", files, compute_capability="12.0")
    assert {key: result[key] for key in case["expect"]} == case["expect"]
    assert [c for c in result["conflicts"] if c["key"] != "exclude_modules"] == []


def test_57_checkpoints() -> None:
    assert len(kv_models.CHECKPOINTS) == 57


def test_layers_of_each_algorithm_are_counted(tmp_path: pathlib.Path) -> None:
    case = kv_models.CHECKPOINTS["nvidia/Qwen3.6-27B-NVFP4"]
    result = read(tmp_path / "model", {CFG: case["config"], HF: case[HF]})
    assert result["weight_algos"] == {"FP8": 208, "W4A16_NVFP4": 193}


# --- versions ----------------------------------------------------------------------------------------------------

QWEN = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "model_type": "qwen3_5_moe",
    "dtype": "bfloat16",
    "quantization_config": flat("NVFP4", kv_cache_scheme=FLOAT8),
}


@pytest.mark.parametrize(
    ("version", "auto", "argument"),
    [
        ("0.5.3", "bfloat16", "modelopt_fp4"),  # the class keeps no quant_config before PR 19291
        ("0.5.9", "bfloat16", "modelopt_fp4"),
        ("0.5.10.post1", "fp8_e4m3", None),
        ("0.5.12.post1", "fp8_e4m3", None),
        ("0.5.23", "fp8_e4m3", None),
        ("main", "fp8_e4m3", None),
        ("0.6.0", "unknown", None),
    ],
)
def test_auto_depends_on_the_version(version: str, auto: str, argument: str | None, tmp_path: pathlib.Path) -> None:
    result = read(tmp_path / "model", {CFG: QWEN}, version)
    assert (result["engine_auto_kv_cache_dtype"], result["quantization_argument"]) == (auto, argument)


@pytest.mark.parametrize(
    ("files", "autos"),
    [
        (nested("W4A16_NVFP4", "FP8", group_size=16), {"0.5.18": "refused", "0.5.19": "fp8_e4m3"}),
        (nested("NVFP4_AWQ", "FP8", group_size=16), {"0.5.16": "refused", "0.5.17": "fp8_e4m3"}),
        (nested("FP8_PER_CHANNEL_PER_TOKEN", "FP8"), {"0.5.17": "fp8_e4m3", "0.5.18": "unrecognised"}),
        (nested("W4A16_AWQ"), {"0.5.4": "refused", "0.5.4.post3": "unrecognised"}),
        (nested("MXFP8", "FP8", group_size=32), {"0.5.17": "fp8_e4m3", "0.5.18": "bfloat16"}),
        (kv_shapes.MIXED_FILE, {"0.5.14": "bfloat16", "0.5.15": "fp8_e4m3"}),
        ({HF: flat("NVFP4", kv_cache_scheme=FLOAT8)}, {"0.5.19": "refused", "0.5.20": "fp8_e4m3"}),
        (
            inline({"quant_algo": "FP8", "kv_cache_scheme": FLOAT8, "ignore": []}),
            {"0.5.8": "fp8_e4m3", "0.5.9": "fp8_e4m3"},
        ),
        (inline(flat("NVFP4", kv_cache_scheme="FP8")), {"0.5.6": "refused", "0.5.7": "fp8_e4m3", "0.5.23": "fp8_e4m3"}),
        (inline(flat("FP8", kv_cache_scheme="FP8")), {"0.5.8": "refused", "0.5.9": "bfloat16", "0.5.23": "bfloat16"}),
        (
            inline(flat("FP8", kv_cache_quant_algo="FP8")),
            {"0.5.14": "bfloat16", "0.5.15": "fp8_e4m3"},
        ),
        (
            inline({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}),
            {"0.5.17": "bfloat16", "0.5.18": "fp8_e4m3"},
        ),
        (
            inline(
                {
                    "quant_method": "compressed-tensors",
                    "config_groups": kv_shapes.CT_GROUP,
                    "kv_cache_scheme": {**kv_shapes.CT_KV, "strategy": "tensor"},
                }
            ),
            {"0.5.12": "bfloat16", "0.5.18": "bfloat16", "0.5.19": "fp8_e4m3"},
        ),
    ],
)
def test_auto_changes_where_the_source_did(
    files: dict[str, t.Any], autos: dict[str, str], tmp_path: pathlib.Path
) -> None:
    checkpoint = _checkpoint.read(write(tmp_path / "model", files))
    seen = {version: _checkpoint_info.info(checkpoint, version)["engine_auto_kv_cache_dtype"] for version in autos}
    assert seen == autos


@pytest.mark.parametrize(
    ("config", "version", "capability", "auto"),
    [
        ("deepseek-ai/DeepSeek-V3.2", "0.5.23", "12.0", "fp8_e4m3"),
        ("deepseek-ai/DeepSeek-V3.2", "0.5.23", "9.0", "bfloat16"),
        ("deepseek-ai/DeepSeek-V3.2", "0.5.23", None, "unknown"),
        ("zai-org/GLM-5", "0.5.8", "12.0", "bfloat16"),  # not a sparse model for this version
        ("deepseek-ai/DeepSeek-V4-Flash", "0.5.23", "9.0", "fp8_e4m3"),
        ("deepseek-ai/DeepSeek-V4-Flash", "0.5.9", None, "unknown"),
        ("deepseek-ai/DeepSeek-R1", "0.5.23", None, "bfloat16"),
        ("openai/gpt-oss-20b", "0.5.23", None, "bfloat16"),
    ],
)
def test_architecture_comes_before_the_checkpoint(
    config: str, version: str, capability: str | None, auto: str, tmp_path: pathlib.Path
) -> None:
    files = {CFG: kv_models.stored(config)}
    result = read(tmp_path / "model", files, version, compute_capability=capability)
    assert result["engine_auto_kv_cache_dtype"] == auto


@pytest.mark.parametrize(
    ("dtype", "model_type", "auto"),
    [
        ("float16", "llama", "float16"),
        ("float32", "llama", "float16"),
        ("float32", "gemma3", "bfloat16"),
        (None, "llama", "float16"),
    ],
)
def test_without_quantization_auto_is_the_models_dtype(
    dtype: str | None, model_type: str, auto: str, tmp_path: pathlib.Path
) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": model_type, "torch_dtype": dtype}
    assert read(tmp_path / "model", {CFG: config})["engine_auto_kv_cache_dtype"] == auto


# --- disagreement ---------------------------------------------------------------------------------------------------


def test_a_conflict_is_named_and_decided_by_version(tmp_path: pathlib.Path) -> None:
    files = kv_shapes.SHAPES["45 the files disagree"][0]
    new = read(tmp_path / "model", files)
    assert new["conflicts"] == [{"key": "kv_cache_algo", "values": {CFG: "none", HF: "fp8"}}]
    assert new["kv_cache_sources"] == [f"{HF}:quantization.kv_cache_quant_algo"]
    assert "disagree" in new["explanation"]
    old = read(tmp_path / "model", files, "0.5.12.post1")
    assert (old["kv_cache_algo"], old["engine_auto_kv_cache_dtype"]) == ("none", "bfloat16")


def test_config_json_wins_where_it_is_complete(tmp_path: pathlib.Path) -> None:
    files = {**inline(flat("NVFP4")), **nested("NVFP4", "FP8", group_size=16)}
    result = read(tmp_path / "model", files)
    assert result["kv_cache_algo"] == "none"
    assert result["engine_auto_kv_cache_dtype"] == "bfloat16"
    assert [conflict["key"] for conflict in result["conflicts"]] == ["kv_cache_algo"]


def test_two_keys_of_one_file_that_disagree(tmp_path: pathlib.Path) -> None:
    result = read(tmp_path / "model", inline(flat("NVFP4", kv_cache_scheme=FLOAT8, kv_cache_quant_algo="NVFP4")))
    assert result["engine_auto_kv_cache_dtype"] == "fp8_e4m3"
    assert result["conflicts"] and result["kv_cache_algo"] == "fp8"


def test_a_section_nested_in_config_json_loses_its_kv_keys(tmp_path: pathlib.Path) -> None:
    section = nested("NVFP4", "FP8", group_size=16)[HF]
    result = read(tmp_path / "model", inline(section))
    assert result["kv_cache_algo"] == "fp8"
    assert result["engine_auto_kv_cache_dtype"] == "bfloat16"
    assert "nested once more" in result["explanation"]


# --- never fails because of a shape -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        nested("IQ1_S", "FP8_K_NVFP4_V", kv_cache_schema_version=1),
        nested("nvfp4", "fp8", group_size=16),
        {HF: {"quantization": {"quant_algo": "NVFP4"}}},
        {HF: {"producer": {"name": "modelopt"}}},
        {HF: {}},
        {HF: {"quantization": {}}},
        nested("NVFP4", "FP8", group_size=16, something_new={"deep": [1, {"er": None}]}),
        nested("MIXED_PRECISION", "MIXED_PRECISION", kv_cache_quantized_layers={"l": {"quant_algo": "NVFP4"}}),
        inline({"quant_method": "something-else", "bits": 3}),
        inline({}),
        {CFG: {"quantization_config": None}},
        {CFG: {}},
    ],
)
def test_unknown_shapes_are_read(files: dict[str, t.Any], tmp_path: pathlib.Path) -> None:
    for version in ("0.5.3", "0.5.9", "0.5.12.post1", "0.5.23", "main", "0.9.0"):
        result = read(tmp_path / "model", files, version)
        assert result["explanation"]


@pytest.mark.parametrize(
    ("section", "kv", "key"),
    [
        ({"quant_method": "fp8", "kv_cache_dtype_hint": "e4m3"}, "unknown", "kv_cache_dtype_hint"),
        (
            {
                "quant_method": "quark",
                "export": {"kv_cache_group": ["*k_proj"]},
                "layer_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}},
            },
            "fp8",
            "export.kv_cache_group",
        ),
        ({"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}}, "unknown", "export.kv_cache_group"),
        ({"quant_method": "quark", "export": {"kv_cache_group": []}}, "none", None),
    ],
)
def test_what_is_declared_in_another_way_is_not_passed_over(
    section: dict[str, t.Any], kv: str, key: str | None, tmp_path: pathlib.Path
) -> None:
    result = read(tmp_path / "model", inline(section))
    assert result["kv_cache_algo"] == kv
    assert result["kv_cache_sources"] == ([f"{CFG}:quantization_config.{key}"] if key else [])


def test_long_lists(tmp_path: pathlib.Path) -> None:
    names = [f"model.layers.{i}.self_attn*" for i in range(20000)]
    layers = {f"model.layers.{i}.mlp": {"quant_algo": "NVFP4", "group_size": 16} for i in range(20000)}
    files = nested("MIXED_PRECISION", "FP8", exclude_modules=names, quantized_layers=layers)
    result = read(tmp_path / "model", files)
    assert len(result["exclude_modules"]) == 20000
    assert result["weight_algos"] == {"NVFP4": 20000}


# --- what fails, and where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "place"),
    [
        (inline(t.cast(t.Any, ["a", "list"])), "quantization_config"),
        (nested(t.cast(t.Any, 4)), "quantization.quant_algo"),
        (nested("FP8", t.cast(t.Any, 8)), "quantization.kv_cache_quant_algo"),
        (nested("NVFP4", group_size="sixteen"), "quantization.group_size"),
        (nested("NVFP4", exclude_modules="lm_head"), "quantization.exclude_modules"),
        (nested("NVFP4", exclude_modules=["lm_head", 7]), "quantization.exclude_modules[1]"),
        (nested("MIXED_PRECISION", quantized_layers=["a"]), "quantization.quantized_layers"),
        (nested("MIXED_PRECISION", quantized_layers={"a": 1}), "quantization.quantized_layers.a"),
        ({CFG: {"architectures": "Llama"}}, "architectures"),
        ({CFG: {"architectures": [1]}}, "architectures[0]"),
        ({CFG: {"torch_dtype": 16}}, "torch_dtype"),
        ({CFG: {"text_config": []}}, "text_config"),
        ({HF: ["not", "an", "object"]}, "(top level)"),
    ],
)
def test_a_value_of_a_wrong_type_names_file_and_key(
    files: dict[str, t.Any], place: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(SglangError) as caught:
        read(tmp_path / "model", files)
    assert f"key {place}:" in str(caught.value)
    assert any(name in str(caught.value) for name in files)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{"quantization": {"quant_algo": "FP8"', "line 1 column 38"),
        (b'{\n  "a": 1,\n  "b": }', "line 3 column 8"),
        (b"", "line 1 column 1"),
        (b'{"a": "\xff\xfe"}', "line 1 column 8"),
        (b'{\n\n "a": "\xe9"}', "line 3 column 8"),
        (b"[" * 100000, HF),
        (b'{"a": ' + b"9" * 5000 + b"}", HF),
    ],
)
def test_json_that_cannot_be_read_names_line_and_column(data: bytes, place: str, tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "model", {})
    (tmp_path / "model" / HF).write_bytes(data)
    with pytest.raises(SglangError) as caught:
        _checkpoint.read(folder)
    assert place in str(caught.value) and HF in str(caught.value)


def test_no_folder_no_config_and_too_large(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match="no such folder"):
        _checkpoint.read(str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SglangError, match=r"config\.json: the file is missing"):
        _checkpoint.read(str(tmp_path / "empty"))
    folder = write(tmp_path / "model", nested("FP8", "FP8"))
    with pytest.raises(SglangError, match=f"{HF}.*at most 50 bytes"):
        _checkpoint.read(folder, Limits(quantization=50))

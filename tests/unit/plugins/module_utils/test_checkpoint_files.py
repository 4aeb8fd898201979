# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tensors of a checkpoint and the files that hold them."""

from __future__ import annotations

import json
import pathlib
import struct
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _checkpoint,
    _checkpoint_info,
    _safetensors,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from kv_shapes import CFG, MINIMAL, nested, write


def shard(path: pathlib.Path, tensors: dict[str, tuple[str, bytes]], lie: int = 0, cut: int = 0) -> None:
    """A safetensors file; ``lie`` is added to the length that its header claims, ``cut`` bytes are missing at the
    end.
    """
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [], "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text) + lie) + text + data
    path.write_bytes(whole[: len(whole) - cut])


def model(folder: pathlib.Path, k: bytes = struct.pack("<f", 1.0), dtype: str = "F32", **more: int) -> str:
    """Two shards and an index, with a scale for K and V in the only layer."""
    path = write(folder, {CFG: {**MINIMAL, "num_hidden_layers": 1}, **nested("FP8", "FP8")})
    names = ("model.layers.0.self_attn.k_proj.k_scale", "model.layers.0.self_attn.v_proj.v_scale")
    tensors = {
        "model.layers.0.mlp.up_proj.weight_scale": ("F32", b"\0\0\0\0"),
        names[0]: (dtype, k),
        names[1]: (dtype, k),
    }
    shard(folder / "one.safetensors", tensors, **more)
    shard(folder / "two.safetensors", {"lm_head.weight": ("BF16", b"\0" * 64)})
    index = dict.fromkeys(tensors, "one.safetensors") | {"lm_head.weight": "two.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return path


@pytest.mark.parametrize(
    ("value", "dtype", "state"),
    [
        (struct.pack("<f", 1.0), "F32", "unit"),
        (struct.pack("<f", 0.0173), "F32", "calibrated"),
        (b"\x80\x3f", "BF16", "unit"),
        (b"\x00\x3f", "BF16", "calibrated"),
        (struct.pack("<e", 1.0), "F16", "unit"),
        (struct.pack("<4f", 1.0, 1.0, 1.0, 2.0), "F32", "calibrated"),
        (b"\x01\x02\x03", "U8", "unknown"),
    ],
)
def test_values_of_scales(value: bytes, dtype: str, state: str, tmp_path: pathlib.Path) -> None:
    checkpoint = _checkpoint.read(model(tmp_path / "model", value, dtype))
    assert _checkpoint_info.info(checkpoint)["kv_scales"] == {"state": state, "found": 2, "expected": 2}


def test_scales_absent_and_unknown(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "bare", {})
    assert _checkpoint.read(folder).scales.state == "unknown"  # type: ignore[union-attr]
    shard(tmp_path / "bare" / "model.safetensors", {"model.layers.0.mlp.weight_scale": ("F32", b"\0\0\0\0")})
    assert _checkpoint.read(folder).scales.state == "absent"  # type: ignore[union-attr]
    other = model(tmp_path / "model")
    (tmp_path / "model" / "one.safetensors").unlink()
    scales = _checkpoint.read(other).scales
    assert scales is not None and (scales.state, scales.found) == ("unknown", 2)


def test_a_single_file_without_an_index(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "model", {})
    shard(
        tmp_path / "model" / "model.safetensors",
        {"backbone.layers.3.mixer.k_proj.k_scale": ("F32", struct.pack("<f", 2))},
    )
    scales = _checkpoint.read(folder).scales
    assert scales is not None and (scales.state, scales.found) == ("calibrated", 1)


def test_whole_missing_and_truncated_shards(tmp_path: pathlib.Path) -> None:
    folder = model(tmp_path / "model")
    assert _checkpoint.read(folder, verify_files=True).files.as_dict() == {  # type: ignore[union-attr]
        "complete": True,
        "missing": [],
        "truncated": [],
        "bytes": sum(path.stat().st_size for path in (tmp_path / "model").glob("*.safetensors")),
    }
    whole = (tmp_path / "model" / "two.safetensors").read_bytes()
    for size in (len(whole) - 1, 40, 5, 0):
        (tmp_path / "model" / "two.safetensors").write_bytes(whole[:size])
        files = _checkpoint.read(folder, verify_files=True).files
        assert files is not None and (files.complete, files.truncated) == (False, ["two.safetensors"])
        assert files.size is None
    (tmp_path / "model" / "two.safetensors").unlink()
    files = _checkpoint.read(folder, verify_files=True).files
    assert files is not None and (files.complete, files.missing) == (False, ["two.safetensors"])


def state_total(folder: pathlib.Path, total: float) -> None:
    """Have the index state how many bytes all tensors have."""
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "metadata": {"total_size": total}}))


def test_a_stated_total_spares_the_offsets_but_hides_no_fault(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path / "model")
    two = tmp_path / "model" / "two.safetensors"
    state_total(tmp_path / "model", 12 + 64)
    with monkeypatch.context() as context:
        # 120 headers of a 397B checkpoint hold 50 MB of text; a whole checkpoint must not cost reading them.
        context.setattr(_safetensors.Header, "expected_size", lambda _: pytest.fail("the offsets were looked at"))
        files = _checkpoint.read(folder, verify_files=True).files
        assert files is not None and files.complete and files.size == 12 + 64  # of the tensors, without headers
    whole = two.read_bytes()
    for size in (len(whole) - 1, 40, 5, 0):
        two.write_bytes(whole[:size])
        assert _checkpoint.read(folder, verify_files=True).files.truncated == ["two.safetensors"]  # type: ignore[union-attr]
    two.write_bytes(whole)
    for total in (75, 0, 76.5, 1e300):
        state_total(tmp_path / "model", total)
        assert _checkpoint.read(folder, verify_files=True).files.complete  # type: ignore[union-attr]


def test_what_one_file_lacks_another_does_not_make_up(tmp_path: pathlib.Path) -> None:
    folder = model(tmp_path / "model")
    state_total(tmp_path / "model", 12 + 64)
    for name, change in (("two", lambda data: data[:-8]), ("one", lambda data: data + b"\0" * 8)):
        path = tmp_path / "model" / f"{name}.safetensors"
        path.write_bytes(change(path.read_bytes()))
    assert _checkpoint.read(folder, verify_files=True).files.truncated == ["two.safetensors"]  # type: ignore[union-attr]


def test_a_file_cut_between_two_tensors_of_a_header_in_another_order(tmp_path: pathlib.Path) -> None:
    folder = model(tmp_path / "model")
    two = tmp_path / "model" / "two.safetensors"
    entries = {
        "lm_head.weight": {"dtype": "BF16", "shape": [32], "data_offsets": [64, 128]},
        "norm.weight": {"dtype": "BF16", "shape": [32], "data_offsets": [0, 64]},
    }
    text = json.dumps(entries).encode()
    two.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 64)
    state_total(tmp_path / "model", 12 + 128)
    assert _checkpoint.read(folder, verify_files=True).files.truncated == ["two.safetensors"]  # type: ignore[union-attr]


@pytest.mark.parametrize("lie", [-8, 8, 2**40, 200_000_000])
def test_a_header_that_lies_about_its_length(lie: int, tmp_path: pathlib.Path) -> None:
    with pytest.raises(SglangError, match=r"one\.safetensors bytes"):
        _checkpoint.read(model(tmp_path / "model", lie=lie))


@pytest.mark.parametrize(
    "file", ["../other/one.safetensors", "/etc/passwd", "a/../../b.safetensors", "..\\x.safetensors", "C:\\x"]
)
def test_an_index_that_points_outside(file: str, tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "model", {})
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": file}}))
    with pytest.raises(SglangError, match=r"outside the checkpoint's folder") as caught:
        _checkpoint.read(folder)
    assert "model.safetensors.index.json key weight_map.lm_head.weight" in str(caught.value)


@pytest.mark.parametrize("value", [7, None, [], {"a": 1}, ""])
def test_an_index_whose_file_is_no_name(value: t.Any, tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "model", {})
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x", "b": value}}))
    with pytest.raises(SglangError, match=r"key weight_map\.b"):
        _checkpoint.read(folder)


def test_an_index_without_a_map(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path / "model", {})
    (tmp_path / "model" / "model.safetensors.index.json").write_text('{"metadata": {}}')
    with pytest.raises(SglangError, match=r"model\.safetensors\.index\.json key weight_map"):
        _checkpoint.read(folder)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public cases themselves, where the folder ../shared lies beside the checkout."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil

import kv_models
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_budget import GIB, Memory, budget

MINIMAL = {"architectures": ["ExampleForCausalLM"], "model_type": "example", "torch_dtype": "bfloat16"}


def rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open() as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def test_quant_variants(shared: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = shared / "cases" / "quant_variants"
    wrong, compared = [], 0
    index = rows(folder / "INDEX.tsv")
    for row in index:
        model = tmp_path / row["file"]
        model.mkdir()
        (model / "config.json").write_text(json.dumps(MINIMAL))
        shutil.copy(
            folder / row["file"], model / ("config.json" if row["kind"] == "config_json" else f"{row['kind']}.json")
        )
        if row["file"].startswith("45_"):  # the file that it disagrees with
            shutil.copy(folder / "26_mixed_embedded.hf_quant_config.json", model / "hf_quant_config.json")
        result = _checkpoint_info.info(_checkpoint.read(str(model)), "0.5.23")
        said = row["sglang_auto"]
        if said == "-":
            continue
        compared += 1
        auto = result["engine_auto_kv_cache_dtype"]
        if "fp8_e4m3" in said.split("[")[0]:
            right = auto == "fp8_e4m3"
        elif said.startswith("not recognised"):
            right = auto == "unrecognised"
        elif "ValueError" in said:
            right = auto == "refused"
        else:  # "model dtype"; where a file names none the engine takes float32 and serves float16
            right = auto == (result["model_dtype"] or "float16")
        if not right:
            wrong.append((row["file"], said, auto))
    assert not wrong
    assert (len(index), compared) == (33, 32)


def test_checkpoints(shared: pathlib.Path) -> None:
    folders = sorted((shared / "cases" / "checkpoints").iterdir())
    assert len(folders) == 57
    for folder in folders:
        expected = kv_models.CHECKPOINTS[folder.name.replace("--", "/")]["expect"]
        result = _checkpoint_info.info(_checkpoint.read(str(folder)), "0.5.23", compute_capability="12.0")
        assert {key: result[key] for key in expected} == expected, folder.name
        assert result["conflicts"] == [], folder.name


# The table's names that are written otherwise here.
SHORT = {
    "DeepSeek-R1 (V3/V3.1)": "DeepSeek-R1",
    "DeepSeek-V3.2 (DSA)": "DeepSeek-V3.2",
    "GLM-5 (DSA)": "GLM-5",
    "MiniMax-M3 (sparse index)": "MiniMax-M3",
    "Qwen3.5-27B (=3.6/3.8-27B)": "Qwen3.5-27B",
    "Nemotron-3-Nano-30B-A3B": "Nemotron-3-Nano",
    "Nemotron-3-Ultra-550B-A55B (layers_block_type)": "Nemotron-3-Ultra",
    "Jamba-v0.1 (Mamba-1)": "Jamba-v0.1",
    "gemma-3-27b-it": "gemma-3-27b",
    "Llama-4-Scout (chunked)": "Llama-4-Scout",
}


def test_bytes_per_token(shared: pathlib.Path) -> None:
    table = rows(shared / "cases" / "kv_bytes_per_token.tsv")
    assert len(table) == 28
    for row in table:
        name = row["model"].split("/", 1)[1]
        config = kv_models.CELLS[SHORT.get(name, name)][0]
        one, eight = budget(config), budget(config, tp_size=8, memory=Memory(kv_pool_bytes=60 * GIB))
        seen = (
            round(one["bytes_per_token"], 2),
            round(eight["bytes_per_token"], 2),
            round(eight["fp8"]["bytes_per_token"], 2),
            one["state_bytes_per_slot"],
            eight["state_bytes_per_slot"],
            eight["tokens"],
        )
        columns = (
            "sglang_cell_tp1_bf16",
            "sglang_cell_tp8_bf16",
            "sglang_cell_tp8_fp8",
            "state_per_slot_tp1",
            "state_per_slot_tp8",
            "sglang_tokens_60GiB_tp8_bf16",
        )
        assert seen == tuple(float(row[column]) for column in columns), name

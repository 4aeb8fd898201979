# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The twins give what the modules give, from Ansible's own templates."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.sglang.plugins.filter.hf_quant_config import hf_quant_config
from ansible_collections.blackwell.sglang.plugins.filter.kv_cache_budget import kv_cache_budget
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_budget import budget
from ansible_collections.blackwell.sglang.plugins.test.bf16_kv import bf16_kv

ROOT = pathlib.Path(__file__).resolve().parents[4]
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
}
FP8 = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


def test_quantization_from_files_and_from_a_folder(tmp_path: pathlib.Path) -> None:
    files = {"config.json": LLAMA, "hf_quant_config.json": FP8}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    folder = hf_quant_config(str(tmp_path), engine_version="0.5.12.post1")
    given = hf_quant_config(files, engine_version="0.5.12.post1")
    assert folder == _checkpoint_info.info(_checkpoint.read(str(tmp_path)), "0.5.12.post1")
    assert given["engine_auto_kv_cache_dtype"] == folder["engine_auto_kv_cache_dtype"] == "fp8_e4m3"
    assert hf_quant_config(LLAMA)["engine_auto_kv_cache_dtype"] == "bfloat16"


def test_budget() -> None:
    assert kv_cache_budget(LLAMA, tp_size=8) == budget(LLAMA, tp_size=8)
    with pytest.raises(AnsibleFilterError, match="no such option: tensor_parallel"):
        kv_cache_budget(LLAMA, tensor_parallel=8)


@pytest.mark.parametrize("value", [7, ["x"], None])
def test_what_is_no_checkpoint(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError):
        hf_quant_config(value)


@pytest.mark.parametrize(
    ("value", "more", "is_bf16"),
    [
        (["--kv-cache-dtype", "bf16"], {}, True),
        ("--kv-cache-dtype auto", {}, False),
        ([], {"checkpoint": LLAMA}, True),
        ({"kv_cache_dtype": "fp8_e4m3"}, {"checkpoint": LLAMA}, False),
        ({"verdict": "ok", "effective_dtype": "bfloat16"}, {}, True),
        ({"verdict": "unproved", "effective_dtype": "bfloat16"}, {}, False),
        ({"engine_auto_kv_cache_dtype": "fp8_e4m3"}, {}, False),
    ],
)
def test_bf16_only_where_it_is_sure(value: t.Any, more: dict[str, t.Any], is_bf16: bool) -> None:
    assert bf16_kv(value, engine_version="0.5.12.post1", **more) is is_bf16


def test_in_a_playbook(tmp_path: pathlib.Path) -> None:
    play = tmp_path / "play.yml"
    play.write_text(
        json.dumps(
            [
                {
                    "hosts": "localhost",
                    "connection": "local",
                    "gather_facts": False,
                    "vars": {"config": LLAMA, "files": {"config.json": LLAMA, "hf_quant_config.json": FP8}},
                    "tasks": [
                        {
                            "ansible.builtin.assert": {
                                "that": [
                                    "(config | blackwell.sglang.kv_cache_budget(tp_size=8)).bytes_per_token == 40960",
                                    "(files | blackwell.sglang.hf_quant_config).kv_cache_algo == 'fp8'",
                                    "['--kv-cache-dtype=bf16'] is blackwell.sglang.bf16_kv",
                                    "['--tp-size', '8'] is not blackwell.sglang.bf16_kv",
                                ]
                            }
                        }
                    ],
                }
            ]
        )
    )
    done = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", str(play)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

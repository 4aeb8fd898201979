"""The best combination goes into the instance; everything else in the file stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _matrix_write

BEFORE = """---
# The big model; do not touch without asking.
sglang_instances:
  - name: small
    model_path: /models/small
  - name: qwen
    profile: qwen3_5_397b_nvfp4
    model_path: "/models/Qwen3.5-397B-A17B-NVFP4" # 233 GB
    args:
      tp_size: 8
      moe_runner_backend: cutlass # as the wiki says
sglang_vmid: 129
"""
ARGS = {"moe_runner_backend": "flashinfer_cutlass", "attention_backend": "triton"}


def test_only_the_arguments_change(tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(BEFORE, encoding="utf-8")
    _matrix_write.write(path, "qwen", ARGS)
    wanted = BEFORE.replace(
        "      moe_runner_backend: cutlass # as the wiki says\n",
        "      moe_runner_backend: flashinfer_cutlass # as the wiki says\n      attention_backend: triton\n",
    )
    assert path.read_text(encoding="utf-8") == wanted


class Tagged(str):
    """A string as Ansible hands it on: one that knows where it was written."""


def test_strings_that_ansible_tagged_are_plain_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(BEFORE, encoding="utf-8")
    _matrix_write.write(path, "qwen", {key: Tagged(value) for key, value in ARGS.items()})
    assert "      attention_backend: triton\n" in path.read_text(encoding="utf-8")


def test_the_same_again_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(BEFORE, encoding="utf-8")
    _matrix_write.write(path, "qwen", ARGS)
    stamp = path.stat().st_mtime_ns
    before, after = _matrix_write.write(path, "qwen", ARGS)
    assert before == after
    assert path.stat().st_mtime_ns == stamp


def test_an_instance_without_arguments_gets_some_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all:\n  hosts:\n    llm:\n      sglang_instances:\n        - name: qwen\n", encoding="utf-8")
    _matrix_write.write(path, "qwen", {"attention_backend": None})
    assert "attention_backend:" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8").startswith("all:\n  hosts:\n    llm:\n")


def test_a_file_without_the_instance_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "llm.yml"
    path.write_text(BEFORE, encoding="utf-8")
    with pytest.raises(SglangError, match="holds no instance glm"):
        _matrix_write.write(path, "glm", ARGS)
    assert path.read_text(encoding="utf-8") == BEFORE
    with pytest.raises(SglangError, match="cannot be read"):
        _matrix_write.write(tmp_path / "none.yml", "qwen", ARGS)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""hf_quant_config_info for templates and the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hf_quant_config
short_description: Read what a checkpoint declares about quantization, on the controller
version_added: "1.0.0"
author: "blackwell.sglang contributors (@blackwell-sglang)"
description:
  - The twin of M(blackwell.sglang.hf_quant_config_info) for files that are on the controller or already in a variable.
positional: _input
options:
  _input:
    description:
      - The folder of a checkpoint, or its files as a dictionary from file name to content, or a C(config.json) alone.
    type: raw
    required: true
  engine_version:
    description: Version of SGLang.
    type: str
  attention_backend:
    description: Attention backend of the engine.
    type: str
  compute_capability:
    description: Compute capability of the GPUs.
    type: str
  verify_files:
    description: Compare the length of every shard with its header; for a folder alone.
    type: bool
    default: false
seealso:
  - module: blackwell.sglang.hf_quant_config_info
"""

EXAMPLES = r"""
- name: Say what auto would become
  ansible.builtin.debug:
    msg: "{{ (config | blackwell.sglang.hf_quant_config(engine_version='0.5.12.post1')).engine_auto_kv_cache_dtype }}"
  vars:
    config:
      config.json: {architectures: [Qwen3MoeForCausalLM], torch_dtype: bfloat16}
      hf_quant_config.json: {quantization: {quant_algo: FP8, kv_cache_quant_algo: FP8}}
"""

RETURN = r"""
_value:
  description: The same as what M(blackwell.sglang.hf_quant_config_info) returns.
  type: dict
  sample: {weight_algo: FP8, kv_cache_algo: fp8, engine_auto_kv_cache_dtype: fp8_e4m3}
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

if t.TYPE_CHECKING:
    from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint


def hf_quant_config(
    value: t.Any,
    engine_version: str | None = None,
    attention_backend: str | None = None,
    compute_capability: str | None = None,
    verify_files: bool = False,
) -> dict[str, t.Any]:
    """Read a folder, a dictionary of files, or a configuration."""
    # Late: to find one filter Ansible loads every filter file of a collection, in each task anew, and this one is big.
    from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint_info  # noqa: PLC0415

    try:
        checkpoint = load(value, verify_files)
        return _checkpoint_info.info(checkpoint, engine_version, attention_backend, compute_capability)
    except SglangError as exc:
        raise AnsibleFilterError(f"hf_quant_config: {exc}") from exc


def load(value: t.Any, verify_files: bool = False) -> _checkpoint.Checkpoint:
    """A checkpoint from what the filter takes."""
    from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint  # noqa: PLC0415 - late, as above

    if isinstance(value, str):
        return _checkpoint.read(value, verify_files=verify_files)
    if not isinstance(value, t.Mapping):
        raise AnsibleFilterError(f"hf_quant_config takes a folder or a dictionary, not {type(value).__name__}")
    known = {_checkpoint.CONFIG, *_checkpoint.QUANT_FILES}
    if known & set(value):
        files = {name: value[name] for name in _checkpoint.QUANT_FILES if value.get(name) is not None}
        return _checkpoint.from_config(value.get(_checkpoint.CONFIG) or {}, documents=files)
    return _checkpoint.from_config(value)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"hf_quant_config": hf_quant_config}

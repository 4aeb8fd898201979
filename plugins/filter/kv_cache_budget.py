# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kv_cache_budget_info for templates and the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kv_cache_budget
short_description: Compute what the KV cache of a model costs and how much fits, on the controller
version_added: "1.0.0"
author: "blackwell.sglang contributors (@blackwell-sglang)"
description:
  - The twin of M(blackwell.sglang.kv_cache_budget_info) for a configuration that is on the controller or in a variable.
  - Takes every option of the module but O(blackwell.sglang.kv_cache_budget_info#module:path) and
    O(blackwell.sglang.kv_cache_budget_info#module:config) as a keyword.
positional: _input
options:
  _input:
    description:
      - A C(config.json) as a dictionary, a registered result of M(blackwell.sglang.hf_quant_config_info), or a path.
    type: raw
    required: true
  kv_cache_dtype:
    description: dtype of the KV cache.
    type: str
    default: bfloat16
  tp_size:
    description: Tensor parallel size.
    type: int
    default: 1
  kv_pool_bytes:
    description: Bytes per GPU that the pool of tokens gets.
    type: float
seealso:
  - module: blackwell.sglang.kv_cache_budget_info
"""

EXAMPLES = r"""
- name: Bytes that a token costs each of eight GPUs
  ansible.builtin.debug:
    msg: "{{ (config | blackwell.sglang.kv_cache_budget(tp_size=8)).bytes_per_token }}"
  vars:
    config:
      architectures: [LlamaForCausalLM]
      num_hidden_layers: 80
      num_attention_heads: 64
      num_key_value_heads: 8
      hidden_size: 8192
"""

RETURN = r"""
_value:
  description: The same as what M(blackwell.sglang.kv_cache_budget_info) returns.
  type: dict
  sample: {bytes_per_token: 40960, state_bytes_per_slot: 0, approximate: false}
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def kv_cache_budget(value: t.Any, **options: t.Any) -> dict[str, t.Any]:
    """Compute for a configuration or a path."""
    # Late: to find one filter Ansible loads every filter file of a collection, in each task anew, and this one is big.
    from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_budget_input  # noqa: PLC0415

    try:
        source = {"path": value} if isinstance(value, str) else {"config": value}
        return _kv_budget_input.run({**options, **source})
    except SglangError as exc:
        raise AnsibleFilterError(f"kv_cache_budget: {exc}") from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"kv_cache_budget": kv_cache_budget}

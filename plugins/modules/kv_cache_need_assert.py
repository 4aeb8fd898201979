#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kv_cache_need_assert
short_description: Assert before a start that the context and the requests that are needed can fit
version_added: "1.0.0"
description:
  - Computes how many tokens and requests an instance can hold, from its checkpoint, its arguments and the memory of its
    GPUs, and fails where that is less than O(need) or than C(context_length) of O(args).
  - Two capacities are computed. RV(most) takes everything in the engine's favour (an empty GPU, a tenth of the weights
    not loaded, the greatest share of memory that the version chooses); only what exceeds it is refused. What exceeds
    RV(likely) alone is told.
  - Where the model is not wholly understood, or a size is not known, it warns instead of failing.
  - It runs on the controller and makes no connection. The gate compares the running server afterwards.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
options:
  checkpoint:
    description: A registered result of M(blackwell.sglang.hf_quant_config_info) with C(verify_files).
    type: dict
    required: true
  args:
    description: Arguments of the engine by field name, as C(sglang_resolved) has them.
    type: dict
    default: {}
  need:
    description: What must fit, as C(context) tokens in each of C(concurrent) requests at once.
    type: dict
    default: {}
  gpus:
    description: Indices of the instance's GPUs, or V(all).
    type: raw
    default: all
  cards:
    description: GPUs of the host with C(index) and C(total_mib), as M(blackwell.sglang.sglang_service_info) has them.
    type: list
    elements: dict
    default: []
  engine_version:
    description: Version of SGLang.
    type: str
  exceptions:
    description: Exceptions of the inventory; V(capacity) lifts a refusal.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.kv_cache_budget_info
  - module: blackwell.sglang.sglang_gate
"""

EXAMPLES = r"""
- name: Read the checkpoint
  blackwell.sglang.hf_quant_config_info:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    verify_files: true
  register: checkpoint

- name: Can eight requests of 200,000 tokens fit on two cards
  blackwell.sglang.kv_cache_need_assert:
    checkpoint: "{{ checkpoint }}"
    args: {tp_size: 2, kv_cache_dtype: bf16, mem_fraction_static: 0.85}
    need: {context: 200000, concurrent: 8}
    cards: [{index: 0, total_mib: 97887}, {index: 1, total_mib: 97887}]
    engine_version: 0.5.12.post1
"""

RETURN = r"""
verdict:
  description: V(fits), V(close) (it fits only if everything goes well), V(short) or V(unknown).
  returned: always
  type: str
  sample: short
needed:
  description: The tokens and requests that were asked for.
  returned: always
  type: dict
  sample: {tokens: 1600000, requests: 8}
most:
  description: The tokens and requests that fit at the most; null where nothing was asked for or nothing is known.
  returned: always
  type: dict
  sample: {tokens: 0, requests: 0}
likely:
  description: The same without favours.
  returned: always
  type: dict
  sample: {tokens: 0, requests: 0}
formula:
  description: How RV(most) was computed.
  returned: always
  type: str
  sample: "tokens = 34551234560 B / 15360 B = 2249429"
notes:
  description: What is worth knowing about the figures.
  returned: always
  type: list
  elements: str
  sample: []
excepted_by:
  description: The exception that lifted a refusal; null where none did.
  returned: always
  type: dict
  sample: null
"""

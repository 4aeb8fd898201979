#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kv_cache_budget_info
short_description: Compute what the KV cache of a model costs and how many tokens and requests fit
version_added: "1.0.0"
description:
  - Computes bytes per token and GPU, bytes of state per request slot, tokens and requests, as SGLang sizes its pools.
  - Knows MHA and GQA with replicated KV heads, MLA, DeepSeek sparse attention with its index cache, sliding windows
    and chunked attention, GDN (Qwen3-Next, Qwen3.5), KDA, Mamba-1 and Mamba-2 hybrids, per-block configurations,
    DeepSeek-V4, and nested configurations.
  - For attention fields that it does not know it sets RV(approximate) and says which field in RV(notes); it never
    returns a plain GQA number for them in silence.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  path:
    description: Folder of the checkpoint on the host, or its C(config.json).
    type: path
  config:
    description: A C(config.json) as a dictionary, or a registered result of M(blackwell.sglang.hf_quant_config_info).
    type: dict
  kv_cache_dtype:
    description: dtype of the KV cache; V(auto) is what O(engine_version) makes of the checkpoint.
    type: str
    default: bfloat16
  tp_size:
    description: Tensor parallel size.
    type: int
    default: 1
  pp_size:
    description: Pipeline parallel size.
    type: int
    default: 1
  dp_size:
    description: Data parallel size.
    type: int
    default: 1
  dp_attention:
    description:
      - Whether attention is data parallel (C(--enable-dp-attention)), so that heads are spread over O(tp_size)
        divided by O(dp_size) GPUs.
      - A number is taken as O(dp_size) with this switched on.
    type: raw
    default: false
  page_size:
    description: Page size; tokens are rounded down to whole pages.
    type: int
    default: 1
  engine_version:
    description: Version of SGLang. V(0.5.23), the newest whose source was read, if not given.
    type: str
  attention_backend:
    description: Attention backend; V(trtllm) and V(tilelang) keep the latent of DeepSeek sparse attention raw.
    type: str
  compute_capability:
    description: Compute capability of the GPUs, for O(kv_cache_dtype=auto).
    type: str
  kv_pool_bytes:
    description: Bytes per GPU that the pool of tokens gets, beside any states.
    type: float
  available_after_load_gib:
    description: "GiB that were free per GPU after the weights were loaded (the engine's log: C(Load weight end ...
      avail mem))."
    type: float
  available_before_load_gib:
    description: "GiB that were free per GPU before (the engine's log: C(Load weight begin. avail mem))."
    type: float
  mem_fraction_static:
    description: C(--mem-fraction-static) of the engine.
    type: float
  contexts:
    description: Context lengths for which requests are counted.
    type: list
    elements: int
    default: [32768, 131072, 262144]
  max_running_requests:
    description: C(--max-running-requests) of the engine.
    type: int
  max_total_tokens:
    description: C(--max-total-tokens) of the engine.
    type: int
  speculative_algorithm:
    description: Speculative algorithm, for instance V(NEXTN).
    type: str
  speculative_num_draft_tokens:
    description: Draft tokens per step.
    type: int
  speculative_draft_layers:
    description: Layers of the draft model with attention; 1 if not given.
    type: int
  mamba_ssm_dtype:
    description: C(--mamba-ssm-dtype); the configuration's, else float32.
    type: str
    choices: [float32, bfloat16, float16]
  mamba_full_memory_ratio:
    description: Memory of states over memory of tokens.
    type: float
    default: 0.9
  mamba_strategy:
    description: C(--mamba-scheduler-strategy) or C(--mamba-radix-cache-strategy).
    type: str
    choices: [auto, no_buffer, extra_buffer, extra_buffer_lazy]
    default: auto
  max_mamba_cache_size:
    description: C(--max-mamba-cache-size) of the engine, in slots.
    type: int
  disable_radix_cache:
    description: C(--disable-radix-cache) of the engine.
    type: bool
    default: false
  disable_overlap_schedule:
    description: C(--disable-overlap-schedule) of the engine.
    type: bool
    default: false
  swa_full_tokens_ratio:
    description: C(--swa-full-tokens-ratio); the engine's default if not given.
    type: float
  compress_state_dtype:
    description: C(SGLANG_DSV4_COMPRESS_STATE_DTYPE) of the engine, for DeepSeek-V4.
    type: str
    choices: [float32, bfloat16]
    default: float32
seealso:
  - module: blackwell.sglang.hf_quant_config_info
  - plugin: blackwell.sglang.kv_cache_budget
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Compute what fits on eight cards
  blackwell.sglang.kv_cache_budget_info:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    kv_cache_dtype: bf16
    tp_size: 8
    engine_version: 0.5.12.post1
    available_before_load_gib: 94.2
    available_after_load_gib: 64.1
    mem_fraction_static: 0.85
  register: budget

- name: Require room for eight long requests
  ansible.builtin.assert:
    that: budget.requests[2].concurrent >= 8
    fail_msg: "{{ budget.formula }}"
"""

RETURN = r"""
bytes_per_token:
  description: Bytes that one token of max_total_num_tokens costs one GPU, which the engine calls its cell size.
  returned: success
  type: float
  sample: 15360
state_bytes_per_slot:
  description: Bytes of one request slot's state on one GPU; 0 for models without such layers.
  returned: success
  type: int
  sample: 24007680
tokens:
  description: Tokens that fit; null when no memory was given.
  returned: success
  type: int
  sample: 1251491
state_slots:
  description: Request slots for states; null for models without them, or when no memory was given.
  returned: success
  type: int
  sample: 179
slots_per_request:
  description: State slots that a running request holds; null for models without states.
  returned: success
  type: int
  sample: 3
max_running_requests:
  description: What the engine sets max_running_requests to; null when no memory was given.
  returned: success
  type: int
  sample: 59
requests:
  description: For each context, the requests that fit by tokens, by state slots, and the smaller.
  returned: success
  type: list
  elements: dict
  sample: [{context: 32768, by_tokens: 38, by_slots: 59, concurrent: 38}]
kv_heads_replicated:
  description: Whether there are fewer KV heads than GPUs, so that GPUs keep copies.
  returned: success
  type: bool
  sample: true
pools:
  description: The allocations behind a token, each with its own bytes per token and its share of tokens.
  returned: success
  type: list
  elements: dict
  sample: [{name: full, bytes_per_token: 15360, share: 1.0}]
fp8:
  description: What an FP8 cache would give instead, in the same memory.
  returned: success
  type: dict
  sample: {bytes_per_token: 7680, tokens: 2502982, requests: []}
kind:
  description: Kind of attention, for instance V(gqa), V(mla), V(dsa), V(swa), V(gdn+gqa), V(mamba2+gqa) or V(dsv4).
  returned: success
  type: str
  sample: gdn+gqa
kv_cache_dtype:
  description: dtype that was computed for.
  returned: success
  type: str
  sample: bfloat16
approximate:
  description: Whether anything about the model is not understood; RV(notes) says what.
  returned: success
  type: bool
  sample: false
notes:
  description: What is worth knowing about the figures.
  returned: success
  type: list
  elements: str
  sample: ["34 layers use another layer's index and keep none"]
formula:
  description: The formula with its numbers filled in.
  returned: success
  type: str
  sample: bytes_per_token = 15 layers x 1 KV heads x (256 + 256) x 2 B = 15360 B
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_budget_input
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    """Compute a budget."""
    whole = ("tp_size", "pp_size", "dp_size", "page_size")
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "config": {"type": "dict"},
            "kv_cache_dtype": {"type": "str", "default": "bfloat16"},
            **{name: {"type": "int", "default": 1} for name in whole},
            "dp_attention": {"type": "raw", "default": False},
            "engine_version": {"type": "str"},
            "attention_backend": {"type": "str"},
            "compute_capability": {"type": "str"},
            "kv_pool_bytes": {"type": "float"},
            "available_after_load_gib": {"type": "float"},
            "available_before_load_gib": {"type": "float"},
            "mem_fraction_static": {"type": "float"},
            "contexts": {"type": "list", "elements": "int", "default": [32768, 131072, 262144]},
            "max_running_requests": {"type": "int"},
            "max_total_tokens": {"type": "int", "no_log": False},
            "speculative_algorithm": {"type": "str"},
            "speculative_num_draft_tokens": {"type": "int", "no_log": False},
            "speculative_draft_layers": {"type": "int"},
            "mamba_ssm_dtype": {"type": "str", "choices": ["float32", "bfloat16", "float16"]},
            "mamba_full_memory_ratio": {"type": "float", "default": 0.9},
            "mamba_strategy": {
                "type": "str",
                "choices": ["auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"],
                "default": "auto",
            },
            "max_mamba_cache_size": {"type": "int"},
            "disable_radix_cache": {"type": "bool", "default": False},
            "disable_overlap_schedule": {"type": "bool", "default": False},
            "swa_full_tokens_ratio": {"type": "float", "no_log": False},
            "compress_state_dtype": {"type": "str", "choices": ["float32", "bfloat16"], "default": "float32"},
        },
        mutually_exclusive=[("path", "config"), ("kv_pool_bytes", "available_after_load_gib")],
        required_one_of=[("path", "config")],
        required_together=[("available_after_load_gib", "mem_fraction_static")],
        supports_check_mode=True,
    )
    try:
        result = _kv_budget_input.run(module.params)
    except SglangError as error:
        module.fail_json(msg=str(error), **error.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

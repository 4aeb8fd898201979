#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kv_cache_assert
short_description: Assert that an SGLang server keeps its KV cache in the dtype ordered
version_added: "1.0.0"
description:
  - Judges the arguments of an engine before it starts, and proves the dtype of a running one.
  - Proof needs both the log of this start and arithmetic (bytes of the pool over its tokens, against what the model
    needs). The C(kv_cache_dtype) in C(internal_states) of C(/server_info) can only refute; the one at its top repeats
    the argument and is worth nothing, nor are the lines on missing scaling factors or that the server is ready to
    roll.
  - For a version whose log wording is in no table, arithmetic alone proves, and the evidence says so.
  - Fails unless the verdict is V(ok) or an exception lifts it.
  - Where all that it judges is given (no O(path), O(url), O(unit) or O(log_file)), it runs on the controller and makes
    no connection.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  path:
    description: Folder of the checkpoint on the host.
    type: path
  checkpoint:
    description:
      - A registered result of M(blackwell.sglang.hf_quant_config_info), or a C(config.json) as a dictionary.
    type: dict
  args:
    description:
      - Arguments of the engine, as a list of words, a string, or a dictionary by field name.
      - Both C(--kv-cache-dtype x) and C(--kv-cache-dtype=x) are understood, and the last one wins.
    type: raw
  engine_version:
    description: Version of SGLang, for instance V(0.5.12.post1). A running server's own word wins.
    type: str
  architecture:
    description: Model class, where it is to be another than the checkpoint's.
    type: str
  attention_backend:
    description: Attention backend of the engine, where O(args) do not name it.
    type: str
  compute_capability:
    description: Compute capability of the GPUs, for instance V(12.0).
    type: str
  kv_cache_dtype:
    description: The dtype ordered.
    type: str
    default: bfloat16
  draft_kv_cache_dtype:
    description:
      - dtype of the draft model's KV cache, where speculation is on and it is to differ or is known from elsewhere.
    type: str
  url:
    description: Address of the running server, for instance V(http://127.0.0.1:30000).
    type: str
  api_key:
    description: Key of the server, sent to it alone.
    type: str
  timeout:
    description: Seconds for an answer.
    type: float
    default: 5.0
  tp_size:
    description: Tensor parallel size ordered. The server's own word wins.
    type: int
    default: 1
  pp_size:
    description: Pipeline parallel size.
    type: int
    default: 1
  unit:
    description: systemd unit that runs the engine. The log of its current start is read from the journal.
    type: str
  log_file:
    description: Log of the engine, where no systemd runs it.
    type: path
  pid:
    description: Process that writes O(log_file). A log of another process is never counted.
    type: int
  receipt:
    description:
      - RV(receipt) of an earlier run, as a dictionary or the path of a JSON file on the host that holds it.
      - One of the same InvocationID stands in, together with fresh arithmetic, for a log that has been rotated away.
    type: raw
  exceptions:
    description:
      - Exceptions of the inventory, each with C(id), C(reason) and perhaps C(until) (a day).
      - V(kv_cache_dtype) lifts every verdict; V(kv_cache_dtype_violated), V(kv_cache_dtype_impossible) and
        V(kv_cache_dtype_unproved) lift one.
    type: list
    elements: dict
    default: []
seealso:
  - module: blackwell.sglang.hf_quant_config_info
  - module: blackwell.sglang.sglang_gate
  - plugin: blackwell.sglang.bf16_kv
    plugin_type: test
"""

EXAMPLES = r"""
- name: Assert before the start that the arguments give a BF16 KV cache
  blackwell.sglang.kv_cache_assert:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    args: [--model-path, /models/Qwen3.5-397B-A17B-NVFP4, --tp-size, "8", --kv-cache-dtype, bf16]
    engine_version: 0.5.12.post1
    compute_capability: "12.0"

- name: Prove it on the running server
  blackwell.sglang.kv_cache_assert:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    url: http://127.0.0.1:30000
    api_key: "{{ sglang_api_key }}"
    tp_size: 8
    unit: sglang-qwen.service
  register: proof

- name: Prove it where no systemd runs the engine
  blackwell.sglang.kv_cache_assert:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    url: http://127.0.0.1:30000
    tp_size: 8
    log_file: /var/log/sglang/qwen.log
    pid: 4711
"""

RETURN = r"""
verdict:
  description: V(ok), V(violated), V(impossible) (this engine cannot do it for this model) or V(unproved).
  returned: always
  type: str
  sample: ok
effective_dtype:
  description: dtype that the cache has, as far as is known.
  returned: always
  type: str
  sample: bfloat16
evidence:
  description:
    - What the verdict rests on. C(weight) is V(proves), V(refutes), V(risk), V(intent) or V(nothing).
  returned: always
  type: list
  elements: dict
  sample:
    - source: journal of sglang-qwen.service, invocation 4f1c0a3e5d7b4a86a3a86e4f1d0c2b9a
      says: "rank TP0: Using KV cache dtype: torch.bfloat16"
      weight: proves
    - source: arithmetic
      says: "memory_usage.kvcache 35.81 GiB / token_capacity 1251491 = 30724 B a token: 16 bits per number"
      weight: proves
recommendation:
  description:
    - The argument to set, spelled as this version, backend and model accept it; empty when there is nothing to do.
  returned: always
  type: str
  sample: --kv-cache-dtype bf16
judged:
  description: V(live) when a running engine was judged, V(static) when only its arguments were.
  returned: always
  type: str
  sample: live
receipt:
  description:
    - What to keep so that a later run can do without the log of this start; empty unless it was proved for a unit.
  returned: always
  type: dict
  sample: {invocation_id: 4f1c0a3e5d7b4a86a3a86e4f1d0c2b9a, effective_dtype: bfloat16, tokens: 1251491}
excepted_by:
  description: The exception that lifted the verdict, null when none did.
  returned: always
  type: dict
  sample: {id: kv_cache_dtype_impossible, reason: FP8 latent cache of DeepSeek-V4, until: "2027-03-31"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_assert
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    """Judge, and fail unless the cache is as ordered."""
    module = AnsibleModule(
        argument_spec=_kv_assert.ARGUMENTS,
        mutually_exclusive=_kv_assert.MUTUALLY_EXCLUSIVE,
        required_one_of=_kv_assert.REQUIRED_ONE_OF,
        supports_check_mode=True,
    )
    try:
        outcome = _kv_assert.run(module.params, module.run_command, module.check_mode)
    except SglangError as error:
        module.fail_json(msg=str(error), **error.as_dict())
    for warning in outcome.warnings:
        module.warn(warning)
    if outcome.failure:
        module.fail_json(msg=outcome.failure, **outcome.result)
    module.exit_json(changed=False, **outcome.result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hf_quant_config_info
short_description: Read what a checkpoint declares about quantization and what an SGLang version makes of it
version_added: "1.0.0"
description:
  - Reads C(config.json), C(hf_quant_config.json) and C(quant_cfg.json), whichever exist, wherever in them the keys
    stand, and the names and values of KV scale tensors from the index and the headers of the safetensors files. Never
    reads a weight.
  - Tells what C(--kv-cache-dtype auto) becomes in a given version of SGLang, since that depends on the version, on
    the architecture and on the GPU, and the engine does not say it.
  - Does not fail because of an algorithm, a version or a key that nobody has seen. Fails, naming file, line and
    column or key, on a missing C(config.json), JSON that does not parse, a value of a type that makes no sense, a
    file that is not UTF-8 or is too large, a damaged safetensors header, and an index that names a file outside the
    folder.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  path:
    description: Folder of the checkpoint.
    type: path
    required: true
  engine_version:
    description:
      - Version of SGLang, for instance V(0.5.12.post1), or V(main).
      - V(0.5.23), the newest whose source was read, if not given.
    type: str
  attention_backend:
    description: Attention backend of the engine, where it is known.
    type: str
  compute_capability:
    description: Compute capability of the GPUs, for instance V(12.0). Needed for DeepSeek sparse attention alone.
    type: str
  verify_files:
    description:
      - Also compare the length of every shard with what its header says, from one read per shard.
      - Finds a badly copied checkpoint before a running server is stopped for it.
    type: bool
    default: false
seealso:
  - module: blackwell.sglang.kv_cache_assert
  - module: blackwell.sglang.kv_cache_budget_info
  - plugin: blackwell.sglang.hf_quant_config
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read the checkpoint's quantization
  blackwell.sglang.hf_quant_config_info:
    path: /models/Qwen3.5-397B-A17B-NVFP4
    engine_version: 0.5.12.post1
    verify_files: true
  register: checkpoint

- name: Require whole files, and no surprise from auto
  ansible.builtin.assert:
    that:
      - checkpoint.files.complete
      - checkpoint.engine_auto_kv_cache_dtype == 'bfloat16'
    fail_msg: "{{ checkpoint.explanation }}"
"""

RETURN = r"""
weight_algo:
  description:
    - Algorithm of the weights in upper case, C(MIXED_PRECISION) where layers differ; null where none is declared.
  returned: success
  type: str
  sample: NVFP4
weight_algos:
  description: For mixed precision, algorithm to number of layers; else empty.
  returned: success
  type: dict
  sample: {FP8: 208, W4A16_NVFP4: 193}
group_size:
  description: Numbers that share a scale; null where it is not declared or differs between layers.
  returned: success
  type: int
  sample: 16
kv_cache_algo:
  description:
    - What is declared for the KV cache, one of V(none), V(fp8), V(int8), V(nvfp4), V(nvfp4_affine), V(mixed),
      V(unknown).
    - Where the files disagree, what O(engine_version) uses.
  returned: success
  type: str
  sample: fp8
kv_cache_sources:
  description: Every C(file:key) that declares something for the KV cache.
  returned: success
  type: list
  elements: str
  sample: ["config.json:quantization_config.kv_cache_scheme", "hf_quant_config.json:quantization.kv_cache_quant_algo"]
conflicts:
  description: Keys on which the files disagree, each with the value of every file; empty when they agree.
  returned: success
  type: list
  elements: dict
  sample: [{key: kv_cache_algo, values: {config.json: none, hf_quant_config.json: fp8}}]
kv_scales:
  description:
    - Scale tensors of the KV cache. C(state) is V(absent), V(unit) (all are 1.0), V(calibrated) or V(unknown),
      C(found) how many there are, C(expected) how many a checkpoint of this shape with scales has.
  returned: success
  type: dict
  sample: {state: unit, found: 30, expected: 30}
exclude_modules:
  description: Patterns of modules that are not quantized.
  returned: success
  type: list
  elements: str
  sample: [lm_head, "*.mlp.shared_expert.*"]
producer:
  description: Name and version of the tool that wrote the checkpoint; null where it does not say.
  returned: success
  type: dict
  sample: {name: modelopt, version: 0.0.1.dev538+g26cad678d}
architectures:
  description: Model classes.
  returned: success
  type: list
  elements: str
  sample: [Qwen3_5MoeForConditionalGeneration]
model_type:
  description: Name of the model in transformers.
  returned: success
  type: str
  sample: qwen3_5_moe
model_dtype:
  description: dtype of the weights as the configuration names it.
  returned: success
  type: str
  sample: bfloat16
folder:
  description: The folder that was read.
  returned: success
  type: str
  sample: /models/Qwen3.5-397B-A17B-NVFP4
config:
  description: C(config.json) without its long or irrelevant parts, so that the registered result can be passed on.
  returned: success
  type: dict
  sample: {architectures: [Qwen3_5MoeForConditionalGeneration], model_type: qwen3_5_moe}
engine_version:
  description: Version for which the engine's answers hold.
  returned: success
  type: str
  sample: 0.5.12.post1
engine_auto_kv_cache_dtype:
  description:
    - What C(--kv-cache-dtype auto) becomes, for instance V(bfloat16), V(float16) or V(fp8_e4m3).
    - V(unrecognised) where that version does not read the quantization, V(refused) where it raises, V(unknown)
      otherwise; RV(explanation) says what.
    - Holds for an engine that is started with RV(quantization_argument) where there is one.
  returned: success
  type: str
  sample: fp8_e4m3
quantization_argument:
  description: What C(--quantization) must say for that version; null where it may stay away.
  returned: success
  type: str
  sample: modelopt_fp4
explanation:
  description: All of this in sentences.
  returned: success
  type: str
  sample: >-
    Weights: NVFP4. KV cache: fp8, declared by config.json:quantization_config.kv_cache_scheme,
    hf_quant_config.json:quantization.kv_cache_quant_algo. There are no scale tensors for the KV cache: a quantized
    cache would use 1.0. --kv-cache-dtype auto in SGLang 0.5.12.post1: fp8_e4m3. config.json declares an FP8 KV
    cache, and SGLang 0.5.12.post1 makes auto fp8_e4m3 of it.
files:
  description:
    - Whether the shards are whole. C(missing) are files that the index names and that are not there, C(truncated)
      those that are shorter than their header says. C(bytes) is the size of the weights where all are whole, else null.
  returned: with O(verify_files=true)
  type: dict
  sample: {complete: false, missing: [], truncated: [model-00002-of-00002.safetensors], bytes: null}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    """Read a checkpoint and return what it declares."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "engine_version": {"type": "str"},
            "attention_backend": {"type": "str"},
            "compute_capability": {"type": "str"},
            "verify_files": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        checkpoint = _checkpoint.read(params["path"], verify_files=params["verify_files"])
        result = _checkpoint_info.info(
            checkpoint, params["engine_version"], params["attention_backend"], params["compute_capability"]
        )
    except SglangError as error:
        module.fail_json(msg=str(error), **error.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

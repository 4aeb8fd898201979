#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backend_matrix
short_description: Find which backends compute right on a host, and which of those is fastest
version_added: "1.0.0"
description:
  - Tries combinations of arguments of one instance, one start each. Each is linted first, started, asked, measured
    briefly, stopped, and its GPUs are seen to be free.
  - Questions are the gate's own, prompts of many exact lengths (a known fault gives zeros for M = 3072 alone), 64 at
    once (another is a race), and a long one. Answers and log-probabilities are compared with those of a reference
    combination.
  - Each result is kept in a file on the controller, so that an interrupted matrix goes on where it stopped.
  - The service that ran before is restored and gated once, at the end and when the matrix fails. Trials use a drop-in
    under C(/run), so a power cut ends with the service as it was. Proof and good releases are not touched.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode the combinations are linted and the plan is returned.]
  diff_mode:
    support: partial
    details: [A file given as O(write_to) is shown before and after.]
  idempotent:
    support: partial
    details: [With O(resume) nothing is started again whose result is known.]
options:
  instance:
    description: Name of the instance.
    type: str
    required: true
  axes:
    description:
      - Arguments and the values tried; every combination of them is one trial.
      - A value that is a dictionary sets several arguments at once, as speculation needs.
    type: dict
    default: {}
  combinations:
    description: Whole sets of arguments to try, in place of O(axes).
    type: list
    elements: dict
    default: []
  reference:
    description:
      - Arguments of the combination that the others are compared with. Without it, the one that most others agree with.
    type: dict
    default: {}
  output_dir:
    description: Folder on the controller for results and for the file of an unfinished matrix.
    type: path
    required: true
  resume:
    description: Whether results of an unfinished matrix of the same release, checkpoint and questions are used.
    type: bool
    default: true
  write_to:
    description: Inventory file on the controller into which the best correct combination is written.
    type: path
  ready_timeout:
    description: Seconds after which a start counts as hanging.
    type: float
    default: 1800
  request_timeout:
    description: Seconds after which an answer counts as hanging.
    type: float
    default: 120
  lengths:
    description: Prompt lengths asked, in tokens; without it 26 lengths from 2 to 8192.
    type: list
    elements: int
  concurrent:
    description: Requests of the burst.
    type: int
    default: 64
  long_tokens:
    description: Tokens of the long prompt; 0 asks none.
    type: int
    default: 40000
  measure_levels:
    description: Concurrencies of the brief measurement; empty for none.
    type: list
    elements: int
    default: [1, 32]
  measure_input_len:
    description: Tokens of each prompt that is measured.
    type: int
    default: 512
  measure_output_len:
    description: Tokens of each answer that is measured.
    type: int
    default: 128
  measure_dataset:
    description: Kind of the prompts that are measured.
    type: str
    choices: [text, random]
    default: text
  measure_timeout:
    description: Seconds after which a level is given up.
    type: float
    default: 900
  slow_share:
    description: Share of the fastest correct combination's throughput below which another is called slow.
    type: float
    default: 0.5
  python:
    description: Interpreter on the host that has the benchmark client; without it the one of the instance's release.
    type: path
  env:
    description: Environment of the trials beyond the unit's own.
    type: dict
    default: {}
seealso:
  - module: blackwell.sglang.backend_matrix_step
  - module: blackwell.sglang.sglang_benchmark
"""

EXAMPLES = r"""
- name: Which backends compute right here
  blackwell.sglang.backend_matrix:
    instance: qwen
    axes:
      moe_runner_backend: [cutlass, flashinfer_cutlass]
      attention_backend: [triton, flashinfer]
    output_dir: reports/matrix
  register: sglang_matrix
"""

RETURN = r"""
plan:
  description: The combinations, whether each is tried, and why not.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: moe=flashinfer_trtllm attention=triton, try: false, why: flashinfer_trtllm has no kernels for SM120,
       args: {moe_runner_backend: flashinfer_trtllm, attention_backend: triton}}
matrix:
  description: The result, as docs/contracts/backend_matrix.schema.json describes it.
  returned: when something was tried
  type: dict
  sample:
    version: 1
    host: sglang1
    instance: qwen
    best: moe=cutlass attention=triton
    best_args: {moe_runner_backend: cutlass, attention_backend: triton}
    reference: {id: moe=cutlass attention=triton, why: 3 of 4 sound combinations agree with it}
    starts: 4
    restored: ""
    combinations:
      - {id: moe=cutlass attention=triton, verdict: ok, why: "", start_s: 92.4, seconds: 201.3}
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Say that the action plugin of this name does the work."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "str", "required": True},
            "axes": {"type": "dict", "default": {}},
            "combinations": {"type": "list", "elements": "dict", "default": []},
            "reference": {"type": "dict", "default": {}},
            "output_dir": {"type": "path", "required": True},
            "resume": {"type": "bool", "default": True},
            "write_to": {"type": "path"},
            "ready_timeout": {"type": "float", "default": 1800.0},
            "request_timeout": {"type": "float", "default": 120.0},
            "lengths": {"type": "list", "elements": "int"},
            "concurrent": {"type": "int", "default": 64},
            "long_tokens": {"type": "int", "default": 40000, "no_log": False},
            "measure_levels": {"type": "list", "elements": "int", "default": [1, 32]},
            "measure_input_len": {"type": "int", "default": 512},
            "measure_output_len": {"type": "int", "default": 128},
            "measure_dataset": {"type": "str", "choices": ["text", "random"], "default": "text"},
            "measure_timeout": {"type": "float", "default": 900.0},
            "slow_share": {"type": "float", "default": 0.5},
            "python": {"type": "path"},
            "env": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    module.fail_json(msg="backend_matrix works through its action plugin: call it as blackwell.sglang.backend_matrix")


if __name__ == "__main__":
    main()

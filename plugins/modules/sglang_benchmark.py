#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_benchmark
short_description: Measure the throughput of a running SGLang instance over a range of concurrency
version_added: "1.0.0"
description:
  - Drives the engine's own benchmark client (C(sglang.bench_serving), C(sglang.benchmark.serving) in newer versions)
    from the release that serves, level by level, with fixed lengths, warm-up and an empty prefix cache at each level.
  - Labels each level with what it measured. That is computing, or a queue, because the KV cache or the state slots hold
    fewer requests than were sent. A level that cannot fit is not run and says so.
  - Measures the client against a server that answers at once, so that nobody takes the client's limit for the server's.
  - Compares with a stored baseline and fails or warns when a level lost more than noise explains.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode the plan is made and nothing is measured.]
  diff_mode:
    support: none
  idempotent:
    support: none
options:
  instance:
    description: An entry of C(sglang_resolved.instances), as M(blackwell.sglang.sglang_resolve) gives it.
    type: dict
    required: true
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
  python:
    description: Interpreter on the host that has the benchmark client; without it the one of the instance's release.
    type: path
  user:
    description: User that the client runs as.
    type: str
    default: sglang
  levels:
    description: Numbers of concurrent requests.
    type: list
    elements: int
    default: [1, 4, 16, 32, 64, 128, 256, 512, 1024]
  prompts_per_level:
    description: Requests of a level per concurrent one; fewer than 5 let ramp and drain weigh in the figures.
    type: int
    default: 5
  input_len:
    description: Tokens of each prompt.
    type: int
    default: 1024
  output_len:
    description: Tokens of each answer.
    type: int
    default: 512
  dataset:
    description: Kind of the prompts. Random tokens make speculative decoding look useless.
    type: str
    choices: [text, random]
    default: text
  text:
    description: File on the host with prose to cut prompts from; without it the help topics that Python brings.
    type: path
  seed:
    description: Seed of the client.
    type: int
    default: 1
  restarts:
    description: How often the service is restarted and measured again; the spread is part of the result.
    type: int
    default: 0
  ceiling:
    description: Whether the client itself is measured first.
    type: bool
    default: true
  level_timeout:
    description: Seconds after which a level is given up.
    type: int
    default: 7200
  output_dir:
    description: Folder on the controller for results and baselines.
    type: path
    required: true
  baseline:
    description:
      - V(keep) compares with the stored baseline and stores this result when there is none yet and nothing failed.
      - V(update) compares and stores this result. V(ignore) does neither.
    type: str
    choices: [keep, update, ignore]
    default: keep
  regression:
    description: What becomes of a result that is worse than the baseline.
    type: str
    choices: [fail, warn]
    default: warn
  tolerance:
    description:
      - Share of throughput whose loss is no news. Without it, 0.05 when both sides are means of three starts or more,
        else 0.2. The spread of either side counts where it is larger.
    type: float
seealso:
  - module: blackwell.sglang.sglang_benchmark_job
"""

EXAMPLES = r"""
- name: Know what runs here
  blackwell.sglang.sglang_resolve:
  register: sglang_known

- name: Measure it
  blackwell.sglang.sglang_benchmark:
    instance: "{{ sglang_known.resolved.instances | first }}"
    levels: [1, 16, 64]
    output_dir: reports/benchmark
  register: sglang_sweep
"""

RETURN = r"""
plan:
  description: The levels with their labels before anything was measured.
  returned: when the server answers
  type: list
  elements: dict
  sample:
    - {concurrency: 64, prompts: 320, label: slots, c_max: 59, run: true,
       why: "179 state slots serve 59 requests at once: the rest waits"}
limits:
  description: What the server can hold at once.
  returned: when the server answers
  type: dict
  sample: {kv_tokens: 1251491, requests: 59, slots: 179, request_cause: state slots, context: 262138}
benchmark:
  description: The result, as docs/contracts/benchmark.schema.json describes it.
  returned: when something was measured
  type: dict
  sample:
    version: 1
    host: sglang1
    instance: qwen
    engine_version: 0.5.12.post1
    shape: {input_len: 1024, output_len: 512, dataset: text}
    restarts: 0
    ceiling: [{concurrency: 64, tok_s: 11486.87, label: compute}]
    levels:
      - {concurrency: 16, prompts: 80, ok: 80, errors: 0, wall_s: 53.991, input_tokens: 1806, output_tokens: 3731,
         tok_s: 69.1, request_tok_s: 4.32, label: compute, c_max: 59, spread: 0.0}
    comparison: {verdict: same, at: "2026-11-28T18:04:02Z", tolerance: 0.2}
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Say that the action plugin of this name does the work."""
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "dict", "required": True},
            "root": {"type": "path", "default": "/opt/sglang"},
            "python": {"type": "path"},
            "user": {"type": "str", "default": "sglang"},
            "levels": {"type": "list", "elements": "int", "default": [1, 4, 16, 32, 64, 128, 256, 512, 1024]},
            "prompts_per_level": {"type": "int", "default": 5},
            "input_len": {"type": "int", "default": 1024},
            "output_len": {"type": "int", "default": 512},
            "dataset": {"type": "str", "choices": ["text", "random"], "default": "text"},
            "text": {"type": "path"},
            "seed": {"type": "int", "default": 1},
            "restarts": {"type": "int", "default": 0},
            "ceiling": {"type": "bool", "default": True},
            "level_timeout": {"type": "int", "default": 7200},
            "output_dir": {"type": "path", "required": True},
            "baseline": {"type": "str", "choices": ["keep", "update", "ignore"], "default": "keep"},
            "regression": {"type": "str", "choices": ["fail", "warn"], "default": "warn"},
            "tolerance": {"type": "float"},
        },
        supports_check_mode=True,
    )
    module.fail_json(
        msg="sglang_benchmark works through its action plugin; call it as blackwell.sglang.sglang_benchmark."
    )


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_status_info
short_description: Read what runs on a host, ask it, and diagnose what does not run
version_added: "1.0.0"
description:
  - Reads in one call what an operator wants to see at one look. That is all of
    M(blackwell.sglang.sglang_service_info), the cheap part of M(blackwell.sglang.sglang_gate) for each instance whose
    unit is active or starting, and M(blackwell.sglang.sglang_diagnose) for each that should run and does not.
  - Nothing is changed and no proof is written.
  - Works in any state of the host. A server that cannot be asked is told as such and keeps no other from being asked.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
  - blackwell.sglang.service_state
options:
  resolved:
    description: The same instances as C(sglang_resolved.instances) has them, which is what the gate asks by.
    type: list
    elements: dict
    required: true
  ask:
    description:
      - V(all) asks every server that runs. V(unchanged) asks those alone that nothing is to be done to, and diagnoses
        nothing; it is for a role that does the rest.
    type: str
    choices: [all, unchanged]
    default: all
notes:
  - The target needs the Python library requests for instances that run.
seealso:
  - module: blackwell.sglang.sglang_service_info
  - module: blackwell.sglang.sglang_gate
  - module: blackwell.sglang.sglang_diagnose
"""

EXAMPLES = r"""
- name: Look at everything that is declared for this host
  blackwell.sglang.sglang_status_info:
    instances:
      - name: qwen
        port: 30000
    resolved: "{{ sglang_resolved.instances }}"
  register: sglang_status

- name: Show whether it is proved
  ansible.builtin.debug:
    msg: "{{ sglang_status.gates.qwen.passed }}"
"""

RETURN = r"""
instances:
  description: One entry an instance, as M(blackwell.sglang.sglang_service_info) returns it.
  returned: always
  type: dict
  sample: {qwen: {action: none, reasons: [], link: 20261129T180112Z-3f9a1c22, is_good: true}}
gpus:
  description: Memory of the GPUs and who holds it, as M(blackwell.sglang.sglang_service_info) returns it.
  returned: always
  type: dict
  sample: {error: "", gpus: [{index: 0, uuid: GPU-4f1c, used_mib: 90112, total_mib: 97887}], holders: []}
releases:
  description: Releases on this host, newest first.
  returned: always
  type: list
  elements: dict
  sample: [{id: 20261129T180112Z-3f9a1c22, state: verified, stack: nightly, stack_digest: 0a1b2c3d4e5f, exists: true}]
files:
  description: The further files and whether each is as wanted.
  returned: always
  type: list
  elements: dict
  sample: []
strangers:
  description: Running units named sglang-* that no given instance accounts for.
  returned: always
  type: list
  elements: dict
  sample: [{unit: sglang-old.service, active: active, sub: running}]
hand_made:
  description:
    - Units that somebody wrote by hand to serve SGLang and that run now or start at the next boot, with port and GPUs
      as far as their text shows them.
    - C(adopt) is the entry of C(sglang_instances) that takes one over; secrets are left out of it.
  returned: always
  type: list
  elements: dict
  sample:
    - unit: old-llm.service
      path: /etc/systemd/system/old-llm.service
      active: inactive
      sub: dead
      enabled: true
      port: 30000
      gpus: [0, 1]
      adopt: '{"name": "old-llm", "model_path": "/models/X", "args": {"tp": 2}}'
gates:
  description:
    - By name, the cheap part of the gate of each instance that runs, as M(blackwell.sglang.sglang_gate) returns it.
    - C(error) says why it could not be run at all, and is empty where it was run.
    - C(recorded) says whether the proofs on the host hold the result already.
  returned: always
  type: dict
  sample: {qwen: {passed: true, checks: [], proof: {kv: {effective_dtype: bfloat16, verdict: ok}}, error: ""}}
diagnoses:
  description: By name, why an instance that should run does not, as M(blackwell.sglang.sglang_diagnose) returns it.
  returned: always
  type: dict
  sample: {kimi: {id: out_of_memory, what: The GPU has no memory left., fix: Lower mem_fraction_static.}}
last_errors:
  description: By name, why the start before the one that runs now failed, where systemd restarted the unit.
  returned: always
  type: dict
  sample:
    qwen:
      {restarts: 2, at: "2026-11-29T18:04:02Z", diagnosis: {id: out_of_memory, what: The GPU has no memory left.}}
interrupted:
  description: By name, the deployment that a boot cut off, unless a run has proved something since.
  returned: always
  type: dict
  sample: {qwen: {release: r2, at: "2026-11-29T18:00:00Z", recovered: "2026-11-29T18:07:31Z"}}
users:
  description: By index of the GPU, the processes that hold its memory or have it open, in words.
  returned: always
  type: dict
  sample: {"0": "sglang::scheduler_TP0 pid 4711 (sglang, sglang-qwen.service)"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_plan, _service_status
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_service_plan.ARGUMENTS,
            "resolved": {"type": "list", "elements": "dict", "required": True},
            "ask": {"type": "str", "choices": ["all", "unchanged"], "default": "all"},
        },
        supports_check_mode=True,
    )
    run = _service_status.at_once(_service.runner(module))
    state = _service_plan.from_params(run, module.params)
    resolved, root, unchanged = module.params["resolved"], module.params["root"], module.params["ask"] == "unchanged"
    try:
        state.update(_service_status.ask(run, state, resolved, root, {}, unchanged=unchanged))
    except SglangError as exc:
        module.fail_json(msg=str(exc), **exc.as_dict())
    module.exit_json(changed=False, **state)


if __name__ == "__main__":
    main()

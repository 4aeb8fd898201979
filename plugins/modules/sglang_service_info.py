#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_service_info
short_description: Read the state of SGLang instances and what is to be done to them
version_added: "1.0.0"
description:
  - Reads, in one call, all that the role P(blackwell.sglang.sglang_service#role) decides on. That is the units, the
    links to releases, digests of the files that templates would write, the memory of the GPUs and who holds it, who
    listens on the ports, and the last proof.
  - Says for each instance what has to be done and why, and what stands in the way. Nothing is changed.
  - Works on a bare host without systemd, driver or any release, so that check mode can say what would happen.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
  - blackwell.sglang.service_state
seealso:
  - module: blackwell.sglang.sglang_status_info
  - module: blackwell.sglang.sglang_gate
"""

EXAMPLES = r"""
- name: What runs here, and is it what was proved
  blackwell.sglang.sglang_service_info:
    instances:
      - name: qwen
        port: 30000
  register: sglang_state

- name: Show it
  ansible.builtin.debug:
    msg: "{{ sglang_state.instances.qwen.action }}: {{ sglang_state.instances.qwen.reasons | join('; ') }}"
"""

RETURN = r"""
instances:
  description: One entry an instance, by name.
  returned: always
  type: dict
  sample:
    qwen:
      action: gate
      reasons: ["the last proof is of another start"]
      obstacles: []
      unit:
        {active: active, sub: running, load: loaded, enabled: true, main_pid: 812, restarts: 1, result: success,
         invocation_id: 7f1d0c9b5b7e4e0f8d4d2c5a4d1c9a10, needs_reload: false, drop_ins: [],
         since: "Sun 2026-11-29 18:02:11 UTC"}
      link: 20261129T180112Z-3f9a1c22
      release: 20261129T180112Z-3f9a1c22
      release_state: verified
      files: [{path: /etc/systemd/system/sglang-qwen.service, current: true}]
      drop_ins: [{path: /etc/systemd/system/sglang-.service.d/10-nccl.conf, kind: role, sets: [Environment]}]
      exclusive:
        {path: /etc/systemd/system/sglang-qwen.service.d/20-conflicts.conf, text: "", current: true}
      listeners: [{pid: 812, name: python, user: sglang, unit: sglang-qwen.service, address: 127.0.0.1}]
      pending: null
      is_good: true
      good: [{release: 20261129T180112Z-3f9a1c22, at: "2026-11-29T18:04:02Z"}]
      proof: {passed: true, at: "2026-11-29T18:04:02Z", invocation_id: 1c9a107f1d0c9b5b7e4e0f8d4d2c5a4d}
gpus:
  description: Memory of the GPUs in MiB and the processes that hold it, as far as they can be seen from here.
  returned: always
  type: dict
  sample:
    error: ""
    gpus: [{index: 0, uuid: GPU-4f1c, used_mib: 90112, total_mib: 97887}]
    holders: [{index: 0, mib: 90112, pid: 900, name: "sglang::scheduler_TP0", user: sglang, unit: sglang-qwen.service}]
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
  sample: [{path: /opt/sglang/lib/sglang_launch.py, current: true, mode: "0755"}]
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
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_plan


def main() -> None:
    module = AnsibleModule(
        argument_spec=_service_plan.ARGUMENTS,
        supports_check_mode=True,
    )
    state = _service_plan.from_params(_service.runner(module), module.params)
    module.exit_json(changed=False, **state)


if __name__ == "__main__":
    main()

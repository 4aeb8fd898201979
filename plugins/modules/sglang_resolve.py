#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_resolve
short_description: Merge profiles, instances and stacks of a host into what it shall serve
version_added: "1.0.0"
description:
  - Reads C(sglang_instances), C(sglang_stacks), C(sglang_profiles) and the other inventory variables of the current
    host and merges them with what the collection ships.
  - It checks types, names, engine arguments (against the option table of the stack's SGLang version) and the rules that
    the engine's parser cannot know, and lists every problem at once.
  - It runs on the controller and makes no connection. No secret enters its result.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
options:
  fail:
    description: Fail with one message that lists every problem. If V(false), problems are only returned.
    type: bool
    default: true
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.sglang_validate
notes:
  - The schema of RV(resolved) is docs/contracts/resolved_host.schema.json.
"""

EXAMPLES = r"""
- name: Resolve what this host shall serve
  when: sglang_resolved is not defined
  block:
    - name: Merge its variables with what the collection ships
      blackwell.sglang.sglang_resolve:
      register: sglang_resolve_result

    - name: Keep the result for the roles that follow
      ansible.builtin.set_fact:
        sglang_resolved: "{{ sglang_resolve_result.resolved }}"
"""

RETURN = r"""
resolved:
  description: What the host shall serve.
  returned: always
  type: dict
  contains:
    host:
      description: The host itself.
      returned: always
      type: dict
      sample: {hypervisor: pve1, guest_kind: lxc, vmid: 129, root: /opt/sglang, user: sglang}
    stacks:
      description: The stacks that its instances use, by name, with C(digest) and C(engine_version).
      returned: always
      type: dict
      sample:
        stable:
          channel: stable
          requirements: {sglang: {version: "==0.5.23"}}
          engine_version: 0.5.23
          digest: 5c1f0e3d7a92
    instances:
      description: Its instances, in the order of the inventory.
      returned: always
      type: list
      elements: dict
      sample:
        - name: qwen
          unit: sglang-qwen.service
          state: started
          stack: nightly
          model_path: /models/Qwen3.5-397B-A17B-NVFP4
          kv_cache_dtype: bf16
          tp_size: 8
          argv: [--model-path, /models/Qwen3.5-397B-A17B-NVFP4, --host, 127.0.0.1, --port, "30000"]
    problems:
      description: What must be put right; C(host), C(where), C(what), C(expected), C(fix) and C(id) of each.
      returned: always
      type: list
      elements: dict
      sample: []
    warnings:
      description: What an operator should know, in the same form.
      returned: always
      type: list
      elements: dict
      sample: []
"""

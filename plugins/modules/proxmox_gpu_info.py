#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_gpu_info
short_description: Read on a Proxmox VE host whether guests are given the GPUs that they need
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Reads state and configuration of guests and the hypervisor's device nodes in one call, however many they are.
  - Understands C(dev[n]) and the older C(lxc.mount.entry) with C(lxc.cgroup2.devices.allow), and finds device
    rules whose major is no longer the driver's.
  - Writes the C(pct set) or C(qm set) line that gives what is missing. Changes nothing.
  - Runs on the hypervisor as root, which alone may read F(/etc/pve) and PCI configuration space.
options:
  guests:
    description:
      - Guests to look at.
      - When it is left out, these are the hosts of O(group) whose C(sglang_hypervisor) is the current host, with the
        number of GPUs that their instances need.
    type: list
    elements: dict
    suboptions:
      vmid:
        description: Number of the guest.
        type: int
        required: true
      kind:
        description: Container or virtual machine.
        type: str
        choices: [lxc, qemu]
        default: lxc
      host:
        description: Name of the guest in the inventory, for messages.
        type: str
        required: true
      gpus:
        description: Number of GPUs that it needs; one at least is looked for.
        type: int
        default: 1
      user:
        description: User that the service runs as inside; a user other than root needs nodes that it can open.
        type: str
        default: sglang
  group:
    description: Inventory group in which O(guests) are looked for when that is left out.
    type: str
    default: sglang_hosts
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.gpu_host_info
"""

EXAMPLES = r"""
- name: Look at the guests of this hypervisor, as the inventory names them
  blackwell.sglang.proxmox_gpu_info:
  register: hypervisor

- name: Look at one container
  blackwell.sglang.proxmox_gpu_info:
    guests:
      - {vmid: 129, kind: lxc, host: sglang1, gpus: 8}
  register: hypervisor

- name: Stop with the line to run
  ansible.builtin.fail:
    msg: "{{ hypervisor.message }}"
  when: not hypervisor.ok
"""

RETURN = r"""
ok:
  description: Whether every guest runs and has what it needs, and nothing on the hypervisor prevents it.
  returned: always
  type: bool
  sample: false
message:
  description: What is wrong with every guest, and the lines to run; empty when nothing is.
  returned: always
  type: str
  sample: |-
    sglang1 (guest 129, lxc): /dev/nvidia-uvm is not given to the guest.
      On the hypervisor, as root:
        pct set 129 --dev9 /dev/nvidia-uvm,mode=0666
guests:
  description: Each guest.
  returned: always
  type: list
  elements: dict
  contains:
    vmid: {description: Its number., type: int, returned: always}
    kind: {description: "V(lxc) or V(qemu).", type: str, returned: always}
    host: {description: Its name in the inventory., type: str, returned: always}
    state: {description: Its state as Proxmox tells it., type: str, returned: always}
    running: {description: Whether it runs., type: bool, returned: always}
    style: {description: "V(dev), V(mount), V(both), V(hostpci) or V(none).", type: str, returned: always}
    devices: {description: Nodes (or addresses) that it can use., type: list, elements: str, returned: always}
    missing: {description: "What is lacking, a sentence each.", type: list, elements: str, returned: always}
    fix: {description: Lines to run on the hypervisor., type: str, returned: always}
    warnings: {description: What will go wrong later., type: list, elements: str, returned: always}
    ok: {description: Whether nothing is lacking., type: bool, returned: always}
  sample:
    - vmid: 129
      kind: lxc
      host: sglang1
      state: running
      running: true
      style: dev
      devices: [/dev/nvidia0, /dev/nvidiactl, /dev/nvidia-uvm]
      missing: []
      fix: ""
      warnings: []
      ok: true
devices:
  description: The nodes /dev/nvidia* of the hypervisor.
  returned: always
  type: list
  elements: str
  sample: [/dev/nvidia-uvm, /dev/nvidia0, /dev/nvidiactl]
findings:
  description: What the rules say of the hypervisor, as in M(blackwell.sglang.gpu_host_info).
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_hypervisor
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host


def main() -> None:
    guest = {
        "vmid": {"type": "int", "required": True},
        "kind": {"type": "str", "choices": ["lxc", "qemu"], "default": "lxc"},
        "host": {"type": "str", "required": True},
        "gpus": {"type": "int", "default": 1},
        "user": {"type": "str", "default": "sglang"},
    }
    module = AnsibleModule(
        argument_spec={
            "guests": {"type": "list", "elements": "dict", "options": guest},
            "group": {"type": "str", "default": "sglang_hosts"},
        },
        supports_check_mode=True,
    )
    result = _gpu_hypervisor.read(Host(module.run_command), module.params["guests"] or [])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

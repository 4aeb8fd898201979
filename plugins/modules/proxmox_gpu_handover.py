#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_gpu_handover
short_description: Move GPUs between a Proxmox VE host with a container and a virtual machine
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - A state, not a command. V(vm) means that C(vfio-pci) has the cards, that the VM's configuration names them, and that
    the containers named do not. V(host) means that the NVIDIA driver has them and the container is given them.
  - Everything that would stop it is looked for first, and told in one message. That is another guest that names a card,
    a process that holds one, devices that share an IOMMU group, a missing reset method, a card that does not answer.
  - To a VM, containers are shut down and lose their entries, and services that hold cards (the persistence daemon) are
    stopped. Memory is seen free, each function gets a C(driver_override) of its own, the VM is given the cards and
    started. Nothing is done by device ids, which would take every card of a model.
  - When a step fails, it and those before it are taken back, last first.
  - Never reboots the hypervisor. Runs there as root. In check mode it only plans.
options:
  gpus:
    description: Cards by PCI address; while the NVIDIA driver has them also by number or UUID.
    type: list
    elements: str
    required: true
  owner:
    description: Who shall have the cards.
    type: str
    choices: [vm, host]
    required: true
  vmid:
    description: Number of the virtual machine.
    type: int
    required: true
  containers:
    description: Containers that lose the cards to the VM, or the one that gets them.
    type: list
    elements: int
    default: []
  start:
    description: Whether the guest that has the cards in the end is started.
    type: bool
    default: true
  shutdown_timeout:
    description: Seconds for a guest's shutdown.
    type: int
    default: 180
  driver_timeout:
    description: Seconds for a driver to let a card go or to take it.
    type: float
    default: 30
  memory_timeout:
    description: Seconds for the memory of the cards to be given back.
    type: float
    default: 60
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
seealso:
  - module: blackwell.sglang.proxmox_lxc_gpu
"""

EXAMPLES = r"""
- name: Hand two cards of container 129 to VM 900
  blackwell.sglang.proxmox_gpu_handover:
    gpus: ["0000:c1:00", "0000:e1:00"]
    owner: vm
    vmid: 900
    containers: [129]
  delegate_to: pve1

- name: And back
  blackwell.sglang.proxmox_gpu_handover:
    gpus: ["0000:c1:00", "0000:e1:00"]
    owner: host
    vmid: 900
    containers: [129]
  delegate_to: pve1
"""

RETURN = r"""
plan:
  description: The steps, in order; empty when the cards are where they shall be.
  returned: always
  type: list
  elements: str
  sample:
    - shut container 129 (sglang1) down
    - take 0000:c1:00 from container 129 (sglang1)
    - stop nvidia-persistenced.service
    - see that nobody holds the cards
    - load vfio-pci
    - bind 0000:c1:00.0 to vfio-pci
    - bind 0000:c1:00.1 to vfio-pci
    - start nvidia-persistenced.service for the cards of this host
    - start container 129 (sglang1)
    - give the cards to VM 900
    - start VM 900
    - see that vfio-pci has the cards
done:
  description: Steps that were made and stand.
  returned: always
  type: list
  elements: str
  sample: []
undone:
  description: Steps that were taken back after a failure, in that order.
  returned: always
  type: list
  elements: str
  sample: []
stuck:
  description: What could not be taken back, with the reason.
  returned: always
  type: list
  elements: str
  sample: []
cards:
  description: The cards after the run.
  returned: always
  type: list
  elements: dict
  sample:
    - address: "0000:c1:00"
      node: ""
      group: "41"
      drivers: {"0000:c1:00.0": vfio-pci, "0000:c1:00.1": vfio-pci}
      reset_method: bus
notes:
  description: What deserves attention.
  returned: always
  type: list
  elements: str
  sample: ["VM 901 (old) claims 0000:c1:00 (hostpci0); it cannot start while the cards are elsewhere"]
"""

import fcntl
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _handover
from ansible_collections.blackwell.sglang.plugins.module_utils import _handover_steps as steps
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

_LOCK = "/run/lock/sglang-gpu-handover.lock"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "list", "elements": "str", "required": True},
            "owner": {"type": "str", "choices": ["vm", "host"], "required": True},
            "vmid": {"type": "int", "required": True},
            "containers": {"type": "list", "elements": "int", "default": []},
            "start": {"type": "bool", "default": True},
            "shutdown_timeout": {"type": "int", "default": 180},
            "driver_timeout": {"type": "float", "default": 30.0},
            "memory_timeout": {"type": "float", "default": 60.0},
        },
        supports_check_mode=True,
    )
    with open(_LOCK, "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            module.fail_json(msg="another hand-over runs on this host. Fix: wait for its end")
        try:
            _run(module)
        except SglangError as error:
            module.fail_json(msg=str(error), kind=error.kind)


def _run(module: AnsibleModule) -> None:
    params = module.params
    host = Host(module.run_command)
    order = _handover.Order(
        tuple(params["gpus"]), params["owner"], params["vmid"], tuple(params["containers"]), params["start"]
    )
    state = _handover.read(host, order)
    before = _handover.view(state)
    result: dict[str, t.Any] = {"changed": False, "plan": [], "done": [], "undone": [], "stuck": [], "cards": before}
    if _handover.done(state, order):
        module.exit_json(**result, notes=[])
    wrong, notes = _handover.refusals(host, state, order)
    if wrong:
        module.fail_json(msg="the hand-over is refused, and nothing was touched. " + ". ".join(wrong), **result)
    limits = steps.Limits(params["shutdown_timeout"], params["driver_timeout"], params["memory_timeout"])
    plan = steps.Steps(module.run_command, host, state, order, limits).steps()
    result.update(changed=bool(plan), plan=[each.name for each in plan], notes=notes)
    if module.check_mode:
        result["diff"] = {"before": "", "after": "".join(f"{each.name}\n" for each in plan)}
        module.exit_json(**result)
    outcome = steps.run(plan)
    after = _handover.view(_handover.read(host, order))
    result.update(done=outcome.made, undone=outcome.undone, stuck=outcome.stuck, cards=after)
    result["diff"] = {"before": _lines(before), "after": _lines(after)}
    if outcome.failure:
        end = "What was done is taken back."
        if outcome.stuck:
            end = f"Not everything could be taken back: {'; '.join(outcome.stuck)}."
        # What was made and taken back again is no change.
        result.update(changed=bool(outcome.stuck), done=[])
        module.fail_json(msg=f"the hand-over failed. {outcome.failure}. {end}", **result)
    module.exit_json(**result)


def _lines(cards: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    return "".join(f"{address} {driver}\n" for card in cards for address, driver in card["drivers"].items())


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_gpu_release
short_description: End what holds GPUs for one container, from the hypervisor
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Finds the processes that have NVIDIA's nodes open or hold GPU memory, and tells by their control group which guest
    each belongs to.
  - Ends those of one container, with the rest of their process groups inside it, TERM first and KILL after O(grace).
    Processes of other guests and of the hypervisor, and the container's init, are never touched.
  - What systemd restarts comes back, so stop the unit first, or name it in O(spare_units) when it shall stay.
  - Runs on the hypervisor as root, the only place from which all holders are seen.
options:
  vmid:
    description: Number of the container.
    type: int
    required: true
  gpus:
    description: Numbers of the cards' nodes on the hypervisor; every card when it is left out.
    type: list
    elements: int
  spare_units:
    description: Units inside the container whose processes stay, for instance of an instance that serves as it should.
    type: list
    elements: str
    default: []
  grace:
    description: Seconds between TERM and KILL.
    type: float
    default: 15
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
  - module: blackwell.sglang.sglang_service_stop
"""

EXAMPLES = r"""
- name: Clear what a dead server of container 129 left on the cards
  blackwell.sglang.proxmox_gpu_release:
    vmid: 129
  delegate_to: pve1

- name: The same beside an instance that serves
  blackwell.sglang.proxmox_gpu_release:
    vmid: 129
    gpus: [4, 5, 6, 7]
    spare_units: [sglang-qwen.service]
  delegate_to: pve1
"""

RETURN = r"""
ended:
  description: Processes that were ended, or would be.
  returned: always
  type: list
  elements: dict
  sample:
    - {pid: 81213, name: "sglang::scheduler_TP0", user: "999", state: S, unit: session-4.scope, minors: [0], mib: 90112}
left:
  description: Those of them that are still there after KILL; in state D they are inside the driver.
  returned: always
  type: list
  elements: dict
  sample: []
others:
  description: Holders of the same cards that were left alone, with the guest that each belongs to.
  returned: always
  type: list
  elements: dict
  sample:
    - {pid: 90211, name: "sglang::scheduler_TP0", user: "999", vmid: 130, kind: lxc, minors: [4], mib: 90112}
used_mib:
  description: Memory in use afterwards by number of the card's node.
  returned: always
  type: dict
  sample: {"0": 0, "4": 90112}
wedged:
  description: Cards with memory in use that no process holds; only a reset gives it back.
  returned: always
  type: list
  elements: int
  sample: []
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_holders as holders
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

# The driver gives pinned memory back for a while after the process is gone.
_SETTLE_S = 10.0
_LOOK_AGAIN_S = 1.0
_MINE = ("pid", "name", "user", "state", "unit", "minors", "mib")
_OTHERS = ("pid", "name", "user", "vmid", "kind", "minors", "mib")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "vmid": {"type": "int", "required": True},
            "gpus": {"type": "list", "elements": "int"},
            "spare_units": {"type": "list", "elements": "str", "default": []},
            "grace": {"type": "float", "default": 15.0},
        },
        supports_check_mode=True,
    )
    params = module.params
    host = Host(module.run_command)
    found = holders.read(host, params["gpus"])
    mine, others = holders.targets(host, found, params["vmid"], params["spare_units"])
    left = [] if module.check_mode else holders.end(mine, params["grace"], host)
    used, wedged = _settled(host, params["gpus"], bool(mine) and not module.check_mode)
    result = {
        "changed": bool(mine),
        "ended": [_part(each, _MINE) for each in mine],
        "left": [_part(each, _MINE) for each in left],
        "others": [_part(each, _OTHERS) for each in others],
        "used_mib": {str(minor): mib for minor, mib in used.items()},
        "wedged": wedged,
        "diff": {"before": _lines(mine), "after": _lines(left)},
    }
    if left:
        words = "; ".join(f"{each['pid']} {each['name']} (state {each['state']})" for each in left)
        module.fail_json(
            msg=f"container {params['vmid']}: {words} outlived KILL, so the driver does not let it go."
            " Fix: reset the card on the hypervisor (nvidia-smi --gpu-reset -i N), else reboot it.",
            **result,
        )
    module.exit_json(**result)


def _settled(host: Host, gpus: t.Collection[int] | None, wait: bool) -> tuple[dict[int, int], list[int]]:
    """Memory by card, and the cards that are wedged: those that were it at two looks, since servers come and go."""
    deadline = time.monotonic() + (_SETTLE_S if wait else _LOOK_AGAIN_S)
    before: list[int] | None = None
    while True:
        usage, by_pid = holders.usage(host)
        used = {minor: mib for minor, mib in usage.items() if gpus is None or minor in gpus}
        now = holders.wedged(used, by_pid, holders.read(host))
        if not now or (before is not None and time.monotonic() >= deadline):
            return used, [minor for minor in now if minor in (before or [])]
        before = now
        time.sleep(0.5)


def _part(each: holders.Holder, keys: t.Sequence[str]) -> dict[str, t.Any]:
    plain = t.cast(dict[str, t.Any], each)
    return {key: plain[key] for key in keys}


def _lines(found: t.Sequence[holders.Holder]) -> str:
    return "".join(f"{each['pid']} {each['name']} GPU {each['minors']} {each['mib']} MiB\n" for each in found)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: proxmox_lxc_gpu
short_description: Give GPUs to a Proxmox VE container
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Sets C(dev[n]) entries so that the container has exactly the GPUs named, with their control nodes. An empty list
    takes all of them away.
  - Entries of the older style (C(lxc.mount.entry) with C(lxc.cgroup2.devices.allow)) that name NVIDIA's nodes are
    turned into C(dev[n]), in one write of the file. Device rules of other drivers, and every other entry, stay.
  - A running container gets new entries at once. Changed, removed and converted ones wait for its next start; the
    result says so, and O(restart) makes it.
  - Works with C(pct) on the hypervisor as root. With O(api_host) it uses the API, where Proxmox VE lets C(root@pam)
    with a password alone set devices, and nobody change C(lxc.*) lines.
options:
  vmid:
    description: Number of the container.
    type: int
    required: true
  gpus:
    description:
      - GPUs by number (of F(/dev/nvidiaN) on the hypervisor), UUID or PCI address; V(all) is every one.
      - Through the API only numbers.
    type: list
    elements: str
    required: true
  control:
    description:
      - Whether C(nvidiactl), C(nvidia-uvm) and, where they are, C(nvidia-uvm-tools) and C(nvidia-modeset) go along.
    type: bool
    default: true
  caps:
    description: Whether the nodes of F(/dev/nvidia-caps) go along, readable; only MIG and profiling use them.
    type: bool
    default: false
  mode:
    description: Mode of the nodes inside. Proxmox VE's own default, 0660, leaves a service user out.
    type: str
    default: "0666"
  uid:
    description: Owner of the nodes inside; Proxmox VE's default is 0.
    type: int
  gid:
    description: Group of the nodes inside; Proxmox VE's default is 0.
    type: int
  restart:
    description: Whether a running container is shut down and started when a change waits for that.
    type: bool
    default: false
  restart_timeout:
    description: Seconds for the container's shutdown.
    type: int
    default: 180
  api_host:
    description: Host of the API, with its port unless that is 8006; without it C(pct) is used on the current host.
    type: str
  api_user:
    description: User of the API.
    type: str
    default: root@pam
  api_password:
    description: Password of the API's user.
    type: str
  api_token_id:
    description: Name of a token; such a session may look, but is refused every change of devices.
    type: str
  api_token_secret:
    description: The token's secret.
    type: str
  api_node:
    description: Name of the node that has the container; required with O(api_host).
    type: str
  validate_certs:
    description: Whether the API's certificate is checked.
    type: bool
    default: true
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - proxmoxer and requests, with O(api_host) only
seealso:
  - module: blackwell.sglang.proxmox_gpu_info
  - module: blackwell.sglang.proxmox_gpu_release
"""

EXAMPLES = r"""
- name: Give four cards to container 129 and restart it when that is needed
  blackwell.sglang.proxmox_lxc_gpu:
    vmid: 129
    gpus: [0, 1, 2, 3]
    restart: true
  delegate_to: pve1

- name: Take every card away
  blackwell.sglang.proxmox_lxc_gpu:
    vmid: 129
    gpus: []
  delegate_to: pve1

- name: The same through the API
  blackwell.sglang.proxmox_lxc_gpu:
    vmid: 129
    gpus: [0, 1]
    api_host: pve1.example.org
    api_password: "{{ vault_pve_root_password }}"
    api_node: pve1
  delegate_to: localhost
"""

RETURN = r"""
entries:
  description: The entries for GPUs after the change, or as they would be.
  returned: success
  type: dict
  sample: {dev0: "/dev/nvidia0,mode=0666", dev1: "/dev/nvidiactl,mode=0666", dev2: "/dev/nvidia-uvm,mode=0666"}
hot:
  description: Entries that reached the running container at once.
  returned: success
  type: list
  elements: str
  sample: [dev0, dev1, dev2]
converted:
  description: Lines of the old style that were taken out.
  returned: success
  type: list
  elements: str
  sample: ["lxc.cgroup2.devices.allow: c 195:* rwm"]
foreign:
  description: Device rules that were left alone, since they may belong to another driver.
  returned: success
  type: list
  elements: str
  sample: ["lxc.cgroup2.devices.allow: c 226:* rwm"]
restart_needed:
  description: Why the container must be shut down and started; empty when it need not, or was.
  returned: success
  type: list
  elements: str
  sample: ["dev3 change or go with the next start"]
restarted:
  description: Whether it was restarted.
  returned: success
  type: bool
  sample: false
running:
  description: Whether it ran before.
  returned: success
  type: bool
  sample: true
"""

import importlib
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gpu_hypervisor,
    _gpu_kernel,
    _gpu_proxmox,
    _lxc_gpu,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from ansible_collections.blackwell.sglang.plugins.module_utils._lxc_gpu_via import Api, Pct, ask

try:
    ProxmoxAPI = importlib.import_module("proxmoxer").ProxmoxAPI
except ImportError:
    ProxmoxAPI = None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "vmid": {"type": "int", "required": True},
            "gpus": {"type": "list", "elements": "str", "required": True},
            "control": {"type": "bool", "default": True},
            "caps": {"type": "bool", "default": False},
            "mode": {"type": "str", "default": "0666"},
            "uid": {"type": "int"},
            "gid": {"type": "int"},
            "restart": {"type": "bool", "default": False},
            "restart_timeout": {"type": "int", "default": 180},
            "api_host": {"type": "str"},
            "api_user": {"type": "str", "default": "root@pam"},
            "api_password": {"type": "str", "no_log": True},
            "api_token_id": {"type": "str", "no_log": False},
            "api_token_secret": {"type": "str", "no_log": True},
            "api_node": {"type": "str"},
            "validate_certs": {"type": "bool", "default": True},
        },
        required_by={"api_host": ["api_node"]},
        mutually_exclusive=[("api_password", "api_token_secret")],
        required_together=[("api_token_id", "api_token_secret")],
        supports_check_mode=True,
    )
    try:
        module.exit_json(**_run(module))
    except SglangError as error:
        module.fail_json(msg=f"container {module.params['vmid']}: {error}", kind=error.kind)


def _run(module: AnsibleModule) -> dict[str, t.Any]:
    params = module.params
    host = Host(module.run_command)
    if params["api_host"]:
        via: Api | Pct = _api(module)
        numbers = [word for word in params["gpus"] if not word.isdigit()]
        if numbers:
            raise SglangError(f"GPU {numbers[0]} cannot be looked up through the API", fix="name it by its number")
        nodes = {f"/dev/nvidia{word}": (195, int(word)) for word in params["gpus"]}
        majors: dict[int, str] = {}
    else:
        via = Pct(module.run_command, params["vmid"], host)
        nodes = _gpu_hypervisor.nodes_of(host)
        majors = {number: name for name, number in _gpu_kernel.majors(host.text("/proc/devices")).items()}
    cards = _lxc_gpu.cards(params["gpus"], nodes, _gpu_hypervisor.identities(host) if not params["api_host"] else [])
    want = _lxc_gpu.Want(tuple(cards), params["control"], params["caps"], params["mode"], params["uid"], params["gid"])
    before, running = via.text(), via.running()
    if params["api_host"]:
        # Whether the hypervisor has these cannot be asked; what pct gave stays.
        have = {word.split(",")[0] for word in _lxc_gpu.devices(before).values()}
        nodes.update({path: (0, 0) for path in _gpu_proxmox.OPTIONAL if path in have})
    change = _lxc_gpu.plan(before, want, nodes, majors, running)
    waiting, restarted, after = list(change.waiting), False, before
    if change.changed:
        via.refuse(change)
    if change.changed and not module.check_mode:
        via.apply(change)
        after = via.text()
    elif change.changed:
        after = _lxc_gpu.rewrite(before, change)
    if waiting and params["restart"]:
        restarted = True
        if not module.check_mode:
            via.restart(params["restart_timeout"])
            after = via.text()
        waiting = []
    shown = [_lxc_gpu.devices(text) for text in (before, after)]
    return {
        "changed": change.changed or restarted,
        "entries": {key: value for key, value in shown[1].items() if key.startswith("dev")},
        "hot": list(change.hot),
        "converted": list(change.lines),
        "foreign": list(change.foreign),
        "restart_needed": waiting,
        "restarted": restarted,
        "running": running,
        "diff": {
            word: "".join(f"{key}: {value}\n" for key, value in entries.items())
            for word, entries in zip(("before", "after"), shown, strict=True)
        },
    }


def _api(module: AnsibleModule) -> Api:
    params = module.params
    if ProxmoxAPI is None:
        module.fail_json(msg=missing_required_lib("proxmoxer") + " Or leave api_host out: pct over ssh needs nothing.")
    user = params["api_user"]
    words = {"password": params["api_password"]}
    if params["api_token_id"]:
        words = {"token_name": params["api_token_id"], "token_value": params["api_token_secret"]}
    asked = {"user": user, "verify_ssl": params["validate_certs"], "timeout": 30, **words}
    api = ask("the session", ProxmoxAPI, params["api_host"], **asked)
    return Api(api, params["api_node"], params["vmid"], user == "root@pam" and not params["api_token_id"])


if __name__ == "__main__":
    main()

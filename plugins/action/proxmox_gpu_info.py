# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a hypervisor's guests in the inventory, then read the hypervisor (documented in the module of the same name).

Only the controller knows which guests name this hypervisor and how many GPUs their instances need; one module call on
the hypervisor does the rest, and none is made when there is no guest.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _hostvars


class ActionModule(ActionBase):
    """Reads only, so check mode makes no difference."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The module's result for the guests given or found."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        options = dict(self._task.args)
        if options.get("guests") is None:
            options["guests"] = guests_of(variables, str(options.get("group", "sglang_hosts")))
        if not options["guests"]:
            result.update(changed=False, ok=True, message="", guests=[], devices=[], findings=[])
            return result
        result.update(
            self._execute_module(
                module_name="blackwell.sglang.proxmox_gpu_info", module_args=options, task_vars=variables
            )
        )
        return result


def guests_of(variables: t.Mapping[str, t.Any], group: str) -> list[dict[str, t.Any]]:
    """Guests in ``group`` that name the current host, each with the number of GPUs that its instances need.

    A guest whose variables have problems is still looked at, for one GPU: validate names the problems.
    """
    found = []
    for name in variables.get("groups", {}).get(group, []):
        guest = variables["hostvars"][name]
        if guest.get("sglang_hypervisor") != variables.get("inventory_hostname"):
            continue
        raw = {key: guest[key] for key in _hostvars.READ if key in guest}
        plain = _hostvars.plain_hostvars(name, raw, lambda value: value, Findings(name))
        resolved = _instances.resolve(plain, _hostvars.shipped_stacks(), _hostvars.shipped_profiles())
        host = resolved["host"]
        if host["guest_kind"] == "none" or host["vmid"] is None:
            continue
        found.append(
            {
                "vmid": host["vmid"],
                "kind": host["guest_kind"],
                "host": name,
                "gpus": gpus_needed(resolved["instances"]),
                "user": host["user"],
            }
        )
    return found


def gpus_needed(instances: t.Iterable[t.Mapping[str, t.Any]]) -> int:
    """Number of cards that a host must have: the highest index that an instance names, or the ranks of one with all."""
    needed = 1
    for instance in instances:
        cards = instance.get("gpus", "all")
        ranks = int(instance.get("tp_size") or 1)
        needed = max(needed, ranks, *(int(card) + 1 for card in cards if not isinstance(cards, str)))
    return needed

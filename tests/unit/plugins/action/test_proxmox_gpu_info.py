"""Which guests a hypervisor is asked about, from the inventory's variables."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.action import proxmox_gpu_info as action


def variables(**guests: dict[str, t.Any]) -> dict[str, t.Any]:
    """Task variables of pve1 with these hosts in sglang_hosts."""
    return {"inventory_hostname": "pve1", "groups": {"sglang_hosts": list(guests)}, "hostvars": guests}


def lxc(vmid: int) -> dict[str, t.Any]:
    return {"sglang_hypervisor": "pve1", "sglang_guest_kind": "lxc", "sglang_vmid": vmid}


def instance(**changes: t.Any) -> dict[str, t.Any]:
    return {"name": "qwen", "model_path": "/models/q", "args": {"tp_size": 4}, **changes}


def test_guests_of_this_hypervisor_with_the_cards_that_they_need() -> None:
    found = action.guests_of(
        variables(
            one={**lxc(101), "sglang_instances": [instance()]},
            two={**lxc(102), "sglang_hypervisor": "pve2", "sglang_instances": [instance()]},
            three={**lxc(103), "sglang_guest_kind": "qemu", "sglang_user": "root"},
            bare={**lxc(104), "sglang_guest_kind": "none"},
            unnumbered={"sglang_hypervisor": "pve1", "sglang_guest_kind": "lxc"},
            broken={**lxc(105), "sglang_instances": "no list"},
        ),
        "sglang_hosts",
    )
    assert found == [
        {"vmid": 101, "kind": "lxc", "host": "one", "gpus": 4, "user": "sglang"},
        {"vmid": 103, "kind": "qemu", "host": "three", "gpus": 1, "user": "root"},
        {"vmid": 105, "kind": "lxc", "host": "broken", "gpus": 1, "user": "sglang"},
    ]


def test_group_without_hosts() -> None:
    assert action.guests_of({"inventory_hostname": "pve1", "groups": {}}, "sglang_hosts") == []


@pytest.mark.parametrize(
    ("instances", "needed"),
    [
        ([], 1),
        ([{"gpus": "all", "tp_size": 8}], 8),
        ([{"gpus": [0, 1], "tp_size": 2}, {"gpus": [6, 7], "tp_size": 2}], 8),
        ([{"gpus": [], "tp_size": None}], 1),
    ],
)
def test_cards_needed(instances: list[dict[str, t.Any]], needed: int) -> None:
    assert action.gpus_needed(instances) == needed

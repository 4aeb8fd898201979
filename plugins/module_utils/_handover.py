# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a set of cards may change hands between the host with its containers and a VM (private).

Everything that would stop it is looked for before the first change; one message names all of it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_claims as claims
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_holders as holders
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_hypervisor as hypervisor
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils import _pci_cards as pci
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

# What holds cards without computing on them; each would block the release of a card or come back to it.
SERVICES = (
    "nvidia-persistenced.service",
    "nvidia-dcgm.service",
    "dcgm-exporter.service",
    "nvidia_gpu_exporter.service",
    "nvidia-cuda-mps.service",
)
# Cards of this generation whose function level reset is known not to come back, by Linux' own quirk (quirk_no_flr).
NO_FLR = ("0x2b85", "0x2b87", "0x2b8c")


@dataclasses.dataclass(frozen=True)
class Order:
    """What is asked: cards by any name, the side that shall have them, the VM, containers that take part."""

    gpus: tuple[str, ...]
    owner: str
    vmid: int
    containers: tuple[int, ...]
    start: bool = True


@dataclasses.dataclass(frozen=True)
class State:
    """The hypervisor before: cards, their nodes by address, every guest's claim, holders, memory by node number."""

    cards: tuple[pci.Card, ...]
    nodes: t.Mapping[str, str]
    claims: tuple[claims.Claim, ...]
    holders: tuple[holders.Holder, ...]
    iommu: bool
    guests: t.Mapping[tuple[str, int], dict[str, str]]
    running: t.Mapping[tuple[str, int], bool]


def read(host: Host, order: Order) -> State:
    """Everything that a decision needs.

    Raises:
        SglangError: a name fits no card, or a guest does not exist.
    """
    known = hypervisor.identities(host)
    addresses = [_address(host, name, known) for name in order.gpus]
    nodes = {card["address"]: card["node"] for card in known if card["address"] in addresses}
    guests, running = {}, {}
    for kind, vmid in [("qemu", order.vmid), *(("lxc", number) for number in order.containers)]:
        folder, program = ("lxc", "pct") if kind == "lxc" else ("qemu-server", "qm")
        text = host.text(f"/etc/pve/{folder}/{vmid}.conf")
        if not text:
            raise SglangError(
                f"no {'container' if kind == 'lxc' else 'VM'} {vmid} on this node",
                where=f"/etc/pve/{folder}/{vmid}.conf",
                fix=f"correct the number ({program} list)",
                kind="no_guest",
            )
        guests[kind, vmid] = dict(pve.config(text)[0])
        _rc, out, _err = host.run(host.which(program, "/usr/sbin:/usr/bin"), "status", str(vmid))
        running[kind, vmid] = "running" in out
    minors = {int(node[11:]) for node in nodes.values()}
    return State(
        tuple(pci.read(host, address) for address in dict.fromkeys(addresses)),
        nodes,
        tuple(claims.read(host, addresses, nodes)),
        tuple(holders.read(host, minors)) if minors else (),
        bool(host.glob("/sys/kernel/iommu_groups/*")),
        guests,
        running,
    )


def done(state: State, order: Order) -> bool:
    """Whether the cards are where they shall be, and the side that has them is configured and (when asked) runs."""
    mine = ("qemu", order.vmid)
    cards = {card["address"] for card in state.cards}
    claimed = {(each["kind"], each["vmid"]): set(each["cards"]) for each in state.claims}
    lxc = [("lxc", number) for number in order.containers]
    if order.owner == "vm":
        bound = all(each["driver"] == pci.VFIO for card in state.cards for each in card["functions"])
        free = not any(claimed.get(key) for key in lxc)
        return bound and free and claimed.get(mine) == cards and (state.running[mine] or not order.start)
    bound = all(card["functions"][0]["driver"] == pci.NVIDIA for card in state.cards)
    given = all(claimed.get(key) == cards and (state.running[key] or not order.start) for key in lxc)
    return bound and given and not claimed.get(mine)


def refusals(host: Host, state: State, order: Order) -> tuple[list[str], list[str]]:
    """What forbids the hand-over, and what deserves attention; a sentence each."""
    wrong, warned = [], []
    if order.owner == "vm":
        wrong += _passable(host, state)
        for each in state.holders:
            ours = each["kind"] == "lxc" and each["vmid"] in order.containers
            if not ours and each["unit"] not in SERVICES:
                wrong.append(f"process {each['pid']} ({each['name']}, {_owner(each)}) holds GPU {each['minors']}")
        if state.running["qemu", order.vmid]:
            wrong.append(f"VM {order.vmid} runs; it gets cards at its start only: shut it down first")
    elif len(order.containers) > 1:
        wrong.append("cards can go to one container only: name one")
    for claim in state.claims:
        if (claim["kind"], claim["vmid"]) == ("qemu", order.vmid):
            continue
        if claim["kind"] == "lxc" and claim["vmid"] in order.containers:
            continue
        words = f"{claims.title(claim)} claims {', '.join(claim['cards'])} ({', '.join(claim['keys'])})"
        if claim["kind"] == "lxc" and order.owner == "host":
            continue
        if claim["running"] or claim["onboot"] or claim["kind"] == "lxc":
            how = "and runs" if claim["running"] else "and starts at boot" if claim["onboot"] else ""
            fix = "name it in containers" if claim["kind"] == "lxc" else "remove the entry, or set onboot 0 and stop it"
            wrong.append(f"{words} {how}".rstrip() + f", so it would break: {fix}")
        else:
            warned.append(f"{words}; it cannot start while the cards are elsewhere")
    if order.owner == "host":
        wrong += _shared_entries(state, order)
        gone = [
            each["address"] for card in state.cards for each in card["functions"] if pci.gone(host, each["address"])
        ]
        if gone:
            wrong.append(f"{', '.join(gone)} does not answer (configuration space reads all ones): power the host off")
    return wrong, warned


def view(state: State) -> list[dict[str, t.Any]]:
    """The cards, for the module's result."""
    return [
        {
            "address": card["address"],
            "node": state.nodes.get(card["address"], ""),
            "group": card["group"],
            "drivers": {each["address"]: each["driver"] for each in card["functions"]},
            "reset_method": card["functions"][0]["reset"],
        }
        for card in state.cards
    ]


def _passable(host: Host, state: State) -> list[str]:
    """What forbids that the cards go to a VM at all."""
    if not state.iommu:
        return ["there is no IOMMU: take iommu=off and amd_iommu=off from the command line, switch it on in the BIOS"]
    wrong = []
    for card in state.cards:
        first = card["functions"][0]
        if not card["group"]:
            wrong.append(f"{card['address']} is in no IOMMU group")
        if card["strangers"]:
            wrong.append(
                f"{card['address']} shares IOMMU group {card['group']} with {', '.join(card['strangers'])},"
                " which would go along: put ACS back to isolated, or hand those over as well"
            )
        if not first["reset"]:
            wrong.append(
                f"{card['address']} has no reset method (reset_method is empty): it would not come back from a VM"
            )
        device = host.text(f"/sys/bus/pci/devices/{first['address']}/device").strip()
        if device in NO_FLR and first["reset"].split()[:1] == ["flr"]:
            wrong.append(
                f"{card['address']} resets by flr first, which this card does not survive: echo bus > reset_method"
            )
    return wrong


def _shared_entries(state: State, order: Order) -> list[str]:
    """hostpci entries of the VM that name other cards beside those that go."""
    cards = {card["address"] for card in state.cards}
    wrong = []
    for key, value in state.guests["qemu", order.vmid].items():
        named = {each["address"] for each in pve.hostpci([(key, value)])} - {""}
        if named & cards and named - cards:
            wrong.append(f"{key} of VM {order.vmid} names {', '.join(sorted(named - cards))} too: give each card a key")
    return wrong


def _address(host: Host, name: str, known: t.Sequence[t.Mapping[str, str]]) -> str:
    word = str(name).strip()
    for card in known:
        if word in (card["node"], card["node"][11:]) or word.lower() == card["uuid"].lower():
            return card["address"]
    address = pve.pci(word) if ":" in word else ""
    if address in pci.addresses(host):
        return address
    have = ", ".join(pci.addresses(host)) or "none"
    raise SglangError(
        f"no GPU {word}",
        expected=f"a card of the hypervisor: {have}",
        fix="name it by its PCI address; number and UUID are known only while the NVIDIA driver has it",
        kind="unknown_gpu",
    )


def _owner(each: holders.Holder) -> str:
    word = {"lxc": "container", "qemu": "VM"}.get(each["kind"])
    return f"{word} {each['vmid']}" if word else each["unit"] or "the hypervisor"

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guests of a Proxmox VE host name a card in their configuration (private)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host


class Claim(t.TypedDict):
    """A guest that names cards: ``keys`` are its entries for them, with their values."""

    vmid: int
    kind: str
    name: str
    running: bool
    onboot: bool
    keys: dict[str, str]
    cards: list[str]


def read(host: Host, cards: t.Collection[str], nodes: t.Mapping[str, str]) -> list[Claim]:
    """Claims of every guest on the cards.

    Args:
        host: the hypervisor.
        cards: addresses without function.
        nodes: address to node, for those cards that the NVIDIA driver has.
    """
    by_node = {node: address for address, node in nodes.items() if address in cards}
    found: list[Claim] = []
    for kind, folder, program in (("lxc", "lxc", "pct"), ("qemu", "qemu-server", "qm")):
        paths = host.glob(f"/etc/pve/{folder}/*.conf")
        states = _states(host, program) if paths else {}
        for path in paths:
            stem = path.rpartition("/")[2].removesuffix(".conf")
            if not stem.isdigit():
                continue
            current, pending = pve.config(host.text(path))
            settings = [*current, *((key, value) for key, value in pending if key != "delete")]
            hits = _container(settings, by_node) if kind == "lxc" else _machine(settings, cards, mappings(host))
            if hits:
                plain = dict(current)
                found.append(
                    {
                        "vmid": int(stem),
                        "kind": kind,
                        "name": plain.get("hostname") or plain.get("name", ""),
                        "running": states.get(int(stem)) not in ("stopped", None),
                        "onboot": plain.get("onboot") == "1",
                        "keys": {key: value for key, value, _card in hits},
                        "cards": sorted({card for _key, _value, card in hits}),
                    }
                )
    return found


def title(claim: Claim) -> str:
    """``container 101 (sglang1)`` or ``VM 900 (win)``."""
    word = "container" if claim["kind"] == "lxc" else "VM"
    return f"{word} {claim['vmid']}" + (f" ({claim['name']})" if claim["name"] else "")


def mappings(host: Host) -> dict[str, list[str]]:
    """Card addresses by name of a resource mapping, of /etc/pve/mapping/pci.cfg."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in host.text("/etc/pve/mapping/pci.cfg").splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            name = line.split()[0].rstrip(":")
        hit = re.search(r"\bpath=([^,\s]+)", line)
        if hit and name:
            found.setdefault(name, []).extend(pve.pci(address) for address in hit.group(1).split(";"))
    return found


def _container(settings: t.Iterable[tuple[str, str]], by_node: t.Mapping[str, str]) -> list[tuple[str, str, str]]:
    hits = []
    rows = [(key, value) for key, value in settings if key == "lxc.mount.entry" or re.fullmatch(r"dev\d+", key)]
    for number, (key, value) in enumerate(rows):
        for entry in pve.entries([(key, value)]):
            if entry.path in by_node:
                # Mount lines share one key, so each gets a name of its own here.
                name = key if entry.style == "dev" else f"{key} {number}"
                hits.append((name, value, by_node[entry.path]))
    return hits


def _machine(
    settings: t.Iterable[tuple[str, str]], cards: t.Collection[str], known: t.Mapping[str, list[str]]
) -> list[tuple[str, str, str]]:
    hits = []
    for key, value in settings:
        for device in pve.hostpci([(key, value)]):
            for address in known.get(device["mapping"] or "", [device["address"]]):
                if address in cards:
                    hits.append((key, value, address))
    return hits


def _states(host: Host, program: str) -> dict[int, str]:
    _rc, out, _err = host.run(host.which(program, probe.SMI_SEARCH), "list")
    return pve.listing(out)

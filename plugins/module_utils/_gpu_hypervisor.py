# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a Proxmox VE host for the guests that serve: state, configuration, devices, claims (private)."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_guest as guest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_rules
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

_KINDS = {"lxc": ("pct", "/etc/pve/lxc"), "qemu": ("qm", "/etc/pve/qemu-server")}


@dataclasses.dataclass(frozen=True)
class Seen:
    """What the hypervisor has: guests' states by kind, nodes, cards by address, VMs that take cards."""

    states: t.Mapping[str, dict[int, str] | None]
    nodes: guest.Nodes
    cards: t.Mapping[str, str]
    machines: t.Mapping[int, t.Mapping[str, t.Any]]


def read(host: Host, guests: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """State of the hypervisor and of the guests asked for.

    Args:
        host: the hypervisor.
        guests: ``{vmid, kind, host, gpus, user}`` each; ``host`` is the inventory's name, for messages.

    Returns:
        ``{guests, devices, findings, message, ok}`` as RETURN of ``proxmox_gpu_info`` documents it.
    """
    nodes = nodes_of(host)
    states = {kind: _states(host, kind) for kind in {entry["kind"] for entry in guests} & set(_KINDS)}
    seen = Seen(states, nodes, cards_of(host), _machines(host))
    results = [_judge(host, entry, seen) for entry in guests]
    vms = sorted(seen.machines)
    facts = probe.fabric(host)
    findings = _gpu_rules.findings(facts, {"vms_with_gpus": vms}, only=_gpu_rules.HYPERVISOR_RULES)
    blockers = [finding for finding in findings if finding["severity"] == "error"]
    wrong = [result for result in results if not result["ok"]]
    return {
        "guests": results,
        "devices": sorted(nodes),
        "findings": findings,
        "ok": not wrong and not blockers,
        "message": _message(wrong, blockers),
    }


def nodes_of(host: Host) -> dict[str, tuple[int, int]]:
    """The hypervisor's nodes /dev/nvidia* with major and minor number."""
    return {
        node["path"]: (node["major"], node["minor"])
        for node in probe.device_nodes(host)
        if node["path"] != "/dev/nvidia-caps"
    }


def identities(host: Host) -> list[dict[str, str]]:
    """Cards that the driver holds as ``{address, node, uuid}``; the address without its function."""
    found = []
    for path in host.glob("/proc/driver/nvidia/gpus/*/information"):
        text = host.text(path)
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        name = re.search(r"^GPU UUID:\s*(\S+)", text, re.MULTILINE)
        if minor:
            address = pve.pci(path.split("/")[-2])
            found.append(
                {"address": address, "node": f"/dev/nvidia{minor.group(1)}", "uuid": name.group(1) if name else ""}
            )
    return found


def cards_of(host: Host) -> dict[str, str]:
    """Card address (``0000:c1:00``) to its node, from /proc/driver/nvidia/gpus/*/information."""
    return {card["address"]: card["node"] for card in identities(host)}


def _machines(host: Host) -> dict[int, dict[str, t.Any]]:
    """VMs with PCI devices: their cards and whether they start at boot."""
    found = {}
    for path in host.glob("/etc/pve/qemu-server/*.conf"):
        stem = path.rpartition("/")[2].partition(".")[0]
        current, _pending = pve.config(host.text(path))
        cards = pve.hostpci(current)
        if stem.isdigit() and cards:
            settings = dict(current)
            found[int(stem)] = {
                "name": settings.get("name", ""),
                "cards": [card["address"] for card in cards],
                "onboot": settings.get("onboot") == "1",
            }
    return found


def _states(host: Host, kind: str) -> dict[int, str] | None:
    """Guests' states, None where Proxmox' program is not there."""
    program = host.which(_KINDS[kind][0], probe.SMI_SEARCH)
    rc, out, _err = host.run(program, "list")
    return None if rc is None else pve.listing(out)


def _judge(host: Host, entry: t.Mapping[str, t.Any], seen: Seen) -> dict[str, t.Any]:
    vmid, kind = int(entry["vmid"]), entry["kind"]
    tool, folder = _KINDS[kind]
    result: dict[str, t.Any] = {
        "vmid": vmid,
        "kind": kind,
        "host": entry["host"],
        "running": False,
        "state": "unknown",
        "devices": [],
        "missing": [],
        "style": "none",
        "fix": "",
        "warnings": [],
        "ok": False,
    }
    known = seen.states[kind]
    text = host.text(f"{folder}/{vmid}.conf")
    if known is None:
        result["missing"] = [f"{tool} is not there: this is no Proxmox VE host, or PATH lacks /usr/sbin"]
        result["fix"] = f"let sglang_hypervisor of {entry['host']} name the host that runs the guest"
        return result
    if not text:
        elsewhere = [
            path.split("/")[4] for path in host.glob(f"/etc/pve/nodes/*/{folder.rpartition('/')[2]}/{vmid}.conf")
        ]
        result["missing"] = [
            f"no guest {vmid} of kind {kind} on this node" + (f", it is on {elsewhere[0]}" if elsewhere else "")
        ]
        result["fix"] = f"correct sglang_vmid, sglang_guest_kind or sglang_hypervisor of {entry['host']}"
        return result
    if kind == "lxc":
        result.update(guest.container(vmid, text, seen.nodes, entry["gpus"], entry["user"]))
        result["warnings"] += _claims(result["devices"], seen.cards, seen.machines)
    else:
        result.update(guest.machine(vmid, text, entry["gpus"], seen.cards))
    result["state"] = known.get(vmid, "unknown")
    result["running"] = result["state"] == "running"
    if not result["running"]:
        result["missing"] = [*result["missing"], f"the guest is {result['state']}"]
        result["fix"] = "\n".join(part for part in (result["fix"], f"{tool} start {vmid}") if part)
    result["ok"] = not result["missing"]
    return result


def _claims(
    devices: t.Sequence[str], cards: t.Mapping[str, str], machines: t.Mapping[int, t.Mapping[str, t.Any]]
) -> list[str]:
    """Cards of a container that a VM of the same node would take away when it starts."""
    found = []
    for vmid, machine in sorted(machines.items()):
        shared = sorted(cards[card] for card in machine["cards"] if cards.get(card) in devices)
        if shared:
            when = "starts at boot and" if machine["onboot"] else "when started"
            found.append(f"VM {vmid} {when} takes {', '.join(shared)} away (hostpci): remove it there, or set onboot 0")
    return found


def _message(wrong: t.Sequence[t.Mapping[str, t.Any]], blockers: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    lines = []
    for result in wrong:
        lines.append(f"{result['host']} (guest {result['vmid']}, {result['kind']}): {'; '.join(result['missing'])}.")
        if result["fix"]:
            lines.append("  On the hypervisor, as root:")
            lines += ["    " + line for line in result["fix"].splitlines()]
    for finding in blockers:
        lines.append(f"{finding['what']}. Why: {finding['why']}. Fix: {finding['fix']} [{finding['id']}]")
    return "\n".join(lines)

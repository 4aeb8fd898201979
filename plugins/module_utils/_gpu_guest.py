# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges whether a Proxmox guest has the GPUs that it needs, and writes the line that gives them (private)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve

# Path of a node on the hypervisor to its (major, minor).
Nodes = t.Mapping[str, tuple[int, int]]


def container(vmid: int, text: str, nodes: Nodes, gpus: int, user: str = "sglang") -> dict[str, t.Any]:
    """A container's devices compared with what it needs.

    Args:
        vmid: its number.
        text: content of /etc/pve/lxc/VMID.conf.
        nodes: nodes /dev/nvidia* of the hypervisor.
        gpus: number of cards that it needs, at least one.
        user: the user that the service runs as inside.

    Returns:
        ``devices`` (paths given and usable), ``missing`` (what is lacking, a sentence each), ``style``
        (``dev``, ``mount``, ``both`` or ``none``), ``fix`` (lines to run on the hypervisor), ``warnings``.
    """
    current, pending = pve.config(text)
    entries = [entry for entry in pve.entries(current) if "nvidia" in entry.path]
    by_path = {entry.path: entry for entry in entries}
    usable: list[str] = []
    missing: list[str] = []
    give: list[str] = []
    absent = False
    for path in _given(by_path, nodes):
        entry = by_path[path]
        if path not in nodes:
            if path in pve.CONTROL or entry.style == "dev":
                absent = True
                missing.append(f"{path} is configured ({entry.key}) but is not there on the hypervisor")
            continue
        major, minor = nodes[path]
        if entry.style == "mount" and not pve.allows(current, major, minor):
            known = ", ".join(str(number) for number in pve.allowed_majors(current)) or "none"
            missing.append(
                f"{path} is mounted, but its device number {major}:{minor} is not allowed (allowed majors: {known})"
            )
            give.append(path)
            continue
        usable.append(path)
    for path in pve.CONTROL:
        if path not in by_path:
            missing.append(f"{path} is not given to the guest")
            give.append(path)
    cards = pve.gpu_nodes(usable) + pve.gpu_nodes(give)
    lacking = max(gpus, 1) - len(cards)
    if lacking > 0:
        spare = [path for path in pve.gpu_nodes(nodes) if path not in by_path]
        missing.append(f"{len(cards)} of the {max(gpus, 1)} GPUs that it needs are given to it")
        give += spare[:lacking]
        if len(spare) < lacking:
            missing.append(f"the hypervisor has only {len(pve.gpu_nodes(nodes))} GPU nodes")
    style = {entry.style for entry in entries}
    return {
        "devices": usable,
        "missing": missing,
        "style": "both" if len(style) > 1 else next(iter(style), "none"),
        "fix": _fix(vmid, current, nodes, give, absent) if missing else "",
        "warnings": [*_closed(vmid, entries, user), *_warnings(vmid, current, pending)],
    }


def machine(vmid: int, text: str, gpus: int, claimed: t.Mapping[str, str]) -> dict[str, t.Any]:
    """A VM's PCI devices compared with what it needs.

    Args:
        vmid: its number.
        text: content of /etc/pve/qemu-server/VMID.conf.
        gpus: number of cards that it needs, at least one.
        claimed: card address (``0000:c1:00``) to its node, as far as the hypervisor's driver holds it.
    """
    current, pending = pve.config(text)
    cards = pve.hostpci(current)
    devices = [card["address"] or f"mapping {card['mapping']}" for card in cards]
    missing = []
    fix = ""
    if len(cards) < max(gpus, 1):
        missing.append(f"{len(cards)} of the {max(gpus, 1)} GPUs that it needs are passed through (hostpci)")
        spare = [address for address in claimed if address not in devices][: max(gpus, 1) - len(cards)]
        free = [number for number in range(16) if f"hostpci{number}" not in dict(current)]
        words = " ".join(f"--hostpci{number} {address},pcie=1" for number, address in zip(free, spare, strict=False))
        fix = f"qm set {vmid} {words or '--hostpciN ADDRESS,pcie=1'}   (as root@pam, then stop and start the VM)"
    return {
        "devices": devices,
        "missing": missing,
        "style": "hostpci",
        "fix": fix,
        "warnings": _warnings(vmid, current, pending),
    }


def _given(by_path: t.Mapping[str, pve.Entry], nodes: Nodes) -> list[str]:
    """Paths worth judging: cards and control nodes; an optional node that is missing on the host harms nobody."""
    cards = pve.gpu_nodes(by_path)
    return [path for path in by_path if path in pve.CONTROL or path in cards or path in nodes]


def _closed(vmid: int, entries: t.Sequence[pve.Entry], user: str) -> list[str]:
    """Nodes that only root could open inside: mode 0660 and gid 0 are pct's defaults.

    A warning and no more: what the nodes are really like is seen from inside, by ``gpu_host_info``.
    """
    closed = []
    for entry in entries:
        mode = int(entry.mode, 8) if entry.mode else 0o660
        needed = entry.path in pve.CONTROL or pve.gpu_nodes([entry.path])
        if entry.style == "dev" and needed and mode & 0o006 != 0o006 and not entry.gid:
            closed.append(entry)
    if not closed or user == "root":
        return []
    words = " ".join(f"--{entry.key} {entry.path},{pve.MODE}" for entry in closed)
    return [
        f"guest {vmid}: {', '.join(entry.key for entry in closed)} give root alone access inside, not user {user}."
        f" Fix: pct set {vmid} {words}"
    ]


def _fix(vmid: int, current: list[tuple[str, str]], nodes: Nodes, give: t.Sequence[str], absent: bool) -> str:
    """Lines to run on the hypervisor: make the nodes, give them to the guest, drop the old style, restart."""
    by_path = {entry.path: entry for entry in pve.entries(current)}
    stale = any(path in by_path and by_path[path].style == "mount" for path in give)
    lines = []
    if absent or any(path not in nodes for path in pve.CONTROL):
        lines.append("nvidia-smi; nvidia-modprobe -u -m -s -l -c 0   (and at each boot, before pve-guests.service)")
    paths = list(give)
    if paths:
        paths += [path for path in pve.OPTIONAL if path in nodes and path not in by_path]
    free = pve.free_keys(current)
    words = []
    for path in paths:
        entry = by_path.get(path)
        key = entry.key if entry and entry.style == "dev" else next(free)
        words.append(f"--{key} {path},{pve.MODE}")
    if words:
        lines.append(f"pct set {vmid} {' '.join(words)}")
    if stale:
        lines.append(
            f"in /etc/pve/lxc/{vmid}.conf remove lines lxc.cgroup2.devices.allow and lxc.mount.entry of these nodes"
        )
    if words and (stale or any(path in by_path for path in paths)):
        lines.append(f"pct reboot {vmid}")
    return "\n".join(lines)


def _warnings(vmid: int, current: list[tuple[str, str]], pending: list[tuple[str, str]]) -> list[str]:
    found = []
    waiting = [key for key, _value in pending if key.startswith(("dev", "hostpci", "delete"))]
    if waiting:
        found.append(f"guest {vmid}: {', '.join(waiting)} take effect only after it was stopped and started")
    if any(key == "lxc.cgroup.devices.allow" for key, _value in current):
        found.append(f"guest {vmid}: lxc.cgroup.devices.allow is cgroup version 1 and does nothing on Proxmox VE 9")
    return found

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds GPUs on a hypervisor, by guest, and how what belongs to one guest is ended (private).

A container does not see the processes of others, and not always its own (a process may outlive what started it). The
hypervisor sees all of them, and their control group tells whose they are.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_hypervisor as hypervisor
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_smi as smi
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

# What Proxmox VE 7 to 9 put guests into: /lxc/101/ns/..., lxc.payload.101, /qemu.slice/900.scope. The monitor of a
# container (lxc.monitor) belongs to the hypervisor.
_LXC = re.compile(r"/lxc(?:\.payload)?[./](\d+)(?:/|$)")
_QEMU = re.compile(r"/qemu\.slice/(\d+)\.scope(?:/|$)")
_NODE = re.compile(r"/nvidia(?:(\d+)|ctl|-uvm|-uvm-tools)$")
_UNIT = re.compile(r"/([^/]+\.(?:service|scope))(?=/|$)")
KILL_S = 5.0
# An idle card may show this much, MiB.
IDLE_MIB = 100
# What the driver may take for itself beside processes, MiB; the smallest trace of a wedged server in a report is 624.
SURPLUS_MIB = 512
# They keep cards open and use no memory of them.
WATCHERS = ("nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nvidia-smi")


class Holder(t.TypedDict):
    """A process that has a node of NVIDIA's driver open, or is of the process group of one.

    ``minors`` are the cards that it has open, ``mib`` its memory on all of them as nvidia-smi tells it, ``pgrp`` its
    process group, ``starttime`` clock ticks after boot (proc(5)): pid and start name a process for good.
    """

    pid: int
    pgrp: int
    starttime: int
    name: str
    user: str
    state: str
    vmid: int | None
    kind: str
    unit: str
    minors: list[int]
    mib: int


def guest(cgroup: str) -> tuple[str, int | None]:
    """Kind (``lxc``, ``qemu`` or ``host``) and number of the guest that a process belongs to, from /proc/PID/cgroup."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        for kind, pattern in (("lxc", _LXC), ("qemu", _QEMU)):
            hit = pattern.search(path)
            if hit:
                return kind, int(hit.group(1))
    return "host", None


def unit(cgroup: str) -> str:
    """The innermost systemd unit in /proc/PID/cgroup; '' when it names none.

    For a process in a container this is the container's own unit, since its tree hangs below the guest's group.
    """
    found = ""
    for line in cgroup.splitlines():
        _number, controllers, path = [*line.split(":", 2), "", ""][:3]
        names = _UNIT.findall(path) if controllers in ("", "name=systemd") else []
        found = names[-1] if names else found
    return found


def describe(host: Host, pid: int) -> Holder | None:
    """A process, without its cards; None when it is gone or a zombie."""
    # "pid (comm) state ppid pgrp ...": comm may hold blanks and brackets.
    comm, _bracket, rest = host.text(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    cgroup = host.text(f"/proc/{pid}/cgroup")
    kind, vmid = guest(cgroup)
    title = host.data(f"/proc/{pid}/cmdline").split(b"\0", 1)[0].decode("utf-8", "replace")
    status = host.stat(f"/proc/{pid}/stat")
    return {
        "pid": pid,
        "pgrp": int(fields[2]),
        "starttime": int(fields[19]),
        # No arguments: they may hold secrets.
        "name": (title.split(" ", 1)[0].rsplit("/", 1)[-1] or comm.partition("(")[2])[:64],
        "user": _user(status.st_uid) if status else "",
        "state": fields[0],
        "vmid": vmid,
        "kind": kind,
        "unit": unit(cgroup),
        "minors": [],
        "mib": 0,
    }


def read(host: Host, minors: t.Collection[int] | None = None) -> list[Holder]:
    """Holders of the cards, by pid.

    Args:
        host: the hypervisor.
        minors: numbers of the cards; None for every one, holders of control nodes alone among them.
    """
    memory = usage(host)[1]
    found: list[Holder] = []
    for place in host.glob("/proc/[0-9]*"):
        pid = int(place.rpartition("/")[2])
        hits = [hit for path in host.glob(f"{place}/fd/*") if (hit := _NODE.search(host.link(path)))]
        if not hits and pid not in memory:
            continue
        cards = sorted({int(hit.group(1)) for hit in hits if hit.group(1)} | set(memory.get(pid, {})))
        if minors is not None and not set(cards) & set(minors):
            continue
        seen = describe(host, pid)
        if seen is not None:
            seen["minors"], seen["mib"] = cards, sum(memory.get(pid, {}).values())
            found.append(seen)
    return sorted(found, key=lambda each: each["pid"])


def usage(host: Host) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
    """Memory in MiB: by card, and by process and card, as nvidia-smi tells it.

    Cards by the number of their node: nvidia-smi counts by PCI address, nodes are numbered as the driver found them.
    """
    program = host.which("nvidia-smi", probe.SMI_SEARCH)
    _rc, out, _err = host.run(program, "--query-gpu=" + ",".join(smi.MINIMAL_FIELDS), "--format=csv")
    cards = smi.gpus(out)
    _rc, out, _err = host.run(program, "--query-compute-apps=" + ",".join(smi.APP_FIELDS), "--format=csv")
    nodes = {card["address"]: int(card["node"][11:]) for card in hypervisor.identities(host)}
    minor = {card["index"]: nodes.get(pve.pci(card["bus_id"]), card["index"]) for card in cards}
    by_pid: dict[int, dict[int, int]] = {}
    for row in smi.processes(out, cards) if cards else []:
        by_pid.setdefault(row["pid"], {})[minor.get(row["gpu"], -1)] = row["used_mib"] or 0
    return {minor[card["index"]]: card["used_mib"] or 0 for card in cards}, by_pid


def wedged(
    used: t.Mapping[int, int], by_pid: t.Mapping[int, t.Mapping[int, int]], found: t.Iterable[Holder]
) -> list[int]:
    """Cards with memory in use that no process holds.

    Where others serve on the card, what they hold is taken off; a holder of which nvidia-smi tells no memory leaves the
    question open, and the card is not called wedged then.

    Args:
        used: MiB by card.
        by_pid: MiB by process and card, as :func:`usage` gives both.
        found: holders of every card.
    """
    holders = [each for each in found if each["name"] not in WATCHERS]
    cards = []
    for minor, mib in used.items():
        pids = {each["pid"] for each in holders if minor in each["minors"]}
        shares = [by_pid.get(pid, {}).get(minor, 0) for pid in pids]
        if (not pids and mib > IDLE_MIB) or (pids and all(shares) and mib - sum(shares) > SURPLUS_MIB):
            cards.append(minor)
    return sorted(cards)


def targets(
    host: Host, holders: t.Iterable[Holder], vmid: int, spare_units: t.Collection[str] = ()
) -> tuple[list[Holder], list[Holder]]:
    """What belongs to a container and is to be ended, with the rest of its process groups, and what stays.

    A group is taken only as far as it belongs to the same container; its init is never taken.
    """
    holders = list(holders)
    mine = [each for each in holders if each["kind"] == "lxc" and each["vmid"] == vmid]
    mine = [each for each in mine if each["unit"] not in spare_units and not _is_init(host, each["pid"])]
    groups = {each["pgrp"] for each in mine if each["pgrp"] > 1}
    known = {each["pid"] for each in mine}
    for place in host.glob("/proc/[0-9]*"):
        pid = int(place.rpartition("/")[2])
        fields = host.text(f"{place}/stat").rpartition(")")[2].split()
        if pid in known or len(fields) < 3 or int(fields[2]) not in groups:
            continue
        seen = describe(host, pid)
        same = seen and seen["kind"] == "lxc" and seen["vmid"] == vmid and seen["unit"] not in spare_units
        if seen and same and not _is_init(host, pid):
            mine.append(seen)
    taken = {each["pid"] for each in mine}
    return sorted(mine, key=lambda each: each["pid"]), [each for each in holders if each["pid"] not in taken]


def end(processes: t.Sequence[Holder], grace: float, host: Host) -> list[Holder]:
    """TERM, and KILL for what is left after ``grace`` seconds; returns what is still there (state D: in the driver).

    Each process is signalled by a handle that cannot come to mean another one.
    """
    left = list(processes)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_S)):
        for each in left:
            _signal(each, number, host)
        deadline = time.monotonic() + seconds
        left = [each for each in left if _lives(each, host)]
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = [each for each in left if _lives(each, host)]
        if not left:
            break
    return left


def _signal(each: Holder, number: signal.Signals, host: Host) -> None:
    try:
        handle = os.pidfd_open(each["pid"])
    except OSError:
        return
    try:
        # Looked at after the handle was taken: from here on it is this process or none.
        if _lives(each, host):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _lives(each: Holder, host: Host) -> bool:
    now = describe(host, each["pid"])
    return now is not None and now["starttime"] == each["starttime"]


def _is_init(host: Host, pid: int) -> bool:
    """Whether a process is number 1 of a namespace of its own: ending it would end the guest."""
    hit = re.search(r"^NSpid:\s.*\s1$", host.text(f"/proc/{pid}/status"), re.MULTILINE)
    return pid == 1 or hit is not None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

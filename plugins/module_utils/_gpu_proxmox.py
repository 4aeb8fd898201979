# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests' configurations on a Proxmox VE host, read for the GPUs they are given (private to the collection).

Formats: pct.conf(5), qm.conf(5), lxc.container.conf(5). ``dev[n]`` exists since PVE 8.1; the older way is a bind mount
of the node (lxc.mount.entry) with a device rule (lxc.cgroup2.devices.allow) that names the major, which goes stale when
a new kernel numbers nvidia-uvm otherwise.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")
# Wanted by some tools, never a reason to fail.
OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
MODE = "mode=0666"
_GPU = re.compile(r"^/dev/nvidia(\d+)$")
_RULE = re.compile(r"^(?P<type>[abc])(?:\s+(?P<major>\d+|\*):(?P<minor>\d+|\*)\s+(?P<access>[rwm]+))?$")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A device that a guest's configuration names.

    ``style`` is ``dev`` (``key`` is then dev0, dev1, ...) or ``mount``; ``mode`` and ``gid`` are those asked for inside
    (None when the configuration does not say).
    """

    path: str
    style: str
    key: str
    mode: str | None = None
    gid: int | None = None


def config(text: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Settings of a guest's configuration file as (current, pending), each a list of key and value in order.

    Sections of snapshots are left out: what they say does not hold now.
    """
    current: list[tuple[str, str]] = []
    pending: list[tuple[str, str]] = []
    place: list[tuple[str, str]] | None = current
    for line in text.splitlines():
        section = re.match(r"\[(.+)\]\s*$", line)
        if section:
            place = pending if section.group(1) in ("pve:pending", "PENDING") else None
            continue
        found = re.match(r"([a-z][\w.\-]*)\s*[:=]\s*(.*?)\s*$", line)
        if found and place is not None:
            place.append((found.group(1), found.group(2)))
    return current, pending


def entries(settings: t.Iterable[tuple[str, str]]) -> list[Entry]:
    """Devices of a container's settings, both styles."""
    found = []
    for key, value in settings:
        if re.fullmatch(r"dev\d+", key):
            words = value.split(",")
            options = dict(word.partition("=")[::2] for word in words if "=" in word)
            path = options.get("path") or words[0]
            gid = options.get("gid", "")
            found.append(Entry(path, "dev", key, options.get("mode"), int(gid) if gid.isdigit() else None))
        elif key == "lxc.mount.entry":
            words = value.split()
            if len(words) >= 2 and words[0].startswith("/dev/"):
                found.append(Entry(words[0], "mount", key))
    return found


def allows(settings: t.Iterable[tuple[str, str]], major: int, minor: int) -> bool:
    """Whether the device rules of a container let it use character device ``major:minor``."""
    for key, value in settings:
        if key not in ("lxc.cgroup2.devices.allow", "lxc.cgroup.devices.allow"):
            continue
        rule = _RULE.match(value)
        if not rule or rule["type"] == "b":
            continue
        if rule["type"] == "a" and rule["major"] is None:
            return True
        if rule["major"] in ("*", str(major)) and rule["minor"] in ("*", str(minor)) and "w" in rule["access"]:
            return True
    return False


def allowed_majors(settings: t.Iterable[tuple[str, str]]) -> list[int]:
    """Character majors that the device rules name, in order."""
    found = []
    for key, value in settings:
        rule = _RULE.match(value) if key.endswith("devices.allow") else None
        if rule and rule["major"] and rule["major"] != "*" and int(rule["major"]) not in found:
            found.append(int(rule["major"]))
    return found


def free_keys(settings: t.Iterable[tuple[str, str]]) -> t.Iterator[str]:
    """Names dev0, dev1, ... that the settings do not use."""
    used = {key for key, _value in settings}
    number = 0
    while True:
        if f"dev{number}" not in used:
            yield f"dev{number}"
        number += 1


def hostpci(settings: t.Iterable[tuple[str, str]]) -> list[dict[str, t.Any]]:
    """PCI devices of a VM: ``{key, address, mapping}``; a mapping's address is not in the VM's own configuration."""
    found = []
    for key, value in settings:
        if not re.fullmatch(r"hostpci\d+", key):
            continue
        words = value.split(",")
        options = dict(word.partition("=")[::2] for word in words if "=" in word)
        mapping = options.get("mapping")
        first = options.get("host") or ("" if "=" in words[0] else words[0])
        for address in first.split(";") if first else [""]:
            found.append({"key": key, "address": pci(address), "mapping": mapping})
    return found


def pci(address: str) -> str:
    """``c1:00`` or ``0000:c1:00.0`` as ``0000:c1:00``: the card, whatever the function."""
    bare = address.strip().lower().partition(".")[0]
    return bare if bare.count(":") == 2 or not bare else "0000:" + bare


def listing(text: str) -> dict[int, str]:
    """State by number from ``pct list`` or ``qm list`` (columns VMID, Status or VMID, NAME, STATUS)."""
    found: dict[int, str] = {}
    column = None
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if not words[0].isdigit():
            names = [word.lower() for word in words]
            column = names.index("status") if "status" in names else None
        elif column is not None and column < len(words):
            state = next((word for word in words[1:] if word in ("running", "stopped", "paused")), words[column])
            found[int(words[0])] = state
    return found


def gpu_nodes(paths: t.Iterable[str]) -> list[str]:
    """Those of the paths that are cards (/dev/nvidia0, ...), by number."""
    found = [(int(hit.group(1)), path) for path in paths if (hit := _GPU.match(path))]
    return [path for _number, path in sorted(found)]

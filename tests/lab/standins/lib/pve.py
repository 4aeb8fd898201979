"""Configuration and state of the lab's guests, as Proxmox VE keeps them.

Imitates the files of PVE 9: /etc/pve/{lxc,qemu-server}/VMID.conf with `key: value` lines (pct.conf(5), qm.conf(5)).
"""

from __future__ import annotations

import os
import re
import subprocess

LXC = "/etc/pve/lxc"
QEMU = "/etc/pve/qemu-server"
QEMU_STATE = "/run/qemu-server"
DISKS = "/var/lib/lxc"


def vmids(folder):
    """Numbers of the guests of a kind, ascending."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(int(name[:-5]) for name in names if re.fullmatch(r"\d+\.conf", name))


def read(folder, vmid):
    """Settings of a guest in file order, without its snapshots; None when there is no such guest."""
    try:
        with open("%s/%d.conf" % (folder, vmid), encoding="utf-8") as handle:
            lines = handle.read().splitlines()
    except OSError:
        return None
    result = {}
    for line in lines:
        if line.startswith("["):
            break  # snapshots follow
        key, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            # lxc.* keys may be repeated; PVE keeps each line
            key = key.strip()
            while key in result:
                key += " "
            result[key] = value.strip()
    return result


def write(folder, vmid, settings):
    """Write settings sorted by key, as PVE does."""
    path = "%s/%d.conf" % (folder, vmid)
    with open(path + ".tmp", "w", encoding="utf-8") as handle:
        handle.writelines(f"{key.strip()}: {settings[key]}\n" for key in sorted(settings))
    os.chmod(path + ".tmp", 0o640)
    os.replace(path + ".tmp", path)


def options(text):
    """`a=b,c=d` as a dict; a first word without `=` is under the empty key."""
    result = {}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        result[key if equals else ""] = value if equals else key
    return result


def unit(vmid):
    """Name of the unit that runs a container."""
    return "pve-container@%d.service" % vmid


def leader(vmid):
    """Process id, seen from here, of the init of a running container; None when it does not run."""
    shown = subprocess.run(
        ["systemctl", "show", "-P", "MainPID", unit(vmid)], capture_output=True, text=True, check=False
    )
    main = shown.stdout.strip()
    if main in ("", "0"):
        return None
    try:
        with open(f"/proc/{main}/task/{main}/children", encoding="utf-8") as handle:
            children = handle.read().split()
    except OSError:
        return None
    for child in children:
        try:
            with open(f"/proc/{child}/status", encoding="utf-8") as handle:
                if any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in handle):
                    return int(child)
        except OSError:
            continue
    return None

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver and its device nodes (private to the collection)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import (
    ADVICE,
    ERROR,
    WARNING,
    Facts,
    Hits,
    Rule,
    at_least,
)

# Device nodes without which CUDA does not initialise.
NEEDED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_NEEDED = re.compile(r"^/dev/nvidia(?:\d+|ctl|-uvm)$")


def _smi(*words: str) -> t.Callable[[Facts, Facts], Hits]:
    def look(facts: Facts, wants: Facts) -> Hits:
        del wants
        if facts["smi"]["state"] in words:
            yield {"text": facts["smi"]["text"].strip().splitlines()[0] if facts["smi"]["text"].strip() else ""}

    return look


def _absent(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["smi"]["state"] in ("absent", "no_library"):
        loaded = facts["driver"]["kernel"]
        version = loaded["version"] if loaded else ""
        if facts["os"]["virtualization"] in ("lxc", "systemd-nspawn") and version:
            fix = (
                f"install the user space of exactly version {version} in this container"
                f" (NVIDIA-Linux-x86_64-{version}.run --no-kernel-module --ui=none --no-questions)"
            )
        elif version:
            fix = f"install the driver's user space of version {version} (nvidia-smi, libcuda) beside its kernel module"
        else:
            fix = "install the NVIDIA driver with open kernel modules, 580.65.06 or newer, and reboot"
        yield {
            "seen": f"the kernel module is {version}" if version else "no kernel module is loaded either",
            "fix": fix,
        }


def _mismatch(facts: Facts, wants: Facts) -> Hits:
    del wants
    loaded = facts["driver"]["kernel"]
    user = facts["driver"]["user"]
    if loaded and user and loaded["version"] not in user:
        yield {"kernel": loaded["version"], "user": ", ".join(user)}
    elif facts["smi"]["state"] == "mismatch":
        yield {
            "kernel": loaded["version"] if loaded else "another version",
            "user": ", ".join(user) or "another version",
        }
    elif loaded and len(user) > 1:
        yield {"kernel": loaded["version"], "user": " and ".join(user), "severity": WARNING}


def _closed(facts: Facts, wants: Facts) -> Hits:
    del wants
    loaded = facts["driver"]["kernel"]
    if loaded and not loaded["open"]:
        yield {"version": loaded["version"]}


def _old_driver(facts: Facts, wants: Facts) -> Hits:
    loaded = facts["driver"]["kernel"]
    if loaded and at_least(loaded["version"], wants.get("driver")) is False:
        yield {"version": loaded["version"], "wanted": wants["driver"]}


def _nodes(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["smi"]["state"] not in ("ok", "no_devices") or facts["device_nodes"] is None:
        return
    have = {node["path"] for node in facts["device_nodes"]}
    lacking = [path for path in NEEDED_NODES if path not in have]
    if lacking:
        inside = facts["os"]["virtualization"] == "lxc"
        words = " ".join(f"--devN {path},mode=0666" for path in lacking)
        fix = (
            f"on the hypervisor: pct set VMID {words} (N: free numbers), then restart the container"
            if inside
            else "nvidia-modprobe -u -c 0"
        )
        yield {"nodes": ", ".join(lacking), "fix": fix}


def _stale_majors(facts: Facts, wants: Facts) -> Hits:
    del wants
    for node in facts["device_nodes"] or []:
        if node.get("expected_major") not in (None, node["major"]):
            yield {"path": node["path"], "major": node["major"], "expected": node["expected_major"]}


def _node_modes(facts: Facts, wants: Facts) -> Hits:
    if wants.get("user") in ("", "root", None):
        return
    needed = [node for node in facts["device_nodes"] or [] if _NEEDED.match(node["path"])]
    closed = [node for node in needed if int(node["mode"], 8) & 0o006 != 0o006]
    # A group other than root's may have the service user in it; root's has nobody.
    alone = [node for node in closed if node["gid"] == 0 or int(node["mode"], 8) & 0o060 != 0o060]
    if closed:
        paths = ", ".join(node["path"] for node in alone or closed)
        yield {"nodes": paths, "user": wants["user"], "severity": ERROR if alone else ADVICE}


def _nouveau(facts: Facts, wants: Facts) -> Hits:
    del wants
    if "nouveau" in facts["kernel"]["modules"]:
        yield {}


def _driver_files(facts: Facts, wants: Facts) -> Hits:
    del wants
    for line in facts["smi"]["text"].splitlines()[:1] if facts["smi"]["state"] == "error" else []:
        yield {"text": line}


RULES: tuple[Rule, ...] = (
    Rule(
        "driver_absent",
        ERROR,
        "the NVIDIA driver's user space is not installed; {seen}",
        "nothing can use the GPUs",
        "{fix}",
        "open-modules",
        _absent,
    ),
    Rule(
        "driver_not_loaded",
        ERROR,
        "nvidia-smi is there but reaches no kernel module ({text})",
        "the module is not built for the running kernel, not loaded, or this guest was given no device nodes",
        ("on the host that owns the cards: modprobe nvidia, and look at dkms status and journalctl -k when it refuses"),
        "smi-help",
        _smi("no_driver"),
    ),
    Rule(
        "driver_mismatch",
        ERROR,
        "the driver's kernel module is {kernel}, its libraries are {user}",
        "CUDA refuses to start unless both are the same a.b.c version; an upgrade on one side only does this",
        (
            "install libraries of exactly {kernel} here (in a container without the kernel module), or reboot the "
            "host into the new module"
        ),
        "https://github.com/jammsen/proxmox-setup-scripts/issues/11",
        _mismatch,
    ),
    Rule(
        "driver_closed_module",
        ERROR,
        "the loaded NVIDIA kernel module {version} is the closed one",
        "Blackwell works only with the open kernel modules",
        "install the nvidia-open variant of the driver (in a container: on the hypervisor) and reboot",
        "open-modules",
        _closed,
    ),
    Rule(
        "driver_old",
        ERROR,
        "the driver is {version}, older than {wanted}",
        "torch and kernels built for CUDA 13 do not start on an older one",
        "upgrade the driver to {wanted} or newer, on the hypervisor and in its guests alike",
        "cuda13",
        _old_driver,
    ),
    Rule(
        "driver_timeout",
        ERROR,
        "nvidia-smi did not answer in time",
        "the driver waits for a card that no longer answers",
        "look for Xid in journalctl -k on the host that owns the cards; reset the card or reboot",
        "smi-help",
        _smi("timeout"),
    ),
    Rule(
        "driver_error",
        ERROR,
        "nvidia-smi fails: {text}",
        "the state of the GPUs is not known",
        "run nvidia-smi on the host and follow its message",
        "smi-help",
        _driver_files,
    ),
    Rule(
        "nouveau_loaded",
        ERROR,
        "the nouveau module is loaded",
        "it holds the cards, so that the NVIDIA module cannot",
        "blacklist nouveau in /etc/modprobe.d, update-initramfs -u, reboot",
        "open-modules",
        _nouveau,
    ),
    Rule(
        "device_node_missing",
        ERROR,
        "{nodes} is missing",
        "CUDA does not initialise without it, although nvidia-smi works",
        "{fix}",
        "pve-container",
        _nodes,
    ),
    Rule(
        "device_major_stale",
        ERROR,
        "{path} has major {major}, the driver now uses {expected}",
        "majors of nvidia-uvm move with the kernel; a node made by hand or by lxc.mount.entry goes stale",
        (
            "in the container's configuration use dev[n] entries instead of lxc.cgroup2.devices.allow and "
            "lxc.mount.entry, then restart it"
        ),
        "pve-container",
        _stale_majors,
    ),
    Rule(
        "device_node_mode",
        WARNING,
        "{nodes} cannot be read and written by everybody",
        "user {user} may not open it unless its group may",
        "pct set VMID --devN PATH,mode=0666 (or the gid of a group that {user} is in)",
        "pve-docs",
        _node_modes,
    ),
)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what the kernel log of this boot says (private to the collection)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import (
    ADVICE,
    ERROR,
    WARNING,
    Facts,
    Hits,
    Rule,
)


def _xid(action: str) -> t.Callable[[Facts, Facts], Hits]:
    def look(facts: Facts, wants: Facts) -> Hits:
        del wants
        for event in facts["events"]["xid"]:
            if event["action"] == action:
                yield {**event, "times": "once" if event["count"] == 1 else f"{event['count']} times"}

    return look


def _sign(name: str) -> t.Callable[[Facts, Facts], Hits]:
    def look(facts: Facts, wants: Facts) -> Hits:
        del wants
        for sign in facts["events"]["signs"]:
            if sign["id"] == name:
                yield {**sign, "times": "once" if sign["count"] == 1 else f"{sign['count']} times"}

    return look


def _surprise(facts: Facts, wants: Facts) -> Hits:
    words = facts["kernel"]["cmdline"]
    lacking = [word for word in ("pcie_aspm=off", "pcie_port_pm=off") if word not in words]
    for hit in _sign("event_surprise_down")(facts, wants):
        fix = (
            f"add {' '.join(lacking)} to the kernel command line and reboot"
            if lacking
            else "check riser, power and slot: the command line has the known remedies already"
        )
        yield {**hit, "fix": fix}


RULES: tuple[Rule, ...] = (
    Rule(
        "xid_power",
        ERROR,
        "Xid {number} on {bus_id} {times} since boot: {meaning}",
        "the card stays unusable until its power was off",
        (
            "stop what uses it, save journalctl -k, power the host off and on; look at power rails (-pl 450) when "
            "it comes again"
        ),
        "xid",
        _xid("power"),
    ),
    Rule(
        "xid_reset",
        WARNING,
        "Xid {number} on {bus_id} {times} since boot: {meaning}",
        "the card needs a reset before its results can be trusted",
        (
            "nvidia-smi -r -i N with no client on it; reboot when that is refused; cold power-off when it does not "
            "come up"
        ),
        "xid",
        _xid("reset"),
    ),
    Rule(
        "xid_application",
        ADVICE,
        "Xid {number} on {bus_id} {times} since boot: {meaning}",
        "a program did it, not the card",
        "look at the service's log of that time",
        "xid",
        _xid("application"),
    ),
    Rule(
        "xid_watch",
        ADVICE,
        "Xid {number} on {bus_id} {times} since boot: {meaning}",
        "it recovered by itself; a growing number is a failing card",
        "compare with the next boot",
        "xid",
        _xid("watch"),
    ),
    Rule(
        "event_api_mismatch",
        WARNING,
        "a program with driver libraries {client} was refused by the kernel module {times} since boot",
        "container and host had different driver versions",
        "bring the container's user space to exactly the version in /proc/driver/nvidia/version",
        "https://github.com/nvidiavgpuarchive/index/issues/1",
        _sign("event_api_mismatch"),
    ),
    Rule(
        "event_rc_watchdog",
        WARNING,
        "the driver found a GPU locked {times} since boot",
        "Blackwell does not recover from it by itself",
        "reboot; lower the power limit; another driver version",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1159",
        _sign("event_rc_watchdog"),
    ),
    Rule(
        "event_bar_invalid",
        ERROR,
        (
            "the kernel gave a card no valid memory window (NVRM: This PCI I/O region assigned to your NVIDIA "
            "device is invalid)"
        ),
        "the 64-bit MMIO window is too small for a 128 GiB BAR1",
        "BIOS: Above 4G Decoding; VM: qemu -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144 per card, cpu host",
        "https://forum.proxmox.com/threads/179366/",
        _sign("event_bar_invalid"),
    ),
    Rule(
        "event_flr_timeout",
        ERROR,
        "a function-level reset never returned ({last})",
        "RTX 5090 and PRO 6000 may not survive a reset when a VM stops",
        "power-cycle the host; d3cold_allowed=0, options vfio-pci disable_idle_d3=1, a newer Proxmox kernel",
        "https://www.guiahardware.es/rtx-5090-y-rtx-6000-pro-el-bug-de-reset-en-virtualizacion-que-congela-las-vms",
        _sign("event_flr_timeout"),
    ),
    Rule(
        "event_wpr2",
        ERROR,
        "a card did not initialise: its protected memory region was still locked ({last})",
        "the lock survives a warm reboot",
        "power the host off, wait, power on",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1353",
        _sign("event_wpr2"),
    ),
    Rule(
        "event_surprise_down",
        WARNING,
        "a PCIe link went down by surprise {times} since boot",
        "power management of root ports while the card retrains its link",
        "{fix}",
        "https://github.com/local-inference-lab/rtx6kpro/blob/master/troubleshooting/common-issues.md",
        _surprise,
    ),
    Rule(
        "event_aer_fatal",
        WARNING,
        "fatal PCIe errors {times} since boot ({last})",
        "the link or the slot is failing",
        "check risers and power, compare /sys/bus/pci/devices/*/aer_dev_fatal",
        "kernel-params",
        _sign("event_aer_fatal"),
    ),
    Rule(
        "event_unknown_pci_option",
        ADVICE,
        "the kernel did not know the option {option} of pci=",
        "it had no effect, whatever a guide says",
        "remove it from the kernel command line",
        "kernel-params",
        _sign("event_unknown_pci_option"),
        folklore=True,
    ),
    Rule(
        "event_vfio_bind",
        WARNING,
        "a card could not be handed to or from vfio ({last})",
        "the driver on the other side still uses it",
        "stop every client, nvidia-persistenced too, then try again",
        "pve-docs",
        _sign("event_vfio_bind"),
    ),
    Rule(
        "event_no_iommu_passthrough",
        WARNING,
        "a VM was refused its card: IOMMU not present",
        "iommu=off on the command line, or VT-d/AMD-Vi off in the BIOS",
        "iommu=pt instead of iommu=off",
        "pve-docs",
        _sign("event_no_iommu_passthrough"),
    ),
    Rule(
        "event_oom_kill",
        WARNING,
        "the kernel killed {name} for memory {times} since boot",
        "memory or the container's limit is too small for a compile or for the weights",
        "raise the limit, or lower MAX_JOBS of the kernel build",
        "https://github.com/sgl-project/sglang/pull/25667",
        _sign("event_oom_kill"),
    ),
    Rule(
        "event_nvrm_init_failed",
        ERROR,
        "the driver could not initialise a card ({last})",
        "firmware, power or an earlier crash",
        "power the host off and on; look at the lines before it in journalctl -k",
        "xid",
        _sign("event_nvrm_init_failed"),
    ),
    Rule(
        "event_module_refused",
        ERROR,
        "the kernel refused a module ({last})",
        "Secure Boot wants a signed module",
        "enrol the DKMS key (mokutil --import) or turn Secure Boot off",
        "kernel-params",
        _sign("event_module_refused"),
    ),
)

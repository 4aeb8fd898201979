# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what GPUs talk through: command line, IOMMU, ACS, module options, NCCL (private to the collection).

Much of what is copied between guides here is folklore; such rows say so and say what the word really does.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_kernel as kernel
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_smi as smi
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import (
    ADVICE,
    ERROR,
    WARNING,
    Facts,
    Hits,
    Rule,
)

IOMMU_OFF = ("iommu=off", "amd_iommu=off", "intel_iommu=off", "iommu=0")


def _words(facts: Facts) -> list[str]:
    return list(facts["kernel"]["cmdline"])


def _many(facts: Facts) -> bool:
    return len(facts["gpus"]) > 1


def _iommu_off_vm(facts: Facts, wants: Facts) -> Hits:
    off = [word for word in _words(facts) if word in IOMMU_OFF]
    if off and wants.get("vms_with_gpus"):
        yield {"words": " ".join(off), "guests": ", ".join(str(guest) for guest in wants["vms_with_gpus"])}


def _iommu_off(facts: Facts, wants: Facts) -> Hits:
    off = [word for word in _words(facts) if word in IOMMU_OFF]
    if off and not wants.get("vms_with_gpus"):
        yield {"words": " ".join(off)}


def _iommu_full(facts: Facts, wants: Facts) -> Hits:
    del wants
    words = _words(facts)
    # Inside a guest the command line is the hypervisor's (container) or says nothing about it (VM).
    if not _many(facts) or not facts["kernel"]["iommu_groups"] or facts["os"]["virtualization"] == "vm":
        return
    if "iommu=pt" not in words and not any(word in IOMMU_OFF for word in words):
        yield {}


def _amd_iommu(facts: Facts, wants: Facts) -> Hits:
    del wants
    for word in _words(facts):
        if word in ("amd_iommu=pt", "amd_iommu=on"):
            yield {"word": word}


def _noacs(facts: Facts, wants: Facts) -> Hits:
    del wants
    for value in kernel.option(_words(facts), "pci"):
        if "noacs" in value.split(","):
            yield {}


def _acs_override(facts: Facts, wants: Facts) -> Hits:
    del wants
    for value in kernel.option(_words(facts), "pcie_acs_override"):
        yield {"value": value}


def _acs_redirect(facts: Facts, wants: Facts) -> Hits:
    if not _many(facts) or wants.get("vms_with_gpus"):
        return
    bridges = [entry["address"] for entry in facts["pci"]["acs"] if entry["redirects"]]
    if bridges:
        shown = ", ".join(bridges[:4]) + (f" and {len(bridges) - 4} more" if len(bridges) > 4 else "")
        yield {"bridges": shown, "first": bridges[0]}


def _vfio_ids(facts: Facts, wants: Facts) -> Hits:
    del wants
    by_module = facts["kernel"]["modprobe"].get("vfio_pci", {}).get("ids", "")
    values = [*kernel.option(_words(facts), "vfio-pci.ids"), by_module]
    cards = [value for value in values if "10de:" in value.lower()]
    if cards:
        yield {"value": cards[0]}


def _mitigations(facts: Facts, wants: Facts) -> Hits:
    del wants
    if "mitigations=off" in _words(facts):
        yield {}


def _initcall(facts: Facts, wants: Facts) -> Hits:
    del wants
    for value in kernel.option(_words(facts), "initcall_blacklist"):
        yield {"value": value}


def _hmm(facts: Facts, wants: Facts) -> Hits:
    del wants
    if not _many(facts) or facts["os"]["virtualization"] == "vm":
        return
    live = facts["driver"]["uvm_disable_hmm"]
    asked = facts["kernel"]["modprobe"].get("nvidia_uvm", {}).get("uvm_disable_hmm")
    if live is False and asked in ("1", "Y", "y"):
        yield {
            "seen": "is set in modprobe.d but not in force",
            "fix": "update-initramfs -u and reboot the host that owns the cards",
        }
    elif live is False:
        yield {
            "seen": "is not set",
            "fix": "on the host that owns the cards: options nvidia_uvm uvm_disable_hmm=1 in /etc/modprobe.d,"
            " update-initramfs -u, reboot",
        }


def _force_p2p(facts: Facts, wants: Facts) -> Hits:
    del wants
    words = kernel.registry_words(facts["driver"]["params"].get("RegistryDwords", ""))
    worst = facts["topology"]["worst"]
    if words.get("ForceP2P") and _many(facts) and worst in ("PIX", "PXB"):
        yield {"value": words["ForceP2P"], "worst": worst}


def _registry_pending(facts: Facts, wants: Facts) -> Hits:
    del wants
    asked = facts["kernel"]["modprobe"].get("nvidia", {}).get("NVreg_RegistryDwords", "")
    live = facts["driver"]["params"].get("RegistryDwords")
    if live is not None and kernel.registry_words(asked) != kernel.registry_words(live) and asked:
        yield {"asked": asked, "live": live or "nothing"}


def _nccl_level(facts: Facts, wants: Facts) -> Hits:
    del facts
    value = str((wants.get("env") or {}).get("NCCL_P2P_LEVEL", ""))
    if re.fullmatch(r"\d+", value):
        # NCCL's own numbers: 0 LOC, 1 PIX, 2 PXB, 3 PHB (4 and more: SYS).
        names = {0: "LOC", 1: "PIX", 2: "PXB", 3: "PHB"}
        yield {"value": value, "name": names.get(int(value), "SYS")}
    elif value and value not in ("LOC", "NVL", "PIX", "PXB", "PXN", "PHB", "SYS"):
        hint = "PHB" if value == "NODE" else "SYS"
        yield {"value": value, "name": hint}


def _nccl_short(facts: Facts, wants: Facts) -> Hits:
    value = str((wants.get("env") or {}).get("NCCL_P2P_LEVEL", ""))
    worst = facts["topology"]["worst"]
    reach = {"LOC": -1, "NVL": 0, "PIX": 1, "PXB": 2, "PXN": 2, "PHB": 4, "SYS": 5}
    far = smi.distance(worst) if worst else None
    if value in reach and far is not None and reach[value] < far:
        yield {
            "value": value,
            "worst": worst,
            "name": "PHB" if worst in ("PHB", "NODE") else str(worst).replace("NODE", "PHB"),
        }


def _nccl_wide(facts: Facts, wants: Facts) -> Hits:
    env = wants.get("env") or {}
    if (
        facts["os"]["virtualization"] == "vm"
        and _many(facts)
        and env.get("NCCL_P2P_LEVEL")
        and not env.get("NCCL_P2P_DISABLE")
    ):
        yield {"value": env["NCCL_P2P_LEVEL"]}


def _device_order(facts: Facts, wants: Facts) -> Hits:
    env: t.Mapping[str, t.Any] = wants.get("env") or {}
    kinds = {card["name"] for card in facts["gpus"]}
    if len(kinds) > 1 and env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        yield {}


def _aspm(facts: Facts, wants: Facts) -> Hits:
    del wants
    words = _words(facts)
    if "pcie_aspm=off" in words and "pcie_port_pm=off" not in words:
        yield {}


def _d3cold(facts: Facts, wants: Facts) -> Hits:
    del wants
    for address in facts["pci"]["vfio_d3cold"]:
        yield {"address": address}


RULES: tuple[Rule, ...] = (
    Rule(
        "iommu_off_with_vms",
        ERROR,
        "the kernel runs with {words}, but guests {guests} are given cards by hostpci",
        "their start fails: cannot prepare PCI pass-through, IOMMU not present",
        "iommu=pt instead: it keeps both direct transfers and pass-through",
        "pve-docs",
        _iommu_off_vm,
    ),
    Rule(
        "iommu_off",
        ADVICE,
        "the kernel runs with {words}",
        "it cures NCCL hangs, and it makes pass-through to VMs impossible",
        "iommu=pt cures them as well and leaves the way to VMs open",
        "wiki",
        _iommu_off,
        folklore=True,
    ),
    Rule(
        "iommu_not_passthrough",
        ADVICE,
        "several GPUs and the IOMMU translates (no iommu=pt)",
        "15 % less on a single stream, and NCCL hangs with eight cards and more were reported",
        "add iommu=pt to the kernel command line of the host that owns the cards",
        "https://github.com/NVIDIA/nccl/issues/631",
        _iommu_full,
    ),
    Rule(
        "amd_iommu_folklore",
        ADVICE,
        "{word} is not a value that the kernel documents",
        "AMD's IOMMU is on by default; the word does nothing",
        "remove it; what is meant is iommu=pt",
        "kernel-params",
        _amd_iommu,
        folklore=True,
    ),
    Rule(
        "pci_noacs_folklore",
        ADVICE,
        "pci=noacs is no option of the mainline kernel",
        "the kernel logs PCI: Unknown option and goes on; the credit it gets belongs to iommu=pt or setpci",
        (
            "remove it; switch ACS off with setpci -s BRIDGE ECAP_ACS+6.w=0000 at each boot, where no VM needs the "
            "isolation"
        ),
        "kernel-params",
        _noacs,
        folklore=True,
    ),
    Rule(
        "acs_override",
        WARNING,
        "pcie_acs_override={value}",
        "it splits IOMMU groups on paper and sends peer traffic through the root complex",
        "remove it on a host that runs tensor parallelism in containers",
        "wiki",
        _acs_override,
    ),
    Rule(
        "acs_redirect",
        WARNING,
        "ACS sends peer traffic to the root complex at {bridges}",
        "direct P2P between cards is off or hangs (16 instead of 55 GB/s)",
        ("setpci -s {first} ECAP_ACS+6.w=0000 for each at boot (a oneshot unit); this gives up isolation between VMs"),
        "https://github.com/NVIDIA/nccl/issues/2079",
        _acs_redirect,
    ),
    Rule(
        "vfio_ids",
        WARNING,
        "vfio-pci takes cards by model ({value})",
        "all cards of the model go to vfio, those for containers as well",
        "driver_override per card address instead",
        "wiki",
        _vfio_ids,
    ),
    Rule(
        "mitigations_off",
        ADVICE,
        "mitigations=off",
        "a little latency for the CPU's protection between guests",
        "remove it where guests are not all trusted",
        "wiki",
        _mitigations,
        folklore=True,
    ),
    Rule(
        "initcall_blacklist",
        ADVICE,
        "initcall_blacklist={value}",
        "an early-binding recipe for pass-through; on a container host it only hides the console",
        "remove it where no VM needs the boot card",
        "wiki",
        _initcall,
        folklore=True,
    ),
    Rule(
        "aspm_half",
        ADVICE,
        "pcie_aspm=off without pcie_port_pm=off",
        "the second word is the one that prevents surprise link-down",
        "add pcie_port_pm=off",
        "https://github.com/local-inference-lab/rtx6kpro/blob/master/troubleshooting/common-issues.md",
        _aspm,
    ),
    Rule(
        "uvm_hmm",
        WARNING,
        "nvidia_uvm's uvm_disable_hmm {seen}",
        "lock-ups of P2P on hosts with several PRO 6000",
        "{fix}",
        "wiki",
        _hmm,
    ),
    Rule(
        "force_p2p_on_switch",
        WARNING,
        "ForceP2P={value} although all cards are {worst}",
        "the setting is for cards without a common switch; behind one it only does harm",
        "remove it from NVreg_RegistryDwords",
        "wiki",
        _force_p2p,
    ),
    Rule(
        "registry_not_in_force",
        WARNING,
        "modprobe.d asks for RegistryDwords {asked}, the module runs with {live}",
        "the options were changed after the module was loaded, or the initramfs has old ones",
        "update-initramfs -u and reboot",
        "wiki",
        _registry_pending,
    ),
    Rule(
        "nccl_level_number",
        WARNING,
        "NCCL_P2P_LEVEL is {value}",
        (
            "NCCL's documentation discourages numbers, the table that circulates for them is wrong, and unknown "
            "words are ignored"
        ),
        "NCCL_P2P_LEVEL={name}",
        "nccl-env",
        _nccl_level,
        folklore=True,
    ),
    Rule(
        "nccl_level_short",
        ADVICE,
        "NCCL_P2P_LEVEL={value}, but the farthest cards are {worst}",
        "between those cards NCCL goes through shared memory (4.8 instead of 50 GiB/s on one host)",
        "NCCL_P2P_LEVEL={name}, if a test of the fabric passes",
        "nccl-env",
        _nccl_short,
    ),
    Rule(
        "nccl_p2p_in_vm",
        WARNING,
        "NCCL_P2P_LEVEL={value} in a VM with several cards",
        "most hosts end at no working P2P between passed-through cards; it hangs at the start",
        "NCCL_P2P_DISABLE=1, or a container instead of a VM",
        "wiki",
        _nccl_wide,
    ),
    Rule(
        "device_order",
        WARNING,
        "different cards and CUDA_DEVICE_ORDER is not PCI_BUS_ID",
        "CUDA then counts the fastest first, and gpus: [..] means other cards than nvidia-smi's",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID in the instance's env",
        "wiki",
        _device_order,
    ),
    Rule(
        "d3cold",
        WARNING,
        "{address} is bound to vfio and may go into D3cold",
        "the card may not come back from it",
        "echo 0 > /sys/bus/pci/devices/{address}/d3cold_allowed, and options vfio-pci disable_idle_d3=1",
        "https://www.guiahardware.es/rtx-5090-y-rtx-6000-pro-el-bug-de-reset-en-virtualizacion-que-congela-las-vms",
        _d3cold,
    ),
)

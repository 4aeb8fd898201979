# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the cards themselves and what holds their memory (private to the collection)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import (
    ADVICE,
    ERROR,
    WARNING,
    Facts,
    Hits,
    Rule,
    indices,
)

# Memory that the driver itself keeps on an idle card without persistence, MiB (rtx6kpro#15 saw 624 on a wedged one).
IDLE_MIB = 100


def _no_gpus(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["smi"]["state"] == "no_devices" or (facts["smi"]["state"] == "ok" and not facts["gpus"]):
        yield {}


def _too_few(facts: Facts, wants: Facts) -> Hits:
    wanted = wants.get("gpus") or 0
    if facts["gpus"] and len(facts["gpus"]) < wanted:
        yield {"have": len(facts["gpus"]), "wanted": wanted}


def _not_sm120(facts: Facts, wants: Facts) -> Hits:
    wanted = wants.get("compute_capabilities") or []
    wrong = [card for card in facts["gpus"] if wanted and card["compute_capability"] not in (None, *wanted)]
    if wrong:
        kinds = sorted({f"{card['name']} ({card['compute_capability']})" for card in wrong})
        yield {"cards": indices(wrong), "kinds": ", ".join(kinds), "wanted": " or ".join(wanted)}


def _unknown_capability(facts: Facts, wants: Facts) -> Hits:
    del wants
    unknown = [card for card in facts["gpus"] if card["compute_capability"] is None]
    if unknown:
        yield {"cards": indices(unknown)}


def _mixed(facts: Facts, wants: Facts) -> Hits:
    del wants
    kinds = sorted({f"{card['name']} with {card['memory_mib']} MiB" for card in facts["gpus"]})
    if len(kinds) > 1:
        yield {"kinds": "; ".join(kinds)}


def _bar1(facts: Facts, wants: Facts) -> Hits:
    del wants
    small = [
        card
        for card in facts["gpus"]
        if card["bar1_mib"] and card["memory_mib"] and card["bar1_mib"] < card["memory_mib"]
    ]
    if small:
        yield {"cards": indices(small), "size": small[0]["bar1_mib"], "memory": small[0]["memory_mib"]}


def _width(facts: Facts, wants: Facts) -> Hits:
    del wants
    narrow = [card for card in facts["gpus"] if (card["pcie"]["width"] or 99) < (card["pcie"]["width_max"] or 0)]
    if narrow:
        link = narrow[0]["pcie"]
        yield {"cards": indices(narrow), "now": link["width"], "possible": link["width_max"]}


def _generation(facts: Facts, wants: Facts) -> Hits:
    del wants
    # An idle card trains its link down to save power: only a busy one that is slow says anything.
    slow = [
        card
        for card in facts["gpus"]
        if (card["utilization_percent"] or 0) >= 50
        and (card["pcie"]["generation"] or 99) < (card["pcie"]["generation_max"] or 0)
    ]
    if slow:
        link = slow[0]["pcie"]
        yield {"cards": indices(slow), "now": link["generation"], "possible": link["generation_max"]}


def _persistence(facts: Facts, wants: Facts) -> Hits:
    del wants
    off = [card for card in facts["gpus"] if card["persistence"] is False]
    if off:
        where = "on the hypervisor" if facts["os"]["virtualization"] == "lxc" else "on this host"
        yield {"cards": indices(off), "where": where}


def _mig(facts: Facts, wants: Facts) -> Hits:
    del wants
    cut = [card for card in facts["gpus"] if card["mig"]]
    if cut:
        yield {"cards": indices(cut), "first": cut[0]["index"]}


def _prohibited(facts: Facts, wants: Facts) -> Hits:
    del wants
    closed = [card for card in facts["gpus"] if (card["compute_mode"] or "").lower() == "prohibited"]
    if closed:
        yield {"cards": indices(closed), "first": closed[0]["index"]}


def _gone(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["smi"]["state"] == "lost":
        yield {"seen": facts["smi"]["text"].strip().splitlines()[0]}
    for address in facts["pci"]["gone"]:
        yield {"seen": f"{address} reads as all ones in configuration space"}


def _held_by_nobody(facts: Facts) -> list[t.Mapping[str, t.Any]]:
    """Cards with memory in use that neither nvidia-smi's list nor an open device node explains."""
    if facts["openers"]:
        return []
    holders = {process["gpu"] for process in facts["processes"]}
    return [card for card in facts["gpus"] if (card["used_mib"] or 0) > IDLE_MIB and card["index"] not in holders]


def _wedged(facts: Facts, wants: Facts) -> Hits:
    del wants
    held = _held_by_nobody(facts)
    # Inside a container other guests' processes are invisible: there this is no proof, and another row speaks.
    if held and facts["os"]["virtualization"] in ("none", "vm"):
        yield {"cards": indices(held), "used": held[0]["used_mib"]}


def _foreign(facts: Facts, wants: Facts) -> Hits:
    del wants
    held = _held_by_nobody(facts)
    if held and facts["os"]["virtualization"] not in ("none", "vm"):
        yield {"cards": indices(held), "used": held[0]["used_mib"]}


def _orphans(facts: Facts, wants: Facts) -> Hits:
    del wants
    for process in facts["processes"]:
        if process.get("unit") or process.get("ppid") != 1 or process.get("state") == "D":
            continue
        yield {"pid": process["pid"], "name": process["name"], "used": process["used_mib"], "gpu": process["gpu"]}


def _releasing(facts: Facts, wants: Facts) -> Hits:
    del wants
    for process in facts["processes"]:
        if process.get("state") == "D":
            yield {"pid": process["pid"], "name": process["name"]}


RULES: tuple[Rule, ...] = (
    Rule(
        "gpus_none",
        ERROR,
        "the driver sees no GPU",
        "no card was given to this host",
        (
            "in a container: give it /dev/nvidia0.. (role proxmox_gpu prints the line); in a VM: hostpci; on "
            "metal: lspci -d 10de:"
        ),
        "pve-docs",
        _no_gpus,
    ),
    Rule(
        "gpus_too_few",
        ERROR,
        "{have} GPUs are here, the instances need {wanted}",
        "tensor parallelism needs one card per rank",
        "give the host more cards, or lower tp_size or gpus of the instances",
        "design",
        _too_few,
    ),
    Rule(
        "gpu_not_sm120",
        ERROR,
        "{cards}: {kinds} is not compute capability {wanted}",
        "kernels are built here for SM120 alone and would not load",
        (
            "use RTX PRO 6000 Blackwell or RTX 50 cards, or set gpu_host_compute_capabilities together with the "
            "stack's cuda_arch_list"
        ),
        "design",
        _not_sm120,
    ),
    Rule(
        "gpu_capability_unknown",
        WARNING,
        "{cards}: the driver does not tell the compute capability",
        "whether the kernels fit cannot be checked before the start",
        "upgrade the driver",
        "smi-help",
        _unknown_capability,
    ),
    Rule(
        "gpus_mixed",
        WARNING,
        "the GPUs differ: {kinds}",
        "tensor parallelism is as fast as the slowest card and as roomy as the smallest",
        "give one instance cards of one kind (gpus: [...])",
        "wiki",
        _mixed,
    ),
    Rule(
        "gpu_bar1_small",
        WARNING,
        "{cards}: BAR1 is {size} MiB for {memory} MiB of memory",
        "peers cannot reach the whole memory, P2P is off or slow",
        (
            "turn on Resizable BAR and Above 4G Decoding in the BIOS; displaymodeselector to compute mode; in a VM "
            "raise OVMF's MMIO window"
        ),
        "wiki",
        _bar1,
    ),
    Rule(
        "gpu_pcie_width",
        WARNING,
        "{cards}: PCIe x{now} where x{possible} is possible",
        "a riser, a slot or a bifurcation setting halves the bandwidth",
        "reseat the card, check riser and BIOS bifurcation",
        "wiki",
        _width,
    ),
    Rule(
        "gpu_pcie_generation",
        WARNING,
        "{cards}: PCIe generation {now} under load where {possible} is possible",
        "the link was trained down; flapping links drop cards off the bus",
        "lock the speed: setpci -d 10de: -s *:*.0 CAP_EXP+30.w=0x0020:0x0020 (idle power +35 %)",
        "https://github.com/local-inference-lab/rtx6kpro/blob/master/daily-summaries/2026-04/2026-04-14.md",
        _generation,
    ),
    Rule(
        "gpu_persistence_off",
        ADVICE,
        "{cards}: persistence mode is off",
        "each first use initialises the card again, which takes seconds and resets settings",
        "enable nvidia-persistenced {where}",
        "smi-help",
        _persistence,
    ),
    Rule(
        "gpu_mig_on",
        ERROR,
        "{cards}: MIG is on",
        "an instance of tensor parallelism needs whole cards",
        "nvidia-smi -i {first} -mig 0 on the host that owns the card, with nothing running on it",
        "smi-help",
        _mig,
    ),
    Rule(
        "gpu_compute_prohibited",
        ERROR,
        "{cards}: compute mode is Prohibited",
        "no program may use the card",
        "nvidia-smi -i {first} -c DEFAULT",
        "smi-help",
        _prohibited,
    ),
    Rule(
        "gpu_lost",
        ERROR,
        "a GPU no longer answers: {seen}",
        "it fell off the bus; nothing on it can run until it is reset",
        "save journalctl -k, then power the host off and on (a warm reboot may not do)",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1353",
        _gone,
    ),
    Rule(
        "gpu_wedged",
        WARNING,
        "{cards}: {used} MiB in use and no process holds it",
        "the driver kept the memory of a process that died in P2P",
        (
            "nvidia-smi -r -i N with no client on the card, else reboot; start with NCCL_P2P_DISABLE=1 until the "
            "fabric is proved"
        ),
        "rtx6kpro-15",
        _wedged,
    ),
    Rule(
        "gpu_held_elsewhere",
        WARNING,
        "{cards}: {used} MiB in use by no process of this container",
        "another guest or a process of the hypervisor holds the card",
        "on the hypervisor: fuser -v /dev/nvidia*, and /proc/PID/cgroup tells the guest",
        "pve-container",
        _foreign,
    ),
    Rule(
        "gpu_orphan",
        WARNING,
        "process {pid} ({name}) holds {used} MiB on GPU {gpu} and belongs to no service",
        "a worker whose parent died keeps its memory",
        "kill {pid}; kill -9 {pid} when it stays",
        "dynamo-1889",
        _orphans,
    ),
    Rule(
        "gpu_releasing",
        WARNING,
        "process {pid} ({name}) is in uninterruptible sleep",
        "it is giving memory back, or the driver no longer answers",
        "wait a minute; when it stays, look for Xid and reboot",
        "smi-help",
        _releasing,
    ),
)

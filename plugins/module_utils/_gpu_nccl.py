# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first environment for NCCL, chosen from the topology and explained (private to the collection).

A recommendation, to be proved by a test of the fabric: the same topology behaves differently with other BIOS settings.
"""

from __future__ import annotations

import re
import typing as t

# Read for every unit sglang-NAME.service (systemd.unit(5): a prefix ending in a dash). Environment= gives way to
# EnvironmentFile= (systemd.exec(5)), where an instance's own env is, so what an instance sets wins.
DROP_IN = "/etc/systemd/system/sglang-.service.d/10-nccl.conf"

# nvidia-smi's word for the farthest pair, and the name by which NCCL calls a reach that covers it. NCCL has no NODE:
# two host bridges of one NUMA node are PHB to it.
LEVELS: dict[str, str] = {"NV": "NVL", "PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "PHB", "SYS": "SYS"}


def choose(topology: t.Mapping[str, t.Any], virtualization: str, shm_mib: int | None) -> dict[str, t.Any]:
    """Variables for the engine's environment and the reason for each.

    Args:
        topology: of :func:`_gpu_smi.topology`.
        virtualization: ``none``, ``vm``, ``lxc`` or another container.
        shm_mib: size of /dev/shm in MiB; None when not known.

    Returns:
        ``{"env": {name: value}, "why": {name: reason}, "profile": word}`` where the profile is ``single``, ``vm`` or
        the farthest link, with ``-2s`` behind it when the cards hang on two sockets.
    """
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    why = {"CUDA_DEVICE_ORDER": "indices mean the same cards as in nvidia-smi"}
    worst = topology.get("worst")
    if len(topology.get("gpus", [])) < 2 or not worst:
        return {"env": env, "why": why, "profile": "single"}
    env["NCCL_IB_DISABLE"] = "1"
    why["NCCL_IB_DISABLE"] = "one host: no InfiniBand to look for"
    if virtualization == "vm":
        env["NCCL_P2P_DISABLE"] = "1"
        why["NCCL_P2P_DISABLE"] = (
            "cards passed through to a VM rarely reach each other; a hang at the start is the usual sign"
        )
        profile = "vm"
    else:
        level = LEVELS["NV" if worst.startswith("NV") else worst]
        env["NCCL_P2P_LEVEL"] = level
        why["NCCL_P2P_LEVEL"] = f"the farthest pair of cards is {worst}; without it NCCL goes through main memory there"
        profile = worst.lower() + ("-2s" if topology.get("sockets", 0) > 1 else "")
    if topology.get("sockets", 0) > 1:
        env["NCCL_MIN_NCHANNELS"] = "8"
        why["NCCL_MIN_NCHANNELS"] = "two sockets: 22 to 37.6 GB/s for an all-reduce of eight cards on one such host"
    if virtualization not in ("none", "vm") and (shm_mib or 0) >= 8192:
        env["NCCL_CUMEM_HOST_ENABLE"] = "0"
        why["NCCL_CUMEM_HOST_ENABLE"] = (
            "containers often lack the NUMA calls that it needs, and /dev/shm is large enough here"
        )
    return {"env": env, "why": why, "profile": profile}


def installed(text: str) -> dict[str, str]:
    """Variables that a drop-in's ``Environment="NAME=value"`` lines set."""
    return dict(re.findall(r'^Environment="(\w+)=([^"]*)"\s*$', text, re.MULTILINE))

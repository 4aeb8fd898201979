# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about toolkit, operating system, memory and disks (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_rule import (
    ADVICE,
    ERROR,
    WARNING,
    Facts,
    Hits,
    Rule,
    at_least,
)

SUPPORTED_OS: tuple[tuple[str, str], ...] = (("debian", "12"), ("debian", "13"), ("ubuntu", "24.04"))
# NCCL's fallback without cuMem host allocations puts its buffers into /dev/shm (LlamaFactory#9506): below the first
# number it fails at the start, below the second large tensor parallelism may.
SHM_ERROR_MIB = 1024
SHM_WARNING_MIB = 8192


def _no_nvcc(facts: Facts, wants: Facts) -> Hits:
    if wants.get("nvcc") and not facts["cuda"]["unit"]:
        others = [entry["path"] for entry in facts["cuda"]["nvcc"]]
        if others:
            folder = others[0].rsplit("/", 1)[0]
            yield {
                "seen": f"{others[0]} is there but not on the path",
                "fix": f"add {folder} to gpu_host_unit_path, or link /usr/local/cuda to it",
            }
        else:
            yield {
                "seen": "and none was found elsewhere",
                "fix": f"install the CUDA toolkit {wants['nvcc']} or newer, for instance cuda-toolkit-13-0",
            }


def _old_nvcc(facts: Facts, wants: Facts) -> Hits:
    used = facts["cuda"]["unit"]
    if used and at_least(used["version"], wants.get("nvcc")) is False:
        better = [entry for entry in facts["cuda"]["nvcc"] if at_least(entry["version"], wants["nvcc"])]
        if better:
            folder = better[0]["path"].rsplit("/", 1)[0]
            fix = f"put {folder} (version {better[0]['version']}) first in gpu_host_unit_path"
        else:
            fix = f"install the CUDA toolkit {wants['nvcc']} or newer (13.0 fits the cu130 wheels)"
        yield {"path": used["path"], "version": used["version"], "wanted": wants["nvcc"], "fix": fix}


def _other_nvcc(facts: Facts, wants: Facts) -> Hits:
    del wants
    used = facts["cuda"]["unit"]
    newer = [
        entry
        for entry in facts["cuda"]["nvcc"]
        if used and used["version"] != entry["version"] and at_least(entry["version"], used["version"])
    ]
    if used and newer:
        yield {
            "path": used["path"],
            "version": used["version"],
            "other": newer[0]["path"],
            "newer": newer[0]["version"],
        }


def _cuda_132(facts: Facts, wants: Facts) -> Hits:
    del wants
    used = facts["cuda"]["unit"]
    if used and used["version"].startswith("13.2."):
        yield {"path": used["path"], "version": used["version"]}


def _header(facts: Facts, wants: Facts) -> Hits:
    del wants
    for name in facts["cuda"]["header_conflicts"]:
        yield {"name": name, "glibc": facts["os"]["glibc"], "version": facts["cuda"]["unit"]["version"]}


def _os(facts: Facts, wants: Facts) -> Hits:
    del wants
    system = facts["os"]
    if (system["id"], system["version_id"]) not in SUPPORTED_OS:
        yield {"name": system["name"] or "this system"}


def _glibc(facts: Facts, wants: Facts) -> Hits:
    del wants
    if at_least(facts["os"]["glibc"], "2.28") is False:
        yield {"glibc": facts["os"]["glibc"]}


def _machine(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["os"]["machine"] not in ("x86_64", "aarch64", ""):
        yield {"machine": facts["os"]["machine"]}


def _python(facts: Facts, wants: Facts) -> Hits:
    wanted = wants.get("pythons") or []
    have = [entry["version"] for entry in facts["python"]]
    if wanted and not set(wanted) & set(have):
        yield {"wanted": " or ".join(wanted), "have": ", ".join(have) or "none"}


def _memory(facts: Facts, wants: Facts) -> Hits:
    wanted = (wants.get("memory_gib") or 0) * 1024
    have = facts["memory"]["effective_mib"]
    if have and have < wanted:
        limit = facts["memory"]["limit_mib"]
        limited = limit is not None and limit == have
        where = "the container's memory limit" if limited else "main memory"
        fix = "on the hypervisor: pct set VMID --memory MIB" if limited else "add memory"
        yield {"where": where, "have": f"{have / 1024:.1f}", "wanted": f"{wanted / 1024:g}", "fix": fix}


def _shm(facts: Facts, wants: Facts) -> Hits:
    have = facts["memory"]["shm_mib"]
    floor = wants.get("shm_mib") or SHM_WARNING_MIB
    if have is None or (wants.get("gpus") or 1) < 2 or have >= floor:
        return
    severity = ERROR if have < min(SHM_ERROR_MIB, floor) else WARNING
    yield {"have": have, "wanted": floor, "severity": severity}


def _disk(facts: Facts, wants: Facts) -> Hits:
    del wants
    for disk in facts["disks"]:
        if disk["free_gib"] is not None and disk["free_gib"] < disk["need_gib"]:
            # Where releases are already, this run may need no new one: then it is only worth knowing.
            yield {
                "severity": WARNING if disk["has_release"] else ERROR,
                "path": disk["path"],
                "mount": disk["mount"],
                "have": f"{disk['free_gib']:.1f}",
                "wanted": f"{disk['need_gib']:g}",
            }


def _inodes(facts: Facts, wants: Facts) -> Hits:
    del wants
    for disk in facts["disks"]:
        if disk["free_inodes"] is not None and 0 < disk["free_inodes"] < 100_000 and disk["need_gib"]:
            yield {"path": disk["path"], "have": disk["free_inodes"]}


def _governor(facts: Facts, wants: Facts) -> Hits:
    del wants
    slow = {name: count for name, count in facts["kernel"]["governors"].items() if name != "performance"}
    if slow:
        yield {"names": ", ".join(f"{name} on {count} CPUs" for name, count in sorted(slow.items()))}


def _numa(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["kernel"]["numa_balancing"]:
        yield {}


def _cgroup1(facts: Facts, wants: Facts) -> Hits:
    del wants
    if facts["memory"]["cgroup"] == 1:
        yield {}


def _arc(facts: Facts, wants: Facts) -> Hits:
    del wants
    kernel = facts["kernel"]
    if "zfs" in kernel["modules"] and kernel["modprobe"].get("zfs", {}).get("zfs_arc_max", "0") in ("", "0"):
        yield {}


RULES: tuple[Rule, ...] = (
    Rule(
        "nvcc_absent",
        ERROR,
        "no nvcc on the path that the service gets, {seen}",
        "FlashInfer and Triton compile kernels when the engine starts, and sgl-kernel is built from source",
        "{fix}",
        "flashinfer-3633",
        _no_nvcc,
    ),
    Rule(
        "nvcc_old",
        ERROR,
        "{path} is version {version}, older than {wanted}",
        (
            "FlashInfer silently leaves SM120 out with an older one: No supported CUDA architectures found for "
            "major versions [12]"
        ),
        "{fix}",
        "flashinfer-3633",
        _old_nvcc,
    ),
    Rule(
        "nvcc_shadowed",
        ADVICE,
        "the service would use {path} ({version}), although {other} ({newer}) is here",
        "two toolkits on one host are mixed up easily",
        "set gpu_host_unit_path, or remove the one that is not meant",
        "flashinfer-3633",
        _other_nvcc,
    ),
    Rule(
        "cuda_13_2",
        WARNING,
        "{path} is CUDA {version}",
        "wrong output was reported repeatedly with 13.2 (cuBLAS before 13.4.1 ignores the NVFP4 tensor scale)",
        "use CUDA 13.0, which the cu130 wheels are built with",
        "wiki",
        _cuda_132,
    ),
    Rule(
        "cuda_header_conflict",
        ERROR,
        "CUDA {version} declares {name}() otherwise than glibc {glibc}",
        "every compile fails with: exception specification is incompatible with that of previous function",
        "use CUDA 13.0 or newer, or a guest with glibc 2.39 (Ubuntu 24.04)",
        "nccl-1700",
        _header,
    ),
    Rule(
        "os_unsupported",
        WARNING,
        "{name} is not Debian 12, Debian 13 or Ubuntu 24.04",
        "packages and versions were not tried on it",
        "use a supported system, or go on at your own risk",
        "design",
        _os,
    ),
    Rule(
        "glibc_old",
        ERROR,
        "glibc {glibc} is older than 2.28",
        "torch's wheels do not load",
        "use Debian 12 or newer",
        "manylinux",
        _glibc,
    ),
    Rule(
        "machine_unsupported",
        ERROR,
        "no wheels exist for {machine}",
        "torch, FlashInfer and sgl-kernel are published for x86_64 and aarch64",
        "use an x86_64 host",
        "manylinux",
        _machine,
    ),
    Rule(
        "python_absent",
        ADVICE,
        "no Python {wanted} here (found: {have})",
        "a release needs one of them",
        "nothing: uv fetches one when the stack is installed; offline, install python3 of the system's release",
        "design",
        _python,
    ),
    Rule(
        "memory_low",
        ERROR,
        "{where} is {have} GiB, less than {wanted} GiB",
        "weights are read through the page cache and each compile job of a kernel build takes about 5 GB",
        "{fix}, or lower gpu_host_memory_gib for a small model",
        "wiki",
        _memory,
    ),
    Rule(
        "shm_small",
        WARNING,
        "/dev/shm is {have} MiB, less than {wanted} MiB",
        "NCCL puts its buffers there when cuMem host allocations do not work, and fails in the middle of the start",
        "mount -o remount,size=16G /dev/shm, and in /etc/fstab: tmpfs /dev/shm tmpfs size=16G 0 0",
        "llamafactory-9506",
        _shm,
    ),
    Rule(
        "disk_low",
        ERROR,
        "{path} (on {mount}) has {have} GiB free, needs {wanted} GiB",
        "a release with torch and caches takes tens of GiB, and a full disk stops it half-way",
        "make room, mount a bigger disk there, or lower the number in gpu_host_disk",
        "design",
        _disk,
    ),
    Rule(
        "inodes_low",
        WARNING,
        "{path} has {have} inodes free",
        "a virtual environment with torch holds about 60000 files",
        "remove old releases or use a file system with more inodes",
        "design",
        _inodes,
    ),
    Rule(
        "governor",
        ADVICE,
        "the CPU governor is {names}",
        "decode is bound by one CPU core per card: +5 % for a single request with performance",
        "cpupower frequency-set -g performance (on the hypervisor, a container cannot)",
        "https://github.com/local-inference-lab/rtx6kpro/blob/master/daily-summaries/2026-05/2026-05-13.md#governor",
        _governor,
    ),
    Rule(
        "numa_balancing",
        ADVICE,
        "kernel.numa_balancing is on",
        "pages move while the engine's pinned memory is in use",
        "sysctl kernel.numa_balancing=0 on the host",
        "wiki",
        _numa,
    ),
    Rule(
        "cgroup_v1",
        ADVICE,
        "the memory cgroup is version 1",
        "Proxmox VE 9 and current systemd know version 2 only",
        "boot with the unified hierarchy",
        "pve-docs",
        _cgroup1,
    ),
    Rule(
        "zfs_arc_uncapped",
        ADVICE,
        "ZFS is loaded and zfs_arc_max is not set",
        (
            "its cache competes with the page cache of the weights (freezes under load were reported, the cause is "
            "unproven)"
        ),
        "options zfs zfs_arc_max=BYTES in /etc/modprobe.d/zfs.conf, update-initramfs -u",
        "https://github.com/local-inference-lab/rtx6kpro/blob/master/troubleshooting/common-issues.md",
        _arc,
        folklore=True,
    ),
)

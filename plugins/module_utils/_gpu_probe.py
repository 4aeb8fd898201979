# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads everything that the rules about a GPU host look at, in one go (private to the collection).

Budget: under 2 s, of which nearly all is nvidia-smi (three calls) and nvcc --version.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_events as events
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_kernel as kernel
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_nccl as nccl
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_smi as smi
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_system as system
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host, process

SMI_SEARCH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin:/run/current-system/sw/bin"
)
DEFAULT_UNIT_PATH = "/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/nvidia/lib64")
_MODULES = re.compile(r"^(nvidia\w*|nouveau|vfio\w*|zfs)\b", re.MULTILINE)
_CARD = re.compile(r"^/dev/nvidia\d+$")
_GIB = 1024**3


def read(
    host: Host,
    unit_path: str = DEFAULT_UNIT_PATH,
    packages: t.Sequence[str] = (),
    disks: t.Sequence[t.Mapping[str, t.Any]] = (),
) -> dict[str, t.Any]:
    """All facts of a host.

    Args:
        host: where to read.
        unit_path: PATH of the service, colon separated; nvcc is looked for there first.
        packages: names of distribution packages, each perhaps ``a | b``.
        disks: ``{path, need_gib}``.

    Returns:
        The dictionary that RETURN of ``gpu_host_info`` documents, without findings. Memory in MiB, disks in GiB.
    """
    facts: dict[str, t.Any] = {"os": _os(host)}
    facts.update(_nvidia(host))
    facts["kernel"] = _kernel(host)
    facts["driver"] = _driver(host)
    facts["device_nodes"] = device_nodes(host)
    facts["pci"] = _pci(host, facts["gpus"])
    if any(card["bar1_mib"] is None for card in facts["gpus"]):
        _rc, out, _err = host.run(facts["smi"]["path"], "-q", "-d", "MEMORY")
        for card in facts["gpus"]:
            card["bar1_mib"] = card["bar1_mib"] or smi.bar1(out).get(card["bus_id"])
    facts["cuda"] = _cuda(host, unit_path, facts["os"]["glibc"])
    facts["python"] = _pythons(host)
    facts["packages"] = _packages(host, packages)
    facts["memory"] = _memory(host)
    facts["disks"] = [_disk(host, disk) for disk in disks]
    facts["events"] = kernel_events(host, facts["os"]["virtualization"])
    facts["nccl"] = {
        **nccl.choose(facts["topology"], facts["os"]["virtualization"], facts["memory"]["shm_mib"]),
        "installed": nccl.installed(host.text(nccl.DROP_IN)),
    }
    return facts


def _nvidia(host: Host) -> dict[str, t.Any]:
    program = host.which("nvidia-smi", SMI_SEARCH)
    path = program
    rc, out, err = (
        host.run(program, "--query-gpu=" + ",".join(smi.QUERY_FIELDS), "--format=csv") if path else (None, "", "")
    )
    if rc not in (0, None) and "not a valid field" in out + err:
        rc, out, err = host.run(program, "--query-gpu=" + ",".join(smi.MINIMAL_FIELDS), "--format=csv")
    word = smi.state(rc, out + err)
    cards = smi.gpus(out) if word in ("ok", "lost") else []
    holders: list[dict[str, t.Any]] = []
    map_text = ""
    if cards:
        _rc, apps, _err = host.run(program, "--query-compute-apps=" + ",".join(smi.APP_FIELDS), "--format=csv")
        holders = smi.processes(apps, cards)
        if len(cards) > 1:
            _rc, map_text, _err = host.run(program, "topo", "-m")
    for holder in holders:
        seen = process(host, holder["pid"])
        holder.update(ppid=seen["ppid"], state=seen["state"], unit=system.unit_of(seen["cgroup"]))
    bad = "" if word == "ok" else (out + err)[:2000]
    return {
        # Looking through all open files is only worth it when memory is in use.
        "openers": openers(host) if any(card["used_mib"] for card in cards) else [],
        "smi": {"path": program, "state": word, "text": bad},
        "gpus": cards,
        "processes": holders,
        "topology": smi.topology(map_text),
    }


def openers(host: Host) -> list[int]:
    """Processes visible from here that have a card's node open, whatever their name.

    nvidia-smi in a container may list none of the container's own processes, so only this tells whether memory in use
    belongs to somebody here. The persistence daemon holds all cards for good and is left out.
    """
    found = []
    # Process by process, since one that ends meanwhile must not hide the others.
    for place in host.glob("/proc/[0-9]*"):
        has_card = any(_CARD.match(host.link(path)) for path in host.glob(f"{place}/fd/*"))
        if has_card and not host.text(f"{place}/comm").startswith("nvidia-persist"):
            found.append(int(_base(place)))
    return sorted(found)


def _driver(host: Host) -> dict[str, t.Any]:
    names = [_base(path) for folder in _LIBRARIES for path in host.glob(folder + "/lib*.so.*")]
    live = host.text("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm").strip()
    return {
        "kernel": kernel.driver(host.text("/proc/driver/nvidia/version")),
        "user": kernel.library_version(names),
        "params": kernel.params(host.text("/proc/driver/nvidia/params")),
        "uvm_disable_hmm": {"Y": True, "1": True, "N": False, "0": False}.get(live),
    }


def device_nodes(host: Host) -> list[dict[str, t.Any]]:
    """The nodes /dev/nvidia* with their numbers, modes and the major that the driver uses now (where /proc tells)."""
    majors = kernel.majors(host.text("/proc/devices"))
    found = []
    for path in host.glob("/dev/nvidia*") + host.glob("/dev/nvidia-caps/*"):
        seen = host.stat(path)
        if seen is None or path == "/dev/nvidia-caps":
            continue
        word = "nvidia-uvm" if "uvm" in path else "nvidia-caps" if "caps" in path else "nvidia"
        expected = majors.get(word, majors.get("nvidia-frontend") if word == "nvidia" else None)
        found.append(
            {
                "path": path,
                "major": os.major(seen.st_rdev),
                "minor": os.minor(seen.st_rdev),
                "mode": f"{seen.st_mode & 0o777:04o}",
                "uid": seen.st_uid,
                "gid": seen.st_gid,
                "expected_major": expected,
            }
        )
    return found


def _pci(host: Host, cards: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any]:
    """PCI facts; also fills in BAR1 sizes of ``cards`` from sysfs, which nvidia-smi's query interface does not tell."""
    sizes: dict[str, int | None] = {}
    found: dict[str, t.Any] = {"gone": [], "acs": [], "vfio_d3cold": []}
    for path in host.glob("/sys/bus/pci/devices/*"):
        address = _base(path)
        kind = host.text(path + "/class").strip()
        if kind.startswith("0x0604"):
            control = kernel.acs_control(host.data(path + "/config"))
            if control is not None:
                found["acs"].append(
                    {"address": address, "control": control, "redirects": kernel.acs_redirects(control)}
                )
        if host.text(path + "/vendor").strip() != "0x10de" or not kind.startswith("0x03"):
            continue
        if kernel.config_is_gone(host.data(path + "/config")):
            found["gone"].append(address)
        sizes[address] = kernel.bar_mib(host.text(path + "/resource"), 1) or None
        bound = _base(host.real(path + "/driver"))
        if bound == "vfio-pci" and host.text(path + "/d3cold_allowed").strip() == "1":
            found["vfio_d3cold"].append(address)
    for card in cards:
        card["bar1_mib"] = sizes.get(card["bus_id"])
    return found


def _cuda(host: Host, unit_path: str, glibc: str) -> dict[str, t.Any]:
    first = host.which("nvcc", unit_path)
    candidates = [first] if first else []
    candidates += host.glob("/usr/local/cuda*/bin/nvcc") + host.glob("/opt/cuda*/bin/nvcc") + host.glob("/usr/bin/nvcc")
    compilers: list[dict[str, str]] = []
    seen: set[str] = set()
    for path in candidates:
        real = host.real(path)
        if real in seen:
            continue
        seen.add(real)
        _rc, out, _err = host.run(path, "--version")
        compilers.append({"path": path, "real_path": real, "version": system.nvcc_version(out)})
    used = compilers[0] if first and compilers else None
    conflicts: list[str] = []
    if used:
        home = used["real_path"].removesuffix("/bin/nvcc")
        headers = host.glob(home + "/targets/*/include/crt/math_functions.h") or [
            home + "/include/crt/math_functions.h"
        ]
        conflicts = system.header_conflicts(host.text(headers[0]), glibc)
    return {"unit": used, "nvcc": compilers, "header_conflicts": conflicts, "unit_path": unit_path}


def _os(host: Host) -> dict[str, t.Any]:
    release = system.os_release(host.text("/etc/os-release"))
    vendor = host.text("/sys/class/dmi/id/sys_vendor") + host.text("/sys/class/dmi/id/product_name")
    try:
        glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[-1]
    except (ValueError, IndexError):
        glibc = ""
    return {
        "id": release.get("ID", ""),
        "version_id": release.get("VERSION_ID", ""),
        "name": release.get("PRETTY_NAME", ""),
        "glibc": glibc,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "virtualization": system.virtualization(
            host.text("/run/systemd/container"), host.text("/proc/1/environ"), vendor
        ),
    }


def _kernel(host: Host) -> dict[str, t.Any]:
    files = {_base(path): host.text(path) for path in host.glob("/etc/modprobe.d/*.conf")}
    governors: dict[str, int] = {}
    for path in host.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        word = host.text(path).strip()
        if word:
            governors[word] = governors.get(word, 0) + 1
    return {
        "cmdline": kernel.cmdline(host.text("/proc/cmdline")),
        "modprobe": kernel.modprobe(files),
        "blacklisted": kernel.blacklisted(files),
        "modules": sorted(set(_MODULES.findall(host.text("/proc/modules")))),
        "iommu_groups": len(host.glob("/sys/kernel/iommu_groups/*")),
        "governors": governors,
        "numa_balancing": host.text("/proc/sys/kernel/numa_balancing").strip() not in ("", "0"),
    }


def _pythons(host: Host) -> list[dict[str, str]]:
    found = []
    for folder in ("/usr/bin", "/usr/local/bin"):
        for path in host.glob(folder + "/python3.*"):
            hit = re.fullmatch(r"python(3\.\d+)", _base(path))
            if hit:
                found.append({"path": path, "version": hit.group(1)})
    return found


def _packages(host: Host, wanted: t.Sequence[str]) -> dict[str, t.Any]:
    have = system.dpkg(host.text("/var/lib/dpkg/status"))
    names = [name.strip() for entry in wanted for name in entry.split("|")]
    return {
        "installed": {name: have[name] for name in names if name in have},
        "missing": system.missing(wanted, have),
        "apt_bindings": "python3-apt" in have,
    }


def _memory(host: Host) -> dict[str, t.Any]:
    info = system.meminfo(host.text("/proc/meminfo"))
    version, path = system.own_cgroup(host.text("/proc/self/cgroup"))
    base, name = (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if version == 1 else ("/sys/fs/cgroup", "memory.max")
    )
    limits = []
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts) + 1):
        limits.append(system.cgroup_limit(host.text("/".join([base, *parts[:depth], name]))))
    known = [limit for limit in limits if limit is not None]
    limit = min(known) if known else None
    total = info.get("MemTotal", 0)
    shm = host.file_system("/dev/shm")
    return {
        "total_mib": total,
        "available_mib": info.get("MemAvailable", 0),
        "limit_mib": limit,
        "effective_mib": min(total, limit) if limit else total,
        "cgroup": version,
        "shm_mib": shm[0].f_blocks * shm[0].f_frsize // system.MIB if shm else None,
    }


def _disk(host: Host, disk: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    found = host.file_system(disk["path"])
    return {
        "path": disk["path"],
        "need_gib": float(disk.get("need_gib") or 0),
        "mount": found[1] if found else "",
        "total_gib": round(found[0].f_blocks * found[0].f_frsize / _GIB, 1) if found else None,
        "free_gib": round(found[0].f_bavail * found[0].f_frsize / _GIB, 1) if found else None,
        "free_inodes": found[0].f_favail if found else None,
        "has_release": bool(host.glob(disk["path"].rstrip("/") + "/releases/*")),
    }


def kernel_events(host: Host, virtualization: str) -> dict[str, t.Any]:
    """Events of the kernel log of this boot; a container sees the hypervisor's, of which only the GPU's are told."""
    inside = virtualization not in ("none", "vm")
    journal = host.which("journalctl", SMI_SEARCH)
    rc, out = None, ""
    if journal and not inside:
        rc, out, _err = host.run(journal, "-k", "-b", "-q", "--no-pager", "-o", "short-iso")
    if not out.strip():
        ring = host.which("dmesg", SMI_SEARCH)
        rc, out, _err = host.run(ring)
    found = events.read(out)
    if inside:
        found["signs"] = [sign for sign in found["signs"] if "NVRM" in sign["last"] or "GPU" in sign["last"]]
    return {"available": rc == 0 and bool(out.strip()), **found}


def fabric(host: Host) -> dict[str, t.Any]:
    """The part of the facts that the rules about a hypervisor look at: command line, options, PCI, kernel log."""
    return {
        "os": _os(host),
        "gpus": [],
        "kernel": _kernel(host),
        "pci": _pci(host, []),
        "events": kernel_events(host, "none"),
    }


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def vms_with_gpus(host: Host) -> list[int]:
    """Numbers of the VMs that a Proxmox host gives PCI devices to; empty on every other host."""
    found = []
    for path in host.glob("/etc/pve/qemu-server/*.conf"):
        stem = _base(path).partition(".")[0]
        if stem.isdigit() and re.search(r"^hostpci\d+:", host.text(path), re.MULTILINE):
            found.append(int(stem))
    return found

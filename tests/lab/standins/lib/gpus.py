"""The lab's GPUs: what they are and who holds their memory.

Imitates what the NVIDIA driver knows. Facts of the card: NVIDIA's data sheet of the RTX PRO 6000 Blackwell Server Edition
(96 GB GDDR7, 600 W, PCIe 5.0 x16, compute capability 12.0). Figures that follow the capture of two H200 (nvidia_smi):
memory that the driver reserves is about 0.6 GiB and counts as neither used nor free.

A process holds memory by /run/lab-gpus/holders/<pid>.json of its host:
{"pid": int, "starttime": int, "name": str, "gpus": {"0": MiB}}, counted while that pid has that start time (field 22 of
/proc/<pid>/stat). The hypervisor looks into its guests too, and answers them on a socket, since a container does not see
the processes of others while the driver counts their memory.
"""

from __future__ import annotations

import glob
import json
import os
import socket

DRIVER = "580.126.09"
CUDA = "13.0"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
COMPUTE_CAP = "12.0"
MEMORY_MIB = 97887
RESERVED_MIB = 637
POWER_LIMIT_W = 600.0

ROOT = "/run/lab-gpus"
HOLDERS = ROOT + "/holders"
STUCK = ROOT + "/stuck.json"  # {"0": MiB}: memory that nobody holds any more and that only a reset gives back
SOCKET = ROOT + "/driver/socket"
PROC_VERSION = "/proc/driver/nvidia/version"
HYPERVISOR_MARK = "/usr/lib/sglang-lab/hypervisor"

BUSES = (0x01, 0x21, 0x41, 0x61, 0x81, 0xA1, 0xC1, 0xE1)


class Gpu:
    """One card; index is the minor number too."""

    def __init__(self, index):
        self.index = index
        self.bus = BUSES[index]
        self.bus_id = f"00000000:{self.bus:02X}:00.0"
        self.uuid = "GPU-5d0b9e50-12c0-4ab5-9d7e-0000000000%02x" % (0xB0 + index)
        self.numa = index // 4


GPUS = tuple(Gpu(index) for index in range(8))


def is_hypervisor():
    """Whether this host loads the driver, so that it sees all processes."""
    return os.path.exists(HYPERVISOR_MARK)


def loaded():
    """Whether the driver is loaded."""
    return os.path.exists(PROC_VERSION)


def visible():
    """Cards whose device node this host has."""
    return [gpu for gpu in GPUS if os.path.exists("/dev/nvidia%d" % gpu.index)]


def start_time(pid):
    """Start of a process in clock ticks after boot (proc(5), field 22); None when it is gone or a zombie."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _read(folder):
    for path in sorted(glob.glob(folder + "/*.json")):
        try:
            with open(path, encoding="utf-8") as handle:
                yield json.load(handle)
        except (OSError, ValueError):
            continue  # being written, or removed between the listing and the reading


def _namespaces():
    """Process namespaces below this one: [{"namespace", "root", "pids": {pid inside: pid here}}]."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/status", encoding="utf-8", errors="replace") as handle:
                inside = next((line.split()[1:] for line in handle if line.startswith("NSpid:")), [])
            if len(inside) < 2:
                continue
            namespace = os.stat(f"/proc/{entry}/ns/pid").st_ino
        except OSError:
            continue
        space = found.setdefault(namespace, {"namespace": namespace, "root": None, "pids": {}})
        space["pids"][int(inside[-1])] = int(entry)
        if inside[-1] == "1":
            space["root"] = f"/proc/{entry}/root"
    return [space for space in found.values() if space["root"]]


def local_holders():
    """Living holders that this host can see: [{"pid", "name", "gpus": {index: MiB}, "namespace"}], pid as seen here."""
    own = os.stat("/proc/self/ns/pid").st_ino
    result = []
    for holder in _read(HOLDERS):
        if start_time(int(holder["pid"])) == int(holder["starttime"]):
            result.append(_row(holder, int(holder["pid"]), own, int(holder["pid"])))
    if is_hypervisor():
        for space in _namespaces():
            for holder in _read(space["root"] + HOLDERS):
                pid = space["pids"].get(int(holder["pid"]))
                if pid is not None and start_time(pid) == int(holder["starttime"]):
                    result.append(_row(holder, pid, space["namespace"], int(holder["pid"])))
    return result


def _row(holder, pid, namespace, inner):
    gpus = {int(index): int(mib) for index, mib in holder["gpus"].items()}
    return {
        "pid": pid,
        "name": str(holder.get("name", "python3")),
        "gpus": gpus,
        "namespace": namespace,
        "inner": inner,
    }


def stuck():
    """Memory that no process holds, as {index: MiB}."""
    try:
        with open(STUCK, encoding="utf-8") as handle:
            return {int(index): int(mib) for index, mib in json.load(handle).items()}
    except (OSError, ValueError):
        return {}


def ask_hypervisor():
    """The hypervisor's view for a guest, or None where there is no hypervisor to ask."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(3.0)
            connection.connect(SOCKET)
            with connection.makefile("rb") as stream:
                return json.load(stream)
    except (OSError, ValueError):
        return None


def state():
    """Memory and processes: {"used": {index: MiB}, "processes": [{"pid", "name", "gpus"}]}.

    `used` counts every process of the machine, `processes` has those that this host sees.
    """
    view = None if is_hypervisor() else ask_hypervisor()
    if view is not None:
        own = os.stat("/proc/self/ns/pid").st_ino
        processes = [dict(row, pid=row["inner"]) for row in view["processes"] if row["namespace"] == own]
        holders, dead = view["processes"], view["stuck"]
    else:
        processes = holders = local_holders()
        dead = stuck()
    used = {gpu.index: 0 for gpu in GPUS}
    for row in holders:
        for index, mib in row["gpus"].items():
            used[int(index)] += mib
    for index, mib in dead.items():
        used[int(index)] += mib
    for row in processes:
        row["gpus"] = {int(index): mib for index, mib in row["gpus"].items()}
    return {"used": used, "processes": sorted(processes, key=lambda row: row["pid"])}

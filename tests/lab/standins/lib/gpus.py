"""The lab's GPUs: what they are and who holds their memory.

Imitates what the NVIDIA driver knows. Facts of the card: NVIDIA's data sheet of the RTX PRO 6000 Blackwell Server
Edition (96 GB GDDR7, 600 W, PCIe 5.0 x16, compute capability 12.0). What follows the capture of two H200 (nvidia_smi):
memory that the driver reserves, about 0.6 GiB, counts as neither used nor free.

A process holds memory by /run/lab-gpus/holders/<pid>.json of its host:
{"pid": int, "starttime": int, "name": str, "gpus": {"0": MiB}}, counted while that pid has that start time (field 22 of
/proc/<pid>/stat). The hypervisor looks into its guests too, and answers them on a socket, since a container does not
see the processes of others while the driver counts their memory.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DRIVER = "580.126.09"
CUDA = "13.0"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
COMPUTE_CAP = "12.0"
MEMORY_MIB = 97887
RESERVED_MIB = 637
POWER_LIMIT_W = 600.0

ROOT = Path("/run/lab-gpus")
HOLDERS = ROOT / "holders"
STUCK = ROOT / "stuck.json"  # {"0": MiB}: memory that nobody holds any more and that only a reset gives back
SOCKET = ROOT / "driver/socket"
PROC_VERSION = Path("/proc/driver/nvidia/version")
HYPERVISOR_MARK = Path("/usr/lib/sglang-lab/hypervisor")

BUSES = (0x01, 0x21, 0x41, 0x61, 0x81, 0xA1, 0xC1, 0xE1)


class Gpu:
    """One card; its index is its minor number too. Four cards a socket."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.bus = BUSES[index]
        self.bus_id = f"00000000:{self.bus:02X}:00.0"
        self.uuid = f"GPU-5d0b9e50-12c0-4ab5-9d7e-0000000000{0xB0 + index:02x}"
        self.serial = f"179442500{index:04d}"
        self.numa = index // 4

    @property
    def node(self) -> Path:
        return Path(f"/dev/nvidia{self.index}")


GPUS = tuple(Gpu(index) for index in range(8))


def is_hypervisor() -> bool:
    """Whether this host loads the driver, so that it sees all processes."""
    return HYPERVISOR_MARK.exists()


def loaded() -> bool:
    """Whether the driver is loaded."""
    return PROC_VERSION.exists()


def visible() -> list[Gpu]:
    """Cards whose device node this host has."""
    return [gpu for gpu in GPUS if gpu.node.exists()]


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks after boot (proc(5), field 22); None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _files(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # being written, or removed between the listing and the reading


def _namespaces() -> list[dict[str, Any]]:
    """Process namespaces below this one: {"namespace": inode, "root": Path, "pids": {pid inside: pid here}}."""
    found: dict[int, dict[str, Any]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text(encoding="utf-8", errors="replace")
            inside = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
            if len(inside) < 2:
                continue
            namespace = (entry / "ns/pid").stat().st_ino
        except OSError:
            continue
        space = found.setdefault(namespace, {"namespace": namespace, "root": None, "pids": {}})
        space["pids"][int(inside[-1])] = int(entry.name)
        if inside[-1] == "1":
            space["root"] = entry / "root"
    return [space for space in found.values() if space["root"]]


def local_holders() -> list[dict[str, Any]]:
    """Living holders that this host can see, as {"pid", "inner", "name", "gpus": {index: MiB}, "namespace"}.

    `pid` is as seen here, `inner` as seen in the process's own namespace.
    """
    own = Path("/proc/self/ns/pid").stat().st_ino
    rows = []
    for holder in _files(HOLDERS):
        if start_time(int(holder["pid"])) == int(holder["starttime"]):
            rows.append(_holder(holder, int(holder["pid"]), own))
    for space in _namespaces() if is_hypervisor() else []:
        # A guest's /run is mounted inside it; its init's root leads there.
        for holder in _files(space["root"] / HOLDERS.relative_to("/")):
            pid = space["pids"].get(int(holder["pid"]))
            if pid is not None and start_time(pid) == int(holder["starttime"]):
                rows.append(_holder(holder, pid, space["namespace"]))
    return rows


def _holder(holder: dict[str, Any], pid: int, namespace: int) -> dict[str, Any]:
    gpus = {int(index): int(mib) for index, mib in holder["gpus"].items()}
    name = str(holder.get("name", "python3"))
    return {"pid": pid, "inner": int(holder["pid"]), "name": name, "gpus": gpus, "namespace": namespace}


def stuck() -> dict[int, int]:
    """Memory that no process holds, as {index: MiB}."""
    try:
        return {int(index): int(mib) for index, mib in json.loads(STUCK.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError):
        return {}


def ask_hypervisor() -> dict[str, Any] | None:
    """The hypervisor's view for a guest, or None where there is no hypervisor to ask.

    Raises:
        OSError: there is one and it does not answer. A busy machine must not look like one without stuck memory.
    """
    if not SOCKET.parent.exists():
        return None
    deadline = time.monotonic() + 30.0
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(30.0)
                connection.connect(str(SOCKET))
                with connection.makefile("rb") as stream:
                    return dict(json.load(stream))
        except (OSError, ValueError) as error:
            if time.monotonic() > deadline:
                raise OSError(f"the hypervisor does not answer on {SOCKET}: {error}") from error
            time.sleep(0.2)  # it is starting, or was cut off in the middle of an answer


def state() -> dict[str, Any]:
    """Memory and processes: {"used": {index: MiB}, "processes": [{"pid", "name", "gpus": {index: MiB}}]}.

    `used` counts every process of the machine, `processes` has those that this host sees.
    """
    view = None if is_hypervisor() else ask_hypervisor()
    if view is None:
        holders, dead = local_holders(), stuck()
        seen = holders
    else:
        holders = [dict(row, gpus={int(index): mib for index, mib in row["gpus"].items()}) for row in view["processes"]]
        dead = {int(index): mib for index, mib in view["stuck"].items()}
        own = Path("/proc/self/ns/pid").stat().st_ino
        seen = [dict(row, pid=row["inner"]) for row in holders if row["namespace"] == own]
    used = {gpu.index: dead.get(gpu.index, 0) for gpu in GPUS}
    for row in holders:
        for index, mib in row["gpus"].items():
            used[index] += mib
    return {"used": used, "processes": sorted(seen, key=lambda row: row["pid"])}


def euid_is_root() -> bool:
    """Whether the caller may change the cards."""
    return os.geteuid() == 0

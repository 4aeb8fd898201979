"""The stand-in GPUs seen from a process: what they have, what others hold, and how to hold some of it.

A process holds memory by a file in the holders directory; it counts while the process with that start time lives:
`{"pid": 12, "starttime": 345, "name": "sglang::scheduler_TP0", "gpus": {"0": 70000}}` (MiB per GPU index).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOLDERS = "/run/lab-gpus/holders"
COUNT = 8
MEMORY_MIB = 97887  # RTX PRO 6000 Blackwell Server Edition
# What the driver keeps for itself: 143,771 - 143,156 MiB in the captured query of an idle H200.
RESERVED_MIB = 615


@dataclass(frozen=True)
class Gpu:
    """One card: its index on the host, its memory and what is free of it, in MiB."""

    index: int
    total: int
    free: int

    @property
    def free_gib(self) -> float:
        """Memory that CUDA would report as free, in GiB."""
        return self.free / 1024


def start_time(pid: int) -> int | None:
    """Return field 22 of /proc/PID/stat (clock ticks since boot), or None without such a process.

    A zombie that nobody has reaped has given its memory back and counts as gone.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def held(directory: str) -> dict[int, int]:
    """Return MiB held per GPU index by living processes of this host."""
    used: dict[int, int] = {}
    try:
        paths = list(Path(directory).iterdir())
    except OSError:
        return used
    for path in paths:
        try:
            holder = json.loads(path.read_text(encoding="utf-8"))
            if start_time(int(holder["pid"])) != holder["starttime"]:
                continue
            for index, mib in holder["gpus"].items():
                used[int(index)] = used.get(int(index), 0) + int(mib)
        except (OSError, ValueError, KeyError):
            continue
    return used


def _ask_nvidia_smi() -> list[Gpu] | None:
    """Ask the host's nvidia-smi, which also counts processes that this container cannot see.

    None where there is no nvidia-smi; no cards where it fails, as without a loaded driver.
    """
    query = ["nvidia-smi", "--query-gpu=index,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        rows = [[int(float(cell)) for cell in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
        return [Gpu(index, total, free) for index, total, free in rows]
    except FileNotFoundError:
        return None
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def snapshot(settings: dict[str, Any]) -> list[Gpu]:
    """Return all cards of the host: from the settings, else from nvidia-smi, else eight idle ones and the holders."""
    wanted = settings.get("gpus")
    if not wanted:
        found = _ask_nvidia_smi()
        if found is not None:
            return found
        wanted = {}
    used = held(settings.get("holders_dir", HOLDERS))
    for index, mib in wanted.get("used_mib", {}).items():
        used[int(index)] = used.get(int(index), 0) + int(mib)
    memory = int(wanted.get("memory_mib", MEMORY_MIB))
    count = int(wanted.get("count", COUNT))
    return [Gpu(index, memory, memory - RESERVED_MIB - used.get(index, 0)) for index in range(count)]


def visible(cards: list[Gpu]) -> list[Gpu]:
    """Return the cards in the order of CUDA_VISIBLE_DEVICES; like CUDA, stop at the first one that does not exist."""
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return cards
    by_index = {str(card.index): card for card in cards}
    seen = []
    for word in words.split(","):
        if word.strip() not in by_index:
            break
        seen.append(by_index[word.strip()])
    return seen


def hold(directory: str, name: str, gpus: dict[int, int]) -> None:
    """Write this process's holder file (MiB per GPU index), atomically; no directory means nobody is counting.

    Raises OSError where the directory cannot be written, for instance in a service with ProtectSystem=strict whose
    ReadWritePaths leave it out.
    """
    if not Path(directory).is_dir():
        return
    pid = os.getpid()
    path = Path(directory, f"{pid}.json")
    part = Path(directory, f".{pid}.part")
    record = {"pid": pid, "starttime": start_time(pid), "name": name, "gpus": {str(k): v for k, v in gpus.items()}}
    part.write_text(json.dumps(record), encoding="utf-8")
    part.chmod(0o644)  # a service has a strict umask, and whoever runs nvidia-smi must be able to count
    part.replace(path)
    for index in gpus:
        _open_node(index)


# Device nodes that this process keeps open for its life, as CUDA does: holders are found by them from outside.
_nodes: dict[int, int] = {}


def _open_node(index: int) -> None:
    """Open /dev/nvidiaN by path alone: no driver answers for the lab's nodes, so a plain open ends in ENXIO."""
    if index not in _nodes:
        with contextlib.suppress(OSError):
            _nodes[index] = os.open(f"/dev/nvidia{index}", os.O_PATH)


def release(directory: str, pid: int) -> None:
    """Remove the holder file of a process that has ended; it no longer counts anyway."""
    with contextlib.suppress(OSError):
        Path(directory, f"{pid}.json").unlink()

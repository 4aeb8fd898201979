# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints, as data (private to the collection).

Every function takes text and gives plain dictionaries, so that a saved output of a customer's host can be read as well
as a live one. Formats were taken from driver 580 (``--query-gpu``, ``--query-compute-apps``, ``topo -m``, ``-q``).
"""

from __future__ import annotations

import re
import typing as t

# Asked in one call. A driver that does not know one of them refuses the whole call: then MINIMAL is asked.
QUERY_FIELDS: tuple[str, ...] = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "compute_cap",
    "memory.total",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "driver_version",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "persistence_mode",
    "compute_mode",
    "mig.mode.current",
)
MINIMAL_FIELDS: tuple[str, ...] = (
    "index",
    "name",
    "uuid",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "driver_version",
)
APP_FIELDS: tuple[str, ...] = ("gpu_uuid", "pid", "process_name", "used_memory")

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# Distance of two GPUs, nearest first; nvidia-smi's legend of `topo -m`. NV1..NV18 are NVLinks.
LINKS: tuple[str, ...] = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")

_STATES: tuple[tuple[str, str], ...] = (
    ("mismatch", r"Driver/library version mismatch"),
    ("no_driver", r"couldn't communicate with the NVIDIA driver|Driver Not Loaded|NVML: Driver Not Loaded"),
    ("lost", r"GPU is lost|Unable to determine the device handle|has fallen off the bus"),
    ("no_devices", r"No devices were found"),
    ("no_library", r"couldn't find libnvidia-ml|NVML Shared Library Not Found"),
    ("no_permission", r"Insufficient Permissions"),
)


def state(rc: int | None, text: str) -> str:
    """One word for how nvidia-smi ended.

    Args:
        rc: exit status; None when the program is not there; 124 when it ran past its time.
        text: stdout and stderr together.

    Returns:
        ``ok``, ``absent``, ``timeout``, ``mismatch``, ``no_driver``, ``lost``, ``no_devices``, ``no_library``,
        ``no_permission`` or ``error``.
    """
    if rc is None:
        return "absent"
    if rc == 124:
        return "timeout"
    for word, pattern in _STATES:
        # One lost card must not hide behind an exit status of 0 that the others earned.
        if (rc != 0 or word == "lost") and re.search(pattern, text):
            return word
    return "ok" if rc == 0 else "error"


def number(text: str | None) -> float | None:
    """The first number of a cell such as ``97887 MiB``; None for ``[N/A]``, ``[Not Supported]`` and the like."""
    if text is None:
        return None
    found = _NUMBER.match(text.strip())
    return float(found.group()) if found else None


def integer(text: str | None) -> int | None:
    """Like :func:`number`, as a whole number."""
    value = number(text)
    return None if value is None else int(value)


def table(text: str) -> list[dict[str, str]]:
    """Rows of ``--format=csv`` output by column name, units removed from the names.

    A process name may hold commas: surplus cells are joined into the next to last column, which is where nvidia-smi
    puts it in :data:`APP_FIELDS`' order. Lines before the header (warnings) are skipped.
    """
    rows: list[dict[str, str]] = []
    names: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if not names:
            bare = [_UNIT.sub("", cell) for cell in cells]
            if len(bare) > 1 and all(re.fullmatch(r"[a-z][a-z0-9_.]*", cell) for cell in bare):
                names = bare
            continue
        if len(cells) < len(names):
            continue
        if len(cells) > len(names):
            spare = len(cells) - len(names)
            place = len(names) - 2
            cells = [*cells[:place], ", ".join(cells[place : place + spare + 1]), *cells[place + spare + 1 :]]
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


def gpus(text: str) -> list[dict[str, t.Any]]:
    """GPUs of ``nvidia-smi --query-gpu=... --format=csv``; memory in MiB, in the order printed.

    ``compute_capability`` is a string such as ``12.0``; everything that the driver does not tell is None.
    """
    found = []
    for row in table(text):
        if integer(row.get("index")) is None:
            continue
        capability = row.get("compute_cap", "")
        found.append(
            {
                "index": integer(row.get("index")),
                "name": row.get("name", ""),
                "uuid": row.get("uuid", ""),
                "bus_id": bus_id(row.get("pci.bus_id", "")),
                "compute_capability": capability if number(capability) is not None else None,
                "memory_mib": integer(row.get("memory.total")),
                "used_mib": integer(row.get("memory.used")),
                "free_mib": integer(row.get("memory.free")),
                "utilization_percent": integer(row.get("utilization.gpu")),
                "bar1_mib": None,
                "pcie": {
                    "generation": integer(row.get("pcie.link.gen.current")),
                    "generation_max": integer(row.get("pcie.link.gen.max")),
                    "width": integer(row.get("pcie.link.width.current")),
                    "width_max": integer(row.get("pcie.link.width.max")),
                },
                "driver_version": row.get("driver_version", ""),
                "persistence": _switch(row.get("persistence_mode")),
                "compute_mode": row.get("compute_mode"),
                "mig": _switch(row.get("mig.mode.current")),
            }
        )
    return found


def processes(text: str, cards: t.Sequence[t.Mapping[str, t.Any]] = ()) -> list[dict[str, t.Any]]:
    """Holders of GPU memory of ``--query-compute-apps=... --format=csv``; ``gpu`` is the index among ``cards``."""
    index = {card["uuid"]: card["index"] for card in cards}
    found = []
    for row in table(text):
        pid = integer(row.get("pid"))
        if pid is None:
            continue
        found.append(
            {
                "gpu": index.get(row.get("gpu_uuid", "")),
                "gpu_uuid": row.get("gpu_uuid", ""),
                "pid": pid,
                "name": row.get("process_name", ""),
                "used_mib": integer(row.get("used_gpu_memory", row.get("used_memory"))),
            }
        )
    return found


def bar1(text: str) -> dict[str, int]:
    """BAR1 size in MiB by bus id, from ``nvidia-smi -q`` (or ``-q -d MEMORY``)."""
    sizes: dict[str, int] = {}
    card = ""
    inside = False
    for line in text.splitlines():
        head = re.match(r"GPU\s+([0-9A-Fa-f:.]+)\s*$", line)
        if head:
            card, inside = bus_id(head.group(1)), False
        elif line.strip() == "BAR1 Memory Usage":
            inside = True
        elif inside and ":" in line:
            key, _colon, value = line.partition(":")
            size = integer(value)
            if key.strip() == "Total" and card and size is not None:
                sizes[card] = size
            inside = False
    return sizes


def topology(text: str) -> dict[str, t.Any]:
    """``nvidia-smi topo -m`` as data.

    Returns:
        ``gpus`` names in order, ``links`` a square list of lists (``X`` on the diagonal), ``numa`` the NUMA node of
        each GPU (None when not told), ``worst`` the farthest link between two GPUs (None for fewer than two),
        ``sockets`` the number of different NUMA nodes that hold GPUs.
    """
    header: list[str] = []
    rows: dict[str, list[str]] = {}
    for raw in _ANSI.sub("", text).splitlines():
        cells = [cell.strip() for cell in raw.split("\t")]
        if not header and any(cell == "GPU0" for cell in cells):
            header = [cell for cell in cells if cell]
        elif header and re.fullmatch(r"GPU\d+", cells[0]):
            rows[cells[0]] = cells[1:]
    names = [name for name in header if re.fullmatch(r"GPU\d+", name) and name in rows]
    links = [[_cell(rows[name], header.index(other)) for other in names] for name in names]
    place = header.index("NUMA Affinity") if "NUMA Affinity" in header else None
    numa = [None if place is None else integer(_cell(rows[name], place)) for name in names]
    pairs = [links[i][j] for i in range(len(names)) for j in range(len(names)) if i != j]
    known = [link for link in pairs if distance(link) is not None]
    return {
        "gpus": names,
        "links": links,
        "numa": numa,
        "worst": max(known, key=lambda link: distance(link) or 0) if known else None,
        "sockets": len({node for node in numa if node is not None}),
    }


def distance(link: str) -> int | None:
    """Rank of a link name, 0 nearest; None for a word that is none."""
    word = "NV" if re.fullmatch(r"NV\d+", link) else link
    return LINKS.index(word) if word in LINKS else None


def bus_id(text: str) -> str:
    """One spelling for PCI addresses: ``00000000:C1:00.0`` and ``c1:00.0`` become ``0000:c1:00.0``."""
    parts = text.strip().lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    if len(parts) != 3 or not parts[0]:
        return text.strip().lower()
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]])


def _cell(cells: t.Sequence[str], place: int) -> str:
    return cells[place] if place < len(cells) else ""


def _switch(text: str | None) -> bool | None:
    if text is None:
        return None
    return {"enabled": True, "disabled": False}.get(text.strip().lower())

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPU memory and who holds it, judged for one instance (private to the collection).

Memory decides, not the list of processes: inside a container nvidia-smi shows the memory that others hold but not their
processes (facts: NVML translates process ids of the own namespace only).
"""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _procs

Run = t.Callable[[list[str]], tuple[int, str, str]]

# MiB that an unused GPU may show: the driver's own share is 0 to some 30 MiB on a headless card, while the smallest
# trace of a wedged server that was reported is 624 MiB (field report: NCCL hang, memory stays without a process).
IDLE_MIB = 512


def read(run: Run) -> dict[str, t.Any]:
    """Read all GPUs and the holders of their memory.

    Returns ``{"error", "gpus": [{index, uuid, used_mib, total_mib}], "holders": [{index, mib, pid, name, ...}]}``;
    memory in MiB. ``error`` says why nothing could be read, and is empty otherwise.
    """
    status, out, err = run(
        ["nvidia-smi", "--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits"]
    )
    if status != 0:
        return {"error": (err or out).strip()[:300] or f"nvidia-smi ended with {status}", "gpus": [], "holders": []}
    gpus = []
    for row in _rows(out, 4):
        gpus.append({"index": int(row[0]), "uuid": row[1], "used_mib": _mib(row[2]), "total_mib": _mib(row[3])})
    by_uuid = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    status, out, _err = run(
        ["nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"]
    )
    holders = []
    for row in _rows(out, 3) if status == 0 else []:
        if row[0].isdigit() and row[1] in by_uuid:
            holders.append({"index": by_uuid[row[1]], "mib": _mib(row[2]), **_procs.describe(int(row[0]))})
    known = {(holder["index"], holder["pid"]) for holder in holders}
    for minor, pids in _procs.gpu_users().items():
        for pid in pids:
            # Opening the node is no proof of memory held, so the amount is unknown (None) here.
            if (minor, pid) not in known and minor in by_uuid.values():
                holders.append({"index": minor, "mib": None, **_procs.describe(pid)})
    return {"error": "", "gpus": gpus, "holders": sorted(holders, key=lambda each: (each["index"], each["pid"]))}


def taken(
    state: dict[str, t.Any], gpus: str | list[int], leaving: t.Collection[str], idle_mib: int = IDLE_MIB
) -> list[dict[str, t.Any]]:
    """GPUs of an instance whose memory somebody else holds, beyond the units that are about to be stopped.

    Args:
        state: what :func:`read` gave.
        gpus: ``all`` or indices.
        leaving: units whose share does not count, since they stop before the instance starts.
        idle_mib: what an unused GPU may show.

    Returns one entry a GPU: ``{index, used_mib, others_mib, holders}``; ``holders`` are the visible ones that stay,
    empty when nobody can be seen from here (then the holder lives outside of this guest).
    """
    found = []
    for gpu in state["gpus"]:
        if gpus != "all" and gpu["index"] not in gpus:
            continue
        here = [holder for holder in state["holders"] if holder["index"] == gpu["index"]]
        going = [holder for holder in here if holder["unit"] in leaving]
        if going and all(holder["mib"] is None for holder in going):
            continue  # how much of it is ours cannot be seen before it stopped; the stop checks that all became free
        others = gpu["used_mib"] - sum(holder["mib"] or 0 for holder in going)
        staying = [holder for holder in here if holder["unit"] not in leaving and holder["mib"]]
        if others > idle_mib:
            found.append({"index": gpu["index"], "used_mib": gpu["used_mib"], "others_mib": others, "holders": staying})
    return found


def sentence(entries: list[dict[str, t.Any]]) -> str:
    """Name the GPUs and their holders in one line."""
    parts = []
    for entry in entries:
        who = ", ".join(
            f"{holder['name']} (pid {holder['pid']}, user {holder['user']}"
            + (f", {holder['unit']}" if holder["unit"] else "")
            + f", {holder['mib']} MiB)"
            for holder in entry["holders"]
        )
        parts.append(
            f"GPU {entry['index']}: {entry['others_mib']} MiB held by "
            + (who or "a process that cannot be seen from here (another guest or the hypervisor)")
        )
    return "; ".join(parts)


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def _mib(text: str) -> int:
    """MiB of a field; 0 where the driver says [N/A]."""
    number = text.split(maxsplit=1)[0] if text else ""
    return int(float(number)) if number.replace(".", "", 1).isdigit() else 0

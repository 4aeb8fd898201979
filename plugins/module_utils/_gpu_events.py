# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel log of this boot says about GPUs: Xid, AER, NVRM, OOM (private to the collection)."""

from __future__ import annotations

import dataclasses
import re
import typing as t

# What to do: "power" = the card is gone until power is cut, "reset" = the card must be reset or the host rebooted,
# "application" = a program's own fault, "watch" = recovered by itself, worth counting.
ACTIONS: tuple[str, ...] = ("power", "reset", "application", "watch")

_XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)(?:,\s*(?P<rest>.*))?")
_CATALOGUE = "NVIDIA Xid error catalogue, https://docs.nvidia.com/deploy/xid-errors/"
_OPEN = "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/"


@dataclasses.dataclass(frozen=True)
class Xid:
    """One row of the table: number, meaning, what it asks for, where that is from."""

    number: int
    meaning: str
    action: str
    source: str = _CATALOGUE


XIDS: dict[int, Xid] = {
    row.number: row
    for row in (
        Xid(8, "GPU stopped processing; the driver's watchdog found it locked", "reset", _OPEN + "1159"),
        Xid(13, "graphics engine exception", "application"),
        Xid(31, "GPU memory page fault (illegal address of a program)", "application"),
        Xid(32, "invalid or corrupted push buffer", "application"),
        Xid(43, "a program's channel was stopped", "application"),
        Xid(45, "preemptive cleanup, usually after a killed program", "application"),
        Xid(48, "double-bit ECC error", "reset"),
        Xid(62, "internal micro-controller halt", "reset", _OPEN + "1159"),
        Xid(63, "row remapping or page retirement recorded", "watch"),
        Xid(64, "row remapping or page retirement failed", "reset"),
        Xid(74, "NVLink error", "reset"),
        Xid(79, "GPU has fallen off the bus", "power", _OPEN + "1151"),
        Xid(92, "high rate of single-bit ECC errors", "watch"),
        Xid(94, "contained ECC error", "application"),
        Xid(95, "uncontained ECC error", "reset"),
        Xid(109, "context switch timed out", "reset", _OPEN + "1159"),
        Xid(119, "GSP firmware did not answer a call", "reset", _OPEN + "1111"),
        Xid(120, "GSP firmware error", "reset", _OPEN + "1111"),
        Xid(140, "unrecovered ECC error", "reset"),
        Xid(154, "the driver asks for a recovery action", "reset", _OPEN + "1353"),
    )
}


@dataclasses.dataclass(frozen=True)
class Sign:
    """A line of the kernel log that is worth a finding of its own; ``id`` is the finding's."""

    id: str
    pattern: str


SIGNS: tuple[Sign, ...] = (
    Sign("event_api_mismatch", r"NVRM: API mismatch: the client has the version (?P<client>[\d.]+)"),
    Sign("event_rc_watchdog", r"krcWatchdog\w*: RC watchdog: GPU is probably locked"),
    Sign("event_bar_invalid", r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid"),
    Sign("event_flr_timeout", r"not ready \d+ms after (?:FLR|bus reset)"),
    Sign("event_wpr2", r"(?:unexpected WPR2 already up|WPR2 (?:is )?already)"),
    Sign("event_surprise_down", r"aer_uncor_status:\s*0x0*20\b|Surprise(?:Link)? ?Down"),
    Sign("event_aer_fatal", r"(?:AER|PCIe Bus Error).*severity=Uncorrect\w*.*\(?Fatal|AER: Uncorrect\w* \(Fatal\)"),
    Sign("event_unknown_pci_option", r"PCI: Unknown option [`'\"]?(?P<option>[\w=]+)"),
    Sign("event_vfio_bind", r"can't (?:un)?bind (?:PCI group|.*) (?:to|from) VFIO|vfio-pci .*: (?:not ready|failed)"),
    Sign("event_no_iommu_passthrough", r"cannot prepare PCI pass-through, IOMMU not present"),
    Sign(
        "event_oom_kill",
        r"(?:Out of memory: Killed process|Memory cgroup out of memory: Killed process) \d+ \((?P<name>[^)]*)\)",
    ),
    Sign("event_nvrm_init_failed", r"NVRM: (?:GPU \S+: )?RmInitAdapter failed"),
    Sign(
        "event_module_refused",
        r"(?:nvidia: )?(?:module verification failed|Loading of (?:unsigned )?module .*rejected|Key was rejected)",
    ),
)


def read(text: str) -> dict[str, t.Any]:
    """The GPU-related events of a kernel log.

    Args:
        text: output of ``journalctl -k -b -o cat`` or ``dmesg``, of one boot.

    Returns:
        ``xid``: per number and card ``{number, bus_id, count, meaning, action, source, last}``, known or not;
        ``signs``: per id ``{id, count, last}`` with the named groups of the line that came last.
    """
    xids: dict[tuple[int, str], dict[str, t.Any]] = {}
    signs: dict[str, dict[str, t.Any]] = {}
    patterns = [(sign.id, re.compile(sign.pattern)) for sign in SIGNS]
    for line in text.splitlines():
        hit = _XID.search(line)
        if hit:
            number, bus = int(hit["number"]), hit["bus"].lower()
            row = XIDS.get(number)
            entry = xids.setdefault(
                (number, bus),
                {
                    "number": number,
                    "bus_id": bus,
                    "count": 0,
                    "meaning": row.meaning if row else "not in the table",
                    "action": row.action if row else "watch",
                    "source": row.source if row else _CATALOGUE,
                    "last": "",
                },
            )
            entry["count"] += 1
            entry["last"] = line.strip()[:300]
            continue
        for name, pattern in patterns:
            found = pattern.search(line)
            if found:
                entry = signs.setdefault(name, {"id": name, "count": 0, "last": ""})
                entry["count"] += 1
                entry["last"] = line.strip()[:300]
                entry.update({key: value for key, value in found.groupdict().items() if value})
                break
    return {"xid": sorted(xids.values(), key=lambda x: (x["number"], x["bus_id"])), "signs": list(signs.values())}

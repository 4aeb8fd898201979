# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drop-ins of an instance's unit: whose they are, and which of them start something else (private to the collection).

A unit file that is exactly as written says nothing while a drop-in replaces its ExecStart. A trial of backend_matrix
does that on purpose and must not outlive it; an operator's does it in the inventory's stead, and nobody would notice.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places

TRIAL = "90-backend-matrix.conf"
EXCLUSIVE = "20-conflicts.conf"
_BY_ROLE = "# Written by the role blackwell.sglang."


def find(places: Places, loaded: t.Sequence[str] = ()) -> list[dict[str, t.Any]]:
    """Every drop-in of the unit: ``{path, kind, sets}``, in order of path.

    Args:
        places: the instance.
        loaded: paths that systemd named (DropInPaths); files that it has not read yet are found as well.

    ``kind`` is ``trial`` (backend_matrix), ``role`` (written by a role of the collection) or ``other``; ``sets`` are
    the options of [Service] that it sets, without those that it only empties.
    """
    paths = {pathlib.Path(path) for path in loaded}
    for root in (places.unit_root, places.runtime_root):
        for folder in (f"{places.unit}.d", "sglang-.service.d"):
            paths.update(pathlib.Path(root, folder).glob("*.conf"))
    found = []
    for path in sorted(paths):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # gone since systemd read it, which it then says by NeedDaemonReload
        kind = "trial" if path.name == TRIAL else "role" if text.startswith(_BY_ROLE) else "other"
        found.append({"path": str(path), "kind": kind, "sets": options(text)})
    return found


def options(text: str) -> list[str]:
    """Names of the options that the [Service] part of a unit file gives a value."""
    names: list[str] = []
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        head = re.match(r"\s*\[(\w+)\]\s*$", line)
        section = head.group(1) if head else section
        hit = re.match(r"\s*([A-Za-z]\w*)\s*=\s*\S", line)
        if hit and section == "Service" and hit.group(1) not in names:
            names.append(hit.group(1))
    return names


def reasons(drop_ins: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Why an instance is not as wanted, from its drop-ins."""
    found = [
        f"{each['path']} of an interrupted backend_matrix is there" for each in drop_ins if each["kind"] == "trial"
    ]
    return found + [f"{each['path']} replaces ExecStart" for each in overriding(drop_ins)]


def overriding(drop_ins: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Drop-ins of others that decide what is started."""
    return [each for each in drop_ins if each["kind"] == "other" and "ExecStart" in each["sets"]]


def obstacles(places: Places, drop_ins: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, str]]:
    """What an operator must take away before a start means what the inventory says: ``{id, what, fix}`` each."""
    return [
        {
            "id": "exec_start_replaced",
            "what": f"{each['path']} replaces ExecStart of {places.unit}, so another command line than the inventory's"
            " would be started",
            "fix": "write its arguments into args or extra_args of the instance and other options into"
            f" sglang_service_unit_options, remove the file and run systemctl daemon-reload"
            f" (systemctl cat {places.unit} shows what is in force)",
        }
        for each in overriding(drop_ins)
    ]


def exclusive(places: Places, conflicts: t.Sequence[str]) -> dict[str, t.Any]:
    """The drop-in by which systemd ends an instance that another one cannot run beside: ``{path, text, current}``.

    Instances are stopped and started one after the other by the role; this counts for whoever starts a unit by hand. It
    is no part of the unit file, so that an entry which comes or goes in the inventory restarts no other instance.

    Args:
        places: the instance.
        conflicts: names of instances with its port or with GPUs of its own; without any the file must not exist.
    """
    path = pathlib.Path(places.unit_root, f"{places.unit}.d", EXCLUSIVE)
    units = " ".join(f"sglang-{name}.service" for name in conflicts)
    # After: the one that stops has freed its memory before the other starts.
    text = f"{_BY_ROLE}sglang_service.\n[Unit]\nConflicts={units}\nAfter={units}\n" if units else ""
    try:
        there = path.read_text(encoding="utf-8")
    except OSError:
        there = ""
    return {"path": str(path), "text": text, "current": there == text}


def trial_files(places: Places) -> list[pathlib.Path]:
    """Where a trial of backend_matrix lies: its ExecStart, and what keeps the verifier quiet."""
    units = (places.unit, f"sglang-verify@{places.name}.service")
    return [pathlib.Path(places.runtime_root, f"{unit}.d", TRIAL) for unit in units]


def clear_trial(places: Places) -> list[str]:
    """Take a trial's files away, and their folders where nothing else is in them; paths. systemd must read anew."""
    gone = []
    for path in trial_files(places):
        if path.exists():
            path.unlink()
            gone.append(str(path))
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    return gone

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that need more than one host of the inventory, or a file on the controller."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings, did_you_mean, nearest

_LIMIT = 64 * 2**20  # no config.json is near this; a wrong path may name anything


def check_groups(groups: t.Mapping[str, t.Any], findings: Findings) -> None:
    """The inventory has hosts to serve on, under the group name that the playbooks use."""
    if groups.get("sglang_hosts"):
        return
    others = [name for name in groups if name not in ("all", "ungrouped", "proxmox_hosts")]
    close = nearest("sglang_hosts", others)
    said = "has no host" if "sglang_hosts" in groups else "does not exist in this inventory"
    findings.problem(
        "group sglang_hosts",
        said,
        "the guests or machines that serve",
        f"rename the group {close[0]}" if close else "name an inventory with -i, such as -i inventories/proxmox",
        "no_hosts",
    )


def check_references(resolved: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Any], findings: Findings) -> None:
    """The hypervisor that a guest names is a host of the group proxmox_hosts."""
    hypervisor = resolved["host"]["hypervisor"]
    known = list(groups.get("proxmox_hosts") or [])
    if hypervisor is None or hypervisor in known:
        return
    findings.problem(
        "sglang_hypervisor",
        f"is {hypervisor!r}, which is no host of the group proxmox_hosts",
        "one of " + (", ".join(known) or "the hosts of proxmox_hosts"),
        did_you_mean(hypervisor, known, f"add {hypervisor} to proxmox_hosts"),
        "unknown_hypervisor",
    )


def check_guests(resolved: t.Mapping[str, t.Mapping[str, t.Any]], findings_of: t.Callable[[str], Findings]) -> None:
    """No two hosts are the same guest of the same hypervisor."""
    seen: dict[tuple[str, int], str] = {}
    for host, result in resolved.items():
        place = result["host"]
        if place["hypervisor"] is None or place["vmid"] is None:
            continue
        guest = (place["hypervisor"], place["vmid"])
        if guest in seen:
            findings_of(host).problem(
                "sglang_vmid",
                f"is {guest[1]} on {guest[0]}, like that of {seen[guest]}",
                "a guest of its own",
                "write the guest's own number (pct list, qm list)",
                "vmid_twice",
            )
        seen.setdefault(guest, host)


def check_local_files(resolved: t.Mapping[str, t.Any], findings: Findings) -> None:
    """For a host that is the controller itself: the checkpoint's folder and its JSON files can be read now."""
    for index, instance in enumerate(resolved["instances"]):
        where = f"sglang_instances[{index}].model_path"
        folder = pathlib.Path(instance["model_path"] or "/nonexistent")
        if instance["state"] != "started" or not instance["model_path"].startswith("/"):
            continue
        if not folder.is_dir():
            findings.problem(
                where,
                f"{folder} is no folder on this host",
                "the folder of the checkpoint",
                "write the folder that holds config.json",
                "no_checkpoint",
            )
            continue
        for name, required in (("config.json", True), ("hf_quant_config.json", False)):
            problem = _json_problem(folder / name, required)
            if problem:
                findings.problem(
                    where,
                    f"{folder / name} {problem}",
                    "a JSON object, as the checkpoint was published",
                    "fetch the checkpoint again, or name another folder",
                    "broken_checkpoint",
                )


def _json_problem(path: pathlib.Path, required: bool) -> str:
    if not path.is_file():
        return "is missing" if required else ""
    try:
        if path.stat().st_size > _LIMIT:
            return "is far too large for what it should be"
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError as error:
        return f"is no JSON: {str(error)[:120]}"
    return "" if isinstance(content, dict) else "holds no JSON object"

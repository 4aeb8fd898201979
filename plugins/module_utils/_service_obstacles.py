# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be out of the way before a running server is stopped for an instance (private to the collection)."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _service_adopt,
    _service_gpus,
    _service_handmade,
    _service_stop,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Run


def find(
    run: Run,
    each: dict[str, t.Any],
    listeners: list[dict[str, t.Any]],
    gpus: dict[str, t.Any],
    leaving: set[str],
    *,
    hand_made: t.Sequence[dict[str, t.Any]] = (),
) -> list[dict[str, str]]:
    """Everything in the way of one instance: ``{id, what, fix}`` each.

    Args:
        run: command runner.
        each: the instance as ``sglang_service_info`` takes it, with ``user`` and ``groups`` of the service.
        listeners: who listens on its port, from :func:`_procs.listeners`.
        gpus: what :func:`_service_gpus.read` gave.
        leaving: units that stop before it starts.
        hand_made: what :func:`_service_handmade.shown` gave.
    """
    own = f"sglang-{each['name']}.service"
    going = {own, *leaving}
    found = []
    others = [item for item in listeners if item["unit"] not in going]
    if others:
        found.append(
            {
                "id": "port_taken",
                "what": f"port {each['port']} is answered by {_people(others)}",
                "fix": "stop that server, or give the instance another args.port" + _service_adopt.advice(others),
            }
        )
    user = each.get("user") or "sglang"
    idle = each.get("idle_mib") or _service_gpus.IDLE_MIB
    taken = _service_gpus.taken(_without_orphans(gpus, own, user), each["gpus"], going, idle)
    holders = [holder for entry in taken for holder in entry["holders"]]
    if taken:
        found.append(
            {
                "id": "gpu_taken",
                "what": _service_gpus.sentence(taken),
                "fix": "stop that process or give the instance other gpus; the engine would start beside it without a"
                " word and serve with what is left of the memory" + _service_adopt.advice(holders),
            }
        )
    named = {holder["unit"] for holder in (*others, *holders)}
    found += _service_handmade.obstacles(each, [unit for unit in hand_made if unit["unit"] not in named])
    unreadable = first_unreadable(run, each.get("model_path") or "", user, each.get("groups") or [])
    if unreadable:
        found.append(
            {
                "id": "checkpoint_unreadable",
                "what": f"the service user {user} cannot read {unreadable}",
                "fix": f"give it read access (chmod o+rX along the path, or setfacl -R -m u:{user}:rX), or add the"
                " group that owns it to sglang_service_extra_groups",
            }
        )
    return found


def first_unreadable(run: Run, model_path: str, user: str, groups: t.Sequence[str] = ()) -> str:
    """The first file of a checkpoint that a user cannot read, or an empty text.

    The kernel is asked as that user, so that access lists count too. Before the first deployment there is no such user;
    then nobody is asked, who may read what everybody may. A folder that does not exist is left to the check of the
    checkpoint.
    """
    if not model_path or not pathlib.Path(model_path).is_dir():
        return ""
    if run(["id", "-u", user])[0] != 0:
        user = "nobody"
    extra = [word for group in groups for word in ("-G", group)]
    words = ["find", "-L", model_path, "-maxdepth", "1", "!", "-readable", "-print", "-quit"]
    # From the root folder, since find wants to come back to where it began, which may be root's home.
    status, out, err = run(["env", "-C", "/", "runuser", "-u", user, *extra, "--", *words])
    if out.strip():
        return out.strip().splitlines()[0]
    # A folder on the way that may not be entered ends find with an error; without runuser nothing can be said.
    return model_path if status != 0 and "Permission denied" in err else ""


def _without_orphans(gpus: dict[str, t.Any], own: str, user: str) -> dict[str, t.Any]:
    """The same state with processes that the stop will end counted as the instance's own."""
    holders = [
        {**holder, "unit": own} if holder["mib"] and _service_stop.is_orphan(holder, own, user) else holder
        for holder in gpus["holders"]
    ]
    return {**gpus, "holders": holders}


def _people(holders: list[dict[str, t.Any]]) -> str:
    return ", ".join(
        f"{item['name']} (pid {item['pid']}, user {item['user']}{', ' + item['unit'] if item['unit'] else ''})"
        for item in holders
    )

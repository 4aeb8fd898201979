# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done to an instance, from what is there and what is wanted (private to the collection).

The plan is made before anything is touched, so check mode, the report and the run itself speak of the same thing.
"""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _procs,
    _service,
    _service_dropins,
    _service_gpus,
    _service_handmade,
    _service_obstacles,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

_FILE = {
    "path": {"type": "path", "required": True},
    "sha256": {"type": "str", "no_log": True},
    "mode": {"type": "str", "default": "0644"},
    "absent": {"type": "bool", "default": False},
}
# Options of the modules that read the state of a host; documented in the fragment service_state.
ARGUMENTS: dict[str, t.Any] = {
    "instances": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
            "port": {"type": "int"},
            "gpus": {"type": "raw", "default": "all"},
            "conflicts": {"type": "list", "elements": "str", "default": []},
            "model_path": {"type": "path"},
            "stack_digest": {"type": "str"},
            "release": {"type": "str"},
            "restart": {"type": "bool", "default": False},
            "idle_mib": {"type": "int", "default": 512},
            "files": {"type": "list", "elements": "dict", "default": [], "options": _FILE},
        },
    },
    "files": {"type": "list", "elements": "dict", "default": [], "options": _FILE},
    "user": {"type": "str", "default": "sglang"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "root": {"type": "path", "default": "/opt/sglang"},
}


def from_params(run: Run, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """:func:`probe` with the parameters of a module that takes ``ARGUMENTS``; digests of files are left out."""
    instances = [{**each, "user": params["user"], "groups": params["groups"]} for each in params["instances"]]
    state = probe(run, instances, params["root"], params["files"], {})
    state["files"] = [{key: item[key] for key in ("path", "mode", "current")} for item in state["files"]]
    return state


def probe(
    run: Run, instances: list[dict[str, t.Any]], root: str, extra_files: list[dict[str, t.Any]], roots: dict[str, str]
) -> dict[str, t.Any]:
    """Read all that a decision needs, once for a host.

    Args:
        run: command runner.
        instances: as the module ``sglang_service_info`` takes them.
        root: root of releases and instances.
        extra_files: files of the host that no restart depends on, ``{path, sha256, mode}``.
        roots: other roots for tests (``state_root``, ``config_root``, ``unit_root``).

    Returns ``{gpus, instances: {name: {...}}, releases, files, strangers, hand_made}``, documented in the module.
    """
    places = {each["name"]: Places(each["name"], root=root, **roots) for each in instances}
    unit_root = pathlib.Path(roots.get("unit_root", _service.UNIT_ROOT))
    installed = sorted(path.name for path in unit_root.glob("sglang-*.service"))
    wanted_units = [each.unit for each in places.values()]
    # A template (sglang-verify@.service) has no state, and one such name makes systemctl show fail for all.
    own = [unit for unit in installed if "@" not in unit and unit != "sglang-recover.service"]
    others = _service_handmade.find(wanted_units, [unit_root] if "unit_root" in roots else _service_handmade.UNIT_ROOTS)
    units = _service.unit_states(run, sorted({*wanted_units, *own, *(each.unit for each in others)}))
    gpus = _service_gpus.read(run)
    known = _service.releases(root)
    result: dict[str, t.Any] = {"gpus": gpus, "releases": known, "instances": {}}
    result["hand_made"] = _service_handmade.shown(others, units, gpus["gpus"])
    for each in instances:
        result["instances"][each["name"]] = _instance(each, places[each["name"]], units, known)
    leaving = {
        places[each["name"]].unit
        for each in instances
        if result["instances"][each["name"]]["action"] in ("stop", "deploy")
    }
    for each in instances:
        state = result["instances"][each["name"]]
        deployed = state["action"] == "deploy"
        state["obstacles"] = []
        if deployed:
            state["obstacles"] += _service_dropins.obstacles(places[each["name"]], state["drop_ins"])
            state["obstacles"] += _service_obstacles.find(
                run, each, state["listeners"], gpus, leaving, hand_made=result["hand_made"]
            )
    result["files"] = [{**each, "current": _file_current(each)} for each in extra_files]
    result["strangers"] = [
        {"unit": unit, **units[unit]}
        for unit in own
        if unit not in wanted_units and units[unit]["active"] in _service.RUNNING
    ]
    return result


def _instance(
    each: dict[str, t.Any], places: Places, units: dict[str, dict[str, t.Any]], known: list[dict[str, t.Any]]
) -> dict[str, t.Any]:
    unit = units[places.unit]
    linked = _service.linked_release(places)
    wanted = each.get("release") or choose_release(each, linked, known)
    proof = _service.read_json(places.proof)
    state: dict[str, t.Any] = {
        "unit": unit,
        "link": linked,
        "release": wanted,
        "release_state": next((item["state"] for item in known if item["id"] == wanted), "missing"),
        "files": [{"path": item["path"], "current": _file_current(item)} for item in each["files"]],
        "drop_ins": _service_dropins.find(places, unit["drop_ins"]),
        "exclusive": _service_dropins.exclusive(places, each.get("conflicts") or []),
        "pending": _service.read_json(places.pending),
        "proof": _summary(proof),
        "good": [{"release": entry["release"], "at": entry.get("at")} for entry in _service.good_entries(places)],
        "is_good": _service.is_good(places),
        "listeners": _procs.listeners(each["port"]) if each.get("port") else [],
    }
    state["action"], state["reasons"] = decide(each["state"], state, each.get("restart", False))
    return state


def decide(wanted_state: str, state: dict[str, t.Any], restart: bool = False) -> tuple[str, list[str]]:
    """The action for an instance and why.

    ``deploy`` stops what runs, writes, switches, starts and gates; ``gate`` only gates what runs; ``stop`` stops and
    disables; ``none`` leaves it (the gate's cheap part still looks at it).
    """
    unit = state["unit"]
    if wanted_state == "stopped":
        reasons = []
        if unit["active"] != "inactive" and unit["load"] != "not-found":
            reasons.append(f"the unit is {unit['active']}")
        if unit["enabled"]:
            reasons.append("the unit starts at boot")
        reasons += _service_dropins.reasons([each for each in state["drop_ins"] if each["kind"] == "trial"])
        return ("stop", reasons) if reasons else ("none", [])
    reasons = [f"{item['path']} differs" for item in state["files"] if not item["current"]]
    reasons += _service_dropins.reasons(state["drop_ins"])
    if not state["release"]:
        reasons.append("there is no verified release of the stack yet")
    elif state["link"] != state["release"]:
        reasons.append(f"release {state['link'] or 'none'} is to become {state['release']}")
    if state["pending"]:
        reasons.append("an earlier run was interrupted between its first change and its gate")
    if unit["active"] not in ("active", "activating") or unit["sub"] == "auto-restart":
        reasons.append(f"the unit is {unit['active']} ({unit['sub']})")
    if unit["needs_reload"]:
        reasons.append("systemd has not read the unit file as it is now")
    if restart:
        reasons.append("a restart was asked for")
    if reasons:
        return "deploy", reasons
    if not unit["enabled"]:
        reasons.append("the unit does not start at boot")
    proof = state["proof"]
    if not proof:
        reasons.append("this start was never proved")
    elif proof["invocation_id"] != unit["invocation_id"]:
        reasons.append("the last proof is of another start")
    elif not proof["passed"]:
        reasons.append("the last gate of this start failed")
    if not state["is_good"]:
        reasons.append("what runs is not recorded as good")
    return ("gate", reasons) if reasons else ("none", [])


def choose_release(each: dict[str, t.Any], linked: str, known: list[dict[str, t.Any]]) -> str:
    """The release where the caller names none: the linked one if it is of the wanted stack, else the newest such."""
    fitting = [
        item["id"]
        for item in known
        if item["state"] == "verified" and each.get("stack_digest") in (None, item["stack_digest"])
    ]
    return linked if linked in fitting else (fitting[0] if fitting else "")


def _file_current(item: dict[str, t.Any]) -> bool:
    path = pathlib.Path(item["path"])
    if item.get("absent"):
        return not path.exists()
    try:
        mode = path.stat().st_mode & 0o7777
    except OSError:
        return False
    return _service.sha256(path) == item["sha256"] and mode == int(item.get("mode") or "0644", 8)


def _summary(proof: t.Any) -> dict[str, t.Any] | None:
    if not isinstance(proof, dict) or "invocation_id" not in proof:
        return None
    wanted = ("invocation_id", "passed", "at", "release", "kv", "capacity", "by")
    return {key: proof.get(key) for key in wanted}

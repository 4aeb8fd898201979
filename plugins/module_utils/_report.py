# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the report of a host from what the roles left behind (private to the collection).

Every part may be missing: a run that failed early still gets a report of what is known. The shape is
docs/contracts/report.schema.json.
"""

from __future__ import annotations

import typing as t

SCHEMA = 1
Tree = dict[str, t.Any]

# Keys whose values are times, or differ by themselves from run to run; reports that differ in nothing else are equal.
TIMES = frozenset(
    {
        "generated_at",
        "seconds",
        "run_seconds",
        "at",
        "created",
        "verified_at",
        "elapsed",
        "timings",
        "started_at",
        "uptime",
    }
)
# What only tells what a run did, not what is there.
DOINGS = frozenset({"changes", "changed", "started", "plan"})


def build(host: str, facts: t.Mapping[str, t.Any], meta: t.Mapping[str, t.Any]) -> Tree:
    """The report of one host.

    Args:
        host: inventory name.
        facts: the public results of the roles by their names (contracts of the roles), each perhaps absent:
            ``sglang_resolved``, ``proxmox_gpu_result``, ``gpu_host_result``, ``nightly_stack_result``,
            ``sgl_kernel_result``, ``sglang_service_result``, ``sglang_failure``.
        meta: ``generated_at`` (UTC, ISO), ``collection_version``, ``run_seconds`` (perhaps None), ``host_exceptions``.

    Returns:
        A dictionary of plain types. Not redacted yet.
    """
    resolved = _dict(facts.get("sglang_resolved"))
    service = _dict(_dict(facts.get("sglang_service_result")).get("instances"))
    stacks = _stacks(facts, resolved)
    instances = [
        _instance(entry, _dict(service.get(entry.get("name"))), stacks) for entry in resolved.get("instances", [])
    ]
    failure = _failure(facts.get("sglang_failure"), service)
    report: Tree = {
        "schema": SCHEMA,
        "collection_version": meta.get("collection_version", ""),
        "generated_at": meta.get("generated_at", ""),
        "host": host,
        "result": _result(instances, failure),
        "hypervisor": _hypervisor(host, facts.get("proxmox_gpu_result")),
        "hardware": _hardware(_dict(facts.get("gpu_host_result"))),
        "findings": _findings(_dict(facts.get("gpu_host_result"))),
        "stacks": stacks,
        "instances": instances,
        "exceptions": _exceptions(resolved, facts, meta.get("host_exceptions") or []),
        "failure": failure,
        "changes": _changes(facts, service),
        "timings": _timings(meta, service),
        "measured": {"sweeps": [], "matrices": []},
    }
    return report


def without(report: t.Any, names: t.Container[str]) -> t.Any:
    """A report without the keys named, at any depth."""
    if isinstance(report, t.Mapping):
        return {key: without(value, names) for key, value in report.items() if key not in names}
    if isinstance(report, list):
        return [without(value, names) for value in report]
    return report


def same(old: t.Any, new: t.Mapping[str, t.Any]) -> bool:
    """Whether ``new`` says nothing that ``old`` does not, times aside.

    A run that changed nothing does not erase the account of the one that did: what a run did (``changes``) counts only
    when it did something.
    """
    if not isinstance(old, t.Mapping) or new.get("changes"):
        return False
    return bool(without(old, TIMES | DOINGS) == without(new, TIMES | DOINGS))


def keep_richer(old: t.Any, new: Tree) -> Tree:
    """``new`` with what only the run that made this state could tell.

    That is the full gate where ``new`` has only the cheap part of the same start (it says that what was proved at the
    start still holds, the proof itself is in the earlier report), and the plan by which the same release was made.
    """
    before = {entry.get("name"): entry for entry in _dict(old).get("instances") or []}
    instances = []
    for entry in new["instances"]:
        earlier = _dict(before.get(entry["name"]))
        gate, full = _dict(entry.get("gate")), _dict(earlier.get("gate"))
        same_start = gate.get("invocation_id") and gate.get("invocation_id") == full.get("invocation_id")
        kept = dict(entry)
        if same_start and gate.get("passed") and gate.get("quick") and full.get("passed") and not full.get("quick"):
            kept.update(gate=full, capacity=earlier.get("capacity") or entry.get("capacity"))
            if entry["kv"].get("verdict") == _dict(earlier.get("kv")).get("verdict"):
                kept["kv"] = earlier["kv"]
        instances.append(kept)
    stacks = {
        name: _keep_plan(_dict(_dict(_dict(old).get("stacks")).get(name)), stack)
        for name, stack in new["stacks"].items()
    }
    return {**new, "instances": instances, "stacks": stacks}


def _keep_plan(old: Tree, new: Tree) -> Tree:
    """A stack with the plan and the kernel's reason of the run that built the same release."""
    if _dict(old.get("release")).get("id") != _dict(new["release"]).get("id"):
        return new
    kernel = new["kernel"]
    if kernel and not kernel["reason"]:
        kernel = {**kernel, "reason": _dict(old.get("kernel")).get("reason")}
    return {**new, "plan": new["plan"] or old.get("plan", []), "kernel": kernel}


def _result(instances: list[Tree], failure: t.Any) -> str:
    if failure:
        return "failed"
    if not instances:
        return "nothing to serve"
    wanted = [entry for entry in instances if entry["state"] == "started"]
    if not wanted:
        return "stopped as ordered"
    if all(entry["gate"] and entry["gate"]["passed"] for entry in wanted):
        return "serving"
    if any(entry["gate"] and entry["gate"]["passed"] is False for entry in wanted):
        return "failed"
    return "not proved in this run"


def _hypervisor(host: str, result: t.Any) -> Tree | None:
    found = _dict(result)
    for guest in found.get("guests", []):
        if guest.get("host") == host:
            keys = ("vmid", "kind", "running", "style", "devices", "missing", "warnings")
            return {"name": found.get("hypervisor", ""), **{key: guest.get(key) for key in keys}}
    return None


def _hardware(probe: Tree) -> Tree | None:
    if not probe:
        return None
    kinds: dict[tuple[t.Any, ...], Tree] = {}
    for card in probe.get("gpus", []):
        key = (card["name"], card["memory_mib"], card["compute_capability"])
        entry = kinds.setdefault(
            key,
            {
                "name": key[0],
                "memory_mib": key[1],
                "compute_capability": key[2],
                "count": 0,
                "bar1_mib": card["bar1_mib"],
            },
        )
        entry["count"] += 1
    driver = _dict(probe.get("driver")).get("kernel")
    compiler = _dict(_dict(probe.get("cuda")).get("unit"))
    system = _dict(probe.get("os"))
    memory = _dict(probe.get("memory"))
    return {
        "gpus": list(kinds.values()),
        "driver": driver,
        "cuda": {"nvcc": compiler.get("path"), "version": compiler.get("version")} if compiler else None,
        "os": {key: system.get(key) for key in ("name", "kernel", "glibc", "virtualization")},
        "memory_gib": round(memory.get("effective_mib", 0) / 1024),
        "topology": {key: _dict(probe.get("topology")).get(key) for key in ("worst", "sockets")},
        "nccl": probe.get("nccl"),
    }


def _findings(probe: Tree) -> list[Tree]:
    keys = ("id", "severity", "what", "why", "fix", "source", "folklore", "excepted")
    return [{key: finding.get(key) for key in keys} for finding in probe.get("findings", [])]


def _stacks(facts: t.Mapping[str, t.Any], resolved: Tree) -> dict[str, Tree]:
    built = _dict(_dict(facts.get("nightly_stack_result")).get("stacks"))
    kernels = _dict(_dict(facts.get("sgl_kernel_result")).get("stacks"))
    found = {}
    for name, ordered in _dict(resolved.get("stacks")).items():
        result = _dict(built.get(name))
        release = _dict(result.get("release"))
        kernel = {**_dict(release.get("kernel")), **_dict(kernels.get(name))}
        asked = _dict(ordered.get("kernel"))
        found[name] = {
            "channel": ordered.get("channel"),
            "digest": ordered.get("digest"),
            "engine_version": ordered.get("engine_version"),
            "pins": _pins(ordered),
            "overrides": [str(entry) for entry in ordered.get("overrides") or []],
            "guard": [_guarded(entry) for entry in release.get("findings") or []],
            "plan": [_change(entry) for entry in result.get("changes") or []],
            "release": {key: release.get(key) for key in ("id", "path", "state", "python", "lock_digest")}
            if release
            else None,
            "versions": _dict(result.get("versions") or release.get("versions")),
            "kernel": {
                "build": asked.get("build"),
                "distribution": asked.get("distribution"),
                "repository": asked.get("repository"),
                "commit": kernel.get("commit") or asked.get("commit"),
                "cmake_args": asked.get("cmake_args") or [],
                "cuda_arch_list": asked.get("cuda_arch_list"),
                "reason": kernel.get("reason"),
                "stamp": kernel.get("stamp"),
                "wheel": kernel.get("wheel"),
                "patches": kernel.get("patches") or [],
                "architectures": kernel.get("architectures"),
            }
            if asked or kernel
            else None,
        }
    return found


def _pins(stack: Tree) -> list[Tree]:
    pins = []
    for name, wanted in sorted(_dict(stack.get("requirements")).items()):
        entry = wanted if isinstance(wanted, t.Mapping) else {"version": wanted}
        pins.append({"name": name, "version": str(entry.get("version", "")), "index": entry.get("index", "default")})
    return pins


def _guarded(entry: t.Any) -> Tree:
    """What the guard of the plan said of a package: a pin that another overrode, a refusal that an exception lifted."""
    found = _dict(entry)
    return {
        "id": str(found.get("id", "")),
        "what": str(found.get("what", entry)),
        "severity": str(found.get("severity", "")),
        "lifted": None if found.get("lifted") is None else str(found["lifted"]),
    }


def _change(entry: t.Any) -> Tree:
    found = _dict(entry)
    return {key: None if found.get(key) is None else str(found[key]) for key in ("action", "name", "before", "after")}


def _instance(ordered: Tree, done: Tree, stacks: dict[str, Tree]) -> Tree:
    gate = _last_gate(done)
    proof = _dict(gate.get("proof"))
    release = _dict(_dict(stacks.get(str(ordered.get("stack")))).get("release"))
    keys = (
        "name",
        "unit",
        "state",
        "profile",
        "stack",
        "model_path",
        "served_model_name",
        "gpus",
        "listen",
        "env",
        "need",
    )
    report = {key: ordered.get(key) for key in keys}
    report.update(
        {
            "release_id": done.get("release_id") or release.get("id"),
            "argv": list(done.get("argv") or ordered.get("argv") or []),
            "api_key_set": bool(ordered.get("api_key_set")),
            "why": _why(ordered),
            "kv": _kv(ordered, proof, gate),
            "capacity": _dict(proof.get("capacity")) or None,
            "gate": _gate(gate) if gate else None,
            "changed": bool(done.get("changed")),
            "started": bool(done.get("started")),
            "rollback": _rollback(done.get("rollback")),
            "diagnosis": done.get("diagnosis"),
        }
    )
    return report


def _last_gate(done: Tree) -> Tree:
    """The gate of what was deployed; where an operator went back, and nothing was, that of what came back."""
    return _dict(done.get("gate")) or _dict(_dict(done.get("rollback")).get("gate"))


def _why(ordered: Tree) -> list[str]:
    """Where the choice comes from, a sentence each."""
    said = [f"stack {ordered.get('stack')}: named by the instance, else by its profile, else the default"]
    if ordered.get("profile"):
        said.append(f"arguments start from profile {ordered['profile']}; what the instance writes wins")
    said.append(
        f"KV cache {ordered.get('kv_cache_dtype')}: "
        + ("left to the engine" if ordered.get("kv_cache_dtype") == "auto" else "ordered")
    )
    return said


def _kv(ordered: Tree, proof: Tree, gate: Tree) -> Tree:
    verdict = _dict(proof.get("kv"))
    if not verdict:
        checks = [_dict(check) for check in gate.get("checks", []) if "kv" in str(_dict(check).get("id", ""))]
        check = checks[0] if checks else {}
        words = {"True": "proved", "False": "refuted"}
        verdict = {"verdict": words.get(str(check.get("passed")), "not proved in this run")}
        verdict["evidence"] = [
            {"source": "gate", "says": str(line), "weight": ""} for line in check.get("evidence") or []
        ]
    return {
        "ordered": ordered.get("kv_cache_dtype"),
        "verdict": verdict.get("verdict"),
        "effective_dtype": verdict.get("effective_dtype"),
        "evidence": verdict.get("evidence") or [],
        "recommendation": verdict.get("recommendation") or "",
    }


def _gate(gate: Tree) -> Tree:
    keys = ("id", "passed", "expected", "seen", "evidence", "seconds")
    checks = [{key: check.get(key) for key in keys} for check in gate.get("checks", [])]
    proof = _dict(gate.get("proof"))
    return {
        "passed": gate.get("passed"),
        "checks": checks,
        "invocation_id": proof.get("invocation_id"),
        "at": proof.get("at"),
        "quick": proof.get("quick"),
    }


def _rollback(rollback: t.Any) -> Tree | None:
    found = _dict(rollback)
    if not found:
        return None
    gate = _dict(found.get("gate"))
    return {**{key: value for key, value in found.items() if key != "gate"}, "gate": _gate(gate) if gate else None}


def _failure(failure: t.Any, service: Tree) -> Tree | None:
    found = _dict(failure)
    if not found:
        return None
    troubled = {name: _dict(entry) for name, entry in service.items()}
    return {
        "task": str(found.get("task", "")),
        "msg": str(found.get("msg", "")),
        "diagnosis": {name: entry["diagnosis"] for name, entry in troubled.items() if entry.get("diagnosis")},
        "rollback": {name: _rollback(entry["rollback"]) for name, entry in troubled.items() if entry.get("rollback")},
    }


def _exceptions(resolved: Tree, facts: t.Mapping[str, t.Any], host_exceptions: t.Iterable[t.Any]) -> list[Tree]:
    scopes: list[tuple[str, t.Any]] = [("gpu_host", list(host_exceptions))]
    scopes += [(f"instance {entry.get('name')}", entry.get("exceptions")) for entry in resolved.get("instances", [])]
    scopes += [
        (f"stack {name}", _dict(stack).get("exceptions")) for name, stack in _dict(resolved.get("stacks")).items()
    ]
    built = _dict(_dict(facts.get("nightly_stack_result")).get("stacks"))
    scopes += [(f"stack {name}", _dict(result).get("exceptions")) for name, result in built.items()]
    found: list[Tree] = []
    for scope, entries in scopes:
        for entry in entries or []:
            item = {
                "scope": scope,
                "id": str(_dict(entry).get("id", entry)),
                "reason": str(_dict(entry).get("reason", "")),
                "until": None if _dict(entry).get("until") is None else str(_dict(entry)["until"]),
            }
            if item not in found:
                found.append(item)
    return found


def _changes(facts: t.Mapping[str, t.Any], service: Tree) -> list[str]:
    """What this run did, a sentence each; empty for a run that found everything in place."""
    said = []
    packages = _dict(facts.get("gpu_host_result")).get("packages_installed") or []
    if packages:
        said.append(f"installed packages {', '.join(packages)}")
    for name, result in _dict(_dict(facts.get("nightly_stack_result")).get("stacks")).items():
        if _dict(result).get("changed"):
            said.append(f"built or completed release {_dict(_dict(result).get('release')).get('id')} of stack {name}")
    for name, result in _dict(_dict(facts.get("sgl_kernel_result")).get("stacks")).items():
        if _dict(result).get("built"):
            said.append(f"built the kernel of stack {name} ({_dict(result).get('stamp')})")
    for name, result in service.items():
        if _dict(result).get("changed"):
            what = "started" if _dict(result).get("started") else "changed"
            said.append(f"{what} {name} with release {_dict(result).get('release_id')}")
        if _dict(result).get("rollback"):
            said.append(f"put {name} back to release {_dict(_dict(result)['rollback']).get('to_release')}")
    return said


def _timings(meta: t.Mapping[str, t.Any], service: Tree) -> Tree:
    """Seconds of the run and, by instance, until it was ready, out of service, and in the gate."""
    found: Tree = {
        "run_seconds": meta.get("run_seconds"),
        "gate_seconds": {},
        "ready_seconds": {},
        "downtime_seconds": {},
    }
    for name, entry in service.items():
        checks = _last_gate(_dict(entry)).get("checks") or []
        found["gate_seconds"][name] = round(sum(float(check.get("seconds") or 0) for check in checks), 3)
        for key in ("ready_seconds", "downtime_seconds"):
            seconds = _dict(entry).get(key)
            if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
                found[key][name] = round(float(seconds), 3)
    return found


def _dict(value: t.Any) -> Tree:
    return dict(value) if isinstance(value, t.Mapping) else {}

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one host shall serve: profiles, instances and stacks merged into one result (private to the collection).

:func:`resolve` is the only place that merges a profile with an instance. Units, budgets, gates, plans and reports use
its result (docs/contracts/resolved_host.schema.json), so they cannot disagree. No secret enters the result.
"""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _arguments
from ansible_collections.blackwell.sglang.plugins.module_utils import _instance_values as values
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import lint
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import (
    Findings,
    Table,
    deep_merge,
    did_you_mean,
    kind_of,
    shown,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_schema import check_indexes, resolved_stack

DEFAULT_ROOT = "/opt/sglang"
DEFAULT_STACK = "nightly"
GUEST_KINDS = ("none", "lxc", "qemu")
STATES = ("started", "stopped")
INSTANCE_KEYS = (
    "name",
    "state",
    "profile",
    "stack",
    "model_path",
    "gpus",
    "args",
    "extra_args",
    "env",
    "api_key",
    "need",
    "exceptions",
    "gate",
)
PROFILE_KEYS = ("stack", "args", "extra_args", "env", "need", "exceptions", "gate", "description", "source")


def resolve(
    hostvars: t.Mapping[str, t.Any],
    shipped_stacks: t.Mapping[str, t.Any],
    shipped_profiles: t.Mapping[str, t.Any],
    today: datetime.date | None = None,
) -> Table:
    """Merge and check what a host's variables ask for.

    Args:
        hostvars: templated variables of the host; ``inventory_hostname`` names it in messages.
        shipped_stacks: content of roles/nightly_stack/files/stacks.yml.
        shipped_profiles: name to content of roles/sglang_service/files/profiles/NAME.yml.
        today: the day against which ``until`` of exceptions is judged; the current one if absent.

    Returns:
        ``host``, ``stacks`` (those that instances use), ``instances``, ``problems`` and ``warnings``, as
        docs/contracts/resolved_host.schema.json describes. It never raises on any YAML: what is wrong is in
        ``problems``, and an instance that has problems is still resolved as far as it goes.
    """
    findings = Findings(str(hostvars.get("inventory_hostname") or ""))
    host = _host(hostvars, findings)
    catalogue = _Catalogue(hostvars, shipped_stacks, shipped_profiles, today or datetime.date.today(), findings)
    instances: dict[str, Table] = {}
    entries = findings.listing(
        hostvars.get("sglang_instances"), "sglang_instances", "[{name: qwen, model_path: /models/X}]"
    )
    for index, raw in enumerate(entries):
        where = f"sglang_instances[{index}]"
        instance = _instance(raw, where, catalogue)
        if instance is not None:
            instances[where] = instance
    if "sglang_instances" not in hostvars:
        findings.problem(
            "sglang_instances",
            "is not set",
            "a list of what this host serves",
            "write sglang_instances: [] if it shall serve nothing",
            "no_instances",
        )
    elif not entries and not findings.problems:
        findings.warn("sglang_instances", "is empty: this host serves nothing", id="no_instances")
    _check_together(instances, findings)
    for instance in instances.values():
        instance["conflicts"] = sorted(
            {other["name"] for other in instances.values() if other is not instance and _overlap(instance, other)}
        )
    return {
        "host": host,
        "stacks": catalogue.stacks,
        "instances": list(instances.values()),
        "problems": [problem.as_dict() for problem in findings.problems],
        "warnings": [warning.as_dict() for warning in findings.warnings],
    }


def _host(hostvars: t.Mapping[str, t.Any], findings: Findings) -> Table:
    hypervisor = hostvars.get("sglang_hypervisor")
    if hypervisor is not None:
        hypervisor = findings.text(hypervisor, "sglang_hypervisor", "pve1") or None
    vmid = hostvars.get("sglang_vmid")
    if vmid is not None:
        vmid = findings.integer(vmid, "sglang_vmid", 100, 999999999, 129)
    kind = hostvars.get("sglang_guest_kind")
    if kind is None:
        kind = "none"
        if hypervisor:
            findings.problem(
                "sglang_guest_kind",
                "is not set, but sglang_hypervisor is",
                "one of lxc, qemu",
                "write sglang_guest_kind: lxc",
                "guest_kind",
            )
    else:
        kind = findings.choice(kind, "sglang_guest_kind", GUEST_KINDS, "none")
    if kind != "none":
        for name, value, example in (("sglang_hypervisor", hypervisor, "pve1"), ("sglang_vmid", vmid, "129")):
            if value is None and hostvars.get(name) is None:
                findings.problem(
                    name,
                    f"is not set, but sglang_guest_kind is {kind}",
                    "the guest's own",
                    f"write {name}: {example}",
                    "guest_incomplete",
                )
    return {
        "hypervisor": hypervisor,
        "guest_kind": kind,
        "vmid": vmid,
        "root": values.absolute(hostvars.get("sglang_root", DEFAULT_ROOT), "sglang_root", DEFAULT_ROOT, findings),
        "user": values.user(hostvars.get("sglang_user", values.DEFAULT_USER), findings),
    }


class _Catalogue:
    """Profiles and stacks of a host, its own over the shipped ones; a stack is resolved when one asks for it."""

    def __init__(
        self,
        hostvars: t.Mapping[str, t.Any],
        shipped_stacks: t.Mapping[str, t.Any],
        shipped_profiles: t.Mapping[str, t.Any],
        today: datetime.date,
        findings: Findings,
    ) -> None:
        self.findings = findings
        self.today = today
        self.stacks: dict[str, Table] = {}
        self._shipped = {str(name): value for name, value in shipped_stacks.items()}
        self._own = findings.table(hostvars.get("sglang_stacks"), "sglang_stacks", "{my_stack: {channel: stable}}")
        indexes = findings.table(hostvars.get("sglang_indexes"), "sglang_indexes", "{default: https://pypi.org/simple}")
        self._indexes = check_indexes(
            {name: url for name, url in indexes.items() if url is not None}, "sglang_indexes", findings
        )
        self.profiles = self._read_profiles(hostvars, shipped_profiles)

    def _read_profiles(self, hostvars: t.Mapping[str, t.Any], shipped: t.Mapping[str, t.Any]) -> dict[str, Table]:
        findings = self.findings
        own = findings.table(hostvars.get("sglang_profiles"), "sglang_profiles", "{my_profile: {args: {tp_size: 8}}}")
        profiles = {str(name): value for name, value in shipped.items() if isinstance(value, dict)}
        for name, value in own.items():
            where = f"sglang_profiles.{name}"
            table = findings.table(value, where, "{args: {tp_size: 8}}")
            findings.known_keys(table, where, PROFILE_KEYS)
            for key in ("args", "env", "need", "gate"):
                findings.table(table.get(key), f"{where}.{key}")
            for key in ("extra_args", "exceptions"):
                findings.listing(table.get(key), f"{where}.{key}")
            profiles[name] = deep_merge(profiles.get(name, {}), table)
        return profiles

    def profile(self, given: Table, where: str) -> tuple[str | None, Table]:
        """The name that an instance gives, and the profile; an empty one where there is none."""
        if given.get("profile") is None:
            return None, {}
        name = self.findings.text(given["profile"], f"{where}.profile", "generic_nvfp4")
        if not name:
            return None, {}
        if name not in self.profiles:
            self.findings.problem(
                f"{where}.profile",
                f"names the profile {shown(name)}, which does not exist",
                "one of " + (", ".join(sorted(self.profiles)) or "the keys of sglang_profiles"),
                did_you_mean(name, self.profiles, f"add sglang_profiles.{name}, or remove profile"),
                "unknown_profile",
            )
        return name, self.profiles.get(name, {})

    def stack(self, given: Table, profile: Table, where: str) -> tuple[str, Table | None]:
        """The name of an instance's stack (its own, its profile's, else the default), and the resolved stack."""
        place = f"{where}.stack"
        value = given.get("stack")
        if value is None and profile.get("stack") is not None:
            place, value = f"sglang_profiles.{given.get('profile')}.stack", profile["stack"]
        name = self.findings.text(DEFAULT_STACK if value is None else value, place, DEFAULT_STACK)
        if not name:
            return DEFAULT_STACK, None
        if name not in self._shipped and name not in self._own:
            known = sorted({*self._shipped, *self._own})
            self.findings.problem(
                place,
                f"names the stack {shown(name)}, which does not exist",
                "one of " + (", ".join(known) or "the keys of sglang_stacks"),
                did_you_mean(name, known, f"add sglang_stacks.{name}, or name another"),
                "unknown_stack",
            )
            return name, None
        if name not in self.stacks:
            stack = resolved_stack(name, self._shipped, self._own, self._indexes, self.findings)
            stack["exceptions"] = values.exceptions(
                stack.get("exceptions"), f"sglang_stacks.{name}.exceptions", self.today, self.findings
            )
            self.stacks[name] = stack
        return name, self.stacks[name]


def _instance(raw: t.Any, where: str, catalogue: _Catalogue) -> Table | None:
    findings = catalogue.findings
    if not isinstance(raw, dict):
        findings.problem(
            where,
            f"is {kind_of(raw)}",
            "a dictionary such as {name: qwen, model_path: /models/X}",
            "write the keys of one instance under one dash",
            "type",
        )
        return None
    given = findings.table(raw, where)
    findings.known_keys(given, where, INSTANCE_KEYS)
    name = values.name_of(given, where, findings)
    profile_name, profile = catalogue.profile(given, where)
    stack_name, stack = catalogue.stack(given, profile, where)
    version = stack.get("engine_version") if stack else None
    excepted = values.exceptions(
        [*_quiet_list(profile.get("exceptions")), *findings.listing(given.get("exceptions"), f"{where}.exceptions")],
        f"{where}.exceptions",
        catalogue.today,
        findings,
    )
    in_force = [*(stack["exceptions"] if stack else []), *excepted]
    model_path = values.model_path(given.get("model_path"), f"{where}.model_path", findings)
    request = _request(given, profile, where, version, findings)
    command = _arguments.read(
        dataclasses.replace(request, lifted=frozenset(entry["id"] for entry in in_force)),
        findings,
        {"host": values.DEFAULT_HOST, "port": values.DEFAULT_PORT},
    )
    known_so_far = len(findings.problems)
    gpus = values.gpus(given.get("gpus", "all"), f"{where}.gpus", findings)
    gpus_sound = len(findings.problems) == known_so_far
    env = values.environment(_merged(profile, given, "env", where, findings), where, findings)
    values.select_gpus(env, gpus, where, findings)
    effective = command.args
    state = findings.choice(given.get("state", "started"), f"{where}.state", STATES, "started")
    instance: Table = {
        "name": name,
        "unit": f"sglang-{name}.service",
        "state": state,
        "enabled": state == "started",
        "profile": profile_name,
        "stack": stack_name,
        "stack_digest": stack["digest"] if stack else None,
        "engine_version": version,
        "model_path": model_path,
        "gpus": gpus,
        "listen": values.listen(effective, where, findings),
        "served_model_name": str(effective.get("served_model_name") or model_path),
        "args": effective,
        "argv": command.argv(model_path),
        "env": env,
        "api_key_set": values.api_key_set(given, where, findings),
        "need": values.need(_merged(profile, given, "need", where, findings), f"{where}.need", findings),
        "exceptions": excepted,
        "gate": values.gate(_merged(profile, given, "gate", where, findings), f"{where}.gate", findings),
        "tp_size": values.whole(effective.get("tp_size"), 1),
        "kv_cache_dtype": str(effective.get("kv_cache_dtype") or "auto"),
        "attention_backend": effective.get("attention_backend"),
        "quantization": effective.get("quantization"),
        "speculative": bool(effective.get("speculative_algorithm")),
    }
    if gpus_sound:
        values.check_gpu_count(instance, where, findings)
    # Without the profile or the stack that was meant, the rules would only repeat that something is missing.
    if stack is not None and (profile or profile_name is None):
        lint.check(instance, where, findings, in_force, command.unread)
    return instance


def _request(given: Table, profile: Table, where: str, version: str | None, findings: Findings) -> _arguments.Request:
    """The arguments: the profile's, and the instance's over them by what they set, not by how it is spelt."""
    base = profile.get("args")
    args = _arguments.merge(
        base if isinstance(base, dict) else {}, findings.table(given.get("args"), f"{where}.args"), version
    )
    extra = [*_quiet_list(profile.get("extra_args")), *findings.listing(given.get("extra_args"), f"{where}.extra_args")]
    return _arguments.Request(args, extra, version, where)


def _merged(profile: Table, given: Table, key: str, where: str, findings: Findings) -> Table:
    """A dictionary of the profile with the instance's over it; null removes a key of the profile, or does nothing."""
    base = profile.get(key)
    over = findings.table(given.get(key), f"{where}.{key}")
    merged = {**(base if isinstance(base, dict) else {}), **over}
    return {str(name): value for name, value in merged.items() if value is not None}


def _quiet_list(value: t.Any) -> list[t.Any]:
    """A profile's list; its type was reported where the profile was read."""
    return list(value) if isinstance(value, (list, tuple)) else []


def _check_together(instances: dict[str, Table], findings: Findings) -> None:
    """Names of all instances differ; GPUs and ports of the started ones do. Keys are variable paths."""
    names: dict[str, str] = {}
    for where, instance in instances.items():
        name = instance["name"]
        if name in names and name != "unnamed":
            findings.problem(
                f"{where}.name",
                f"is {name}, like {names[name]}.name",
                "a name of its own",
                f"write {name}-2",
                "name_twice",
            )
        names.setdefault(name, where)
    started = [(where, instance) for where, instance in instances.items() if instance["state"] == "started"]
    for place, (where, one) in enumerate(started):
        for _other_where, other in started[:place]:
            both = f"{one['name']} and {other['name']} are both started on"
            if one["listen"]["port"] == other["listen"]["port"]:
                findings.problem(
                    f"{where}.args.port",
                    f"{both} port {one['listen']['port']}",
                    "a port for each started instance",
                    "write another port, or state: stopped for one of them",
                    "port_overlap",
                )
            shared = _shared_gpus(one["gpus"], other["gpus"])
            if shared:
                findings.problem(
                    f"{where}.gpus",
                    f"{both} {shared}",
                    "GPUs of its own for each started instance",
                    "list disjoint gpus, or write state: stopped for one of them",
                    "gpu_overlap",
                )


def _overlap(one: Table, other: Table) -> bool:
    """Whether two instances cannot run at once, whatever their states are now."""
    return one["listen"]["port"] == other["listen"]["port"] or bool(_shared_gpus(one["gpus"], other["gpus"]))


def _shared_gpus(one: str | list[int], other: str | list[int]) -> str:
    if isinstance(one, str) or isinstance(other, str):
        return "GPUs that overlap (gpus: all takes every one)"
    both = sorted(set(one) & set(other))
    return ("GPU " if len(both) == 1 else "GPUs ") + ", ".join(map(str, both)) if both else ""

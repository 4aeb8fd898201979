# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one host shall serve: profiles, instances and stacks merged into one result (private to the collection).

:func:`resolve` is the only place that merges a profile with an instance. Units, budgets, gates, plans and reports use
its result (docs/contracts/resolved_host.schema.json), so they cannot disagree. No secret enters the result.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _arguments
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import lint
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import (
    Findings,
    Table,
    deep_merge,
    did_you_mean,
    has_control,
    kind_of,
    shown,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_schema import check_indexes, resolved_stack

DEFAULT_ROOT = "/opt/sglang"
DEFAULT_USER = "sglang"
DEFAULT_STACK = "nightly"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000
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
NEED_KEYS = ("context", "concurrent")
EXCEPTION_KEYS = ("id", "reason", "until")

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ENV = ("SGLANG_API_KEY", "OPENAI_API_KEY")


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
        docs/contracts/resolved_host.schema.json describes. It never raises on any YAML: what is wrong is in ``problems``,
        and an instance that has problems is still resolved as far as it goes.
    """
    findings = Findings(str(hostvars.get("inventory_hostname") or ""))
    today = today or datetime.date.today()
    host = _host(hostvars, findings)
    profiles = _profiles(hostvars, shipped_profiles, findings)
    own_stacks = findings.table(hostvars.get("sglang_stacks"), "sglang_stacks", "{my_stack: {channel: stable}}")
    indexes = findings.table(hostvars.get("sglang_indexes"), "sglang_indexes", "{default: https://pypi.org/simple}")
    check_indexes(indexes, "sglang_indexes", findings)
    indexes = {name: url for name, url in indexes.items() if url is not None}

    stacks: dict[str, Table] = {}
    shipped = findings.table(dict(shipped_stacks), "stacks.yml")

    def stack_of(name: str, where: str) -> Table | None:
        if name not in shipped and name not in own_stacks:
            known = sorted({*shipped, *own_stacks})
            findings.problem(
                where,
                f"names the stack {shown(name)}, which does not exist",
                "one of " + (", ".join(known) or "the keys of sglang_stacks"),
                did_you_mean(name, known, f"add sglang_stacks.{name}, or name another"),
                "unknown_stack",
            )
            return None
        if name not in stacks:
            stacks[name] = resolved_stack(name, shipped, own_stacks, indexes, findings)
            stacks[name]["exceptions"] = _exceptions(
                stacks[name].get("exceptions"), f"sglang_stacks.{name}.exceptions", today, findings
            )
        return stacks[name]

    instances = []
    entries = findings.listing(
        hostvars.get("sglang_instances"), "sglang_instances", "[{name: qwen, model_path: /models/X}]"
    )
    for index, raw in enumerate(entries):
        instance = _instance(raw, f"sglang_instances[{index}]", profiles, stack_of, today, findings)
        if instance is not None:
            instances.append(instance)
    if not entries and "sglang_instances" in hostvars and not findings.problems:
        findings.warn("sglang_instances", "is empty: this host serves nothing", id="no_instances")
    elif "sglang_instances" not in hostvars:
        findings.problem(
            "sglang_instances",
            "is not set",
            "a list of what this host serves",
            "write sglang_instances: [] if it shall serve nothing",
            "no_instances",
        )
    _check_together(instances, findings)
    return {
        "host": host,
        "stacks": stacks,
        "instances": instances,
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
        "root": _absolute(hostvars.get("sglang_root", DEFAULT_ROOT), "sglang_root", DEFAULT_ROOT, findings),
        "user": _user(hostvars.get("sglang_user", DEFAULT_USER), findings),
    }


def _user(value: t.Any, findings: Findings) -> str:
    user = findings.text(value, "sglang_user", DEFAULT_USER, DEFAULT_USER)
    if not _USER.fullmatch(user):
        findings.problem(
            "sglang_user",
            f"is {shown(user)}",
            "a system user's name: a-z, 0-9, _ and -, at most 32",
            f"write sglang_user: {DEFAULT_USER}",
            "type",
        )
        return DEFAULT_USER
    return user


def _absolute(value: t.Any, where: str, example: str, findings: Findings) -> str:
    path = findings.text(value, where, example)
    if not path:
        return ""
    if not path.startswith("/"):
        findings.problem(
            where,
            f"is {shown(path)}, no absolute path",
            "a folder on the host, from the root /",
            f"write {where}: {example}",
            "not_absolute",
        )
    elif "/../" in path + "/" or path.strip("/") == "":
        findings.problem(
            where, f"is {shown(path)}", "a folder of its own, without ..", f"write {where}: {example}", "not_absolute"
        )
    return path


def _profiles(hostvars: t.Mapping[str, t.Any], shipped: t.Mapping[str, t.Any], findings: Findings) -> dict[str, Table]:
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


def _instance(
    raw: t.Any,
    where: str,
    profiles: dict[str, Table],
    stack_of: t.Callable[[str, str], Table | None],
    today: datetime.date,
    findings: Findings,
) -> Table | None:
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
    name = _name(given, where, findings)
    profile_name, profile = _profile(given, where, profiles, findings)
    stack_name, stack = _stack(given, profile, profile_name, where, stack_of, findings)
    args = _merged(profile, given, "args", where, findings)
    env = _env(_merged(profile, given, "env", where, findings), where, findings)
    exceptions = _exceptions(
        [*_quiet_list(profile.get("exceptions")), *findings.listing(given.get("exceptions"), f"{where}.exceptions")],
        f"{where}.exceptions",
        today,
        findings,
    )
    model_path = ""
    if given.get("model_path") is None:
        findings.problem(
            f"{where}.model_path",
            "is missing",
            "the folder of the checkpoint on the host",
            f"write {where}.model_path: /models/NAME",
            "model_path_missing",
        )
    else:
        model_path = _absolute(given["model_path"], f"{where}.model_path", "/models/NAME", findings)
    version = stack.get("engine_version") if stack else None
    extra = [*_quiet_list(profile.get("extra_args")), *findings.listing(given.get("extra_args"), f"{where}.extra_args")]
    command = _arguments.read(args, extra, version, where, findings, {"host": DEFAULT_HOST, "port": DEFAULT_PORT})
    effective = command.args
    listen = {"host": effective["host"], "port": effective["port"]}
    _check_listen(listen, where, findings)
    gpus = _gpus(given.get("gpus", "all"), f"{where}.gpus", findings)
    if isinstance(gpus, list):
        if "CUDA_VISIBLE_DEVICES" in env:
            findings.problem(
                f"{where}.env.CUDA_VISIBLE_DEVICES",
                "is set beside gpus",
                "one of the two",
                "remove it from env; gpus sets it",
                "gpus_twice",
            )
        # Without PCI order the driver's and CUDA's numbering of the same cards may differ.
        env.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    instance: Table = {
        "name": name,
        "unit": f"sglang-{name}.service",
        "state": findings.choice(given.get("state", "started"), f"{where}.state", STATES, "started"),
        "profile": profile_name,
        "stack": stack_name,
        "stack_digest": stack["digest"] if stack else None,
        "model_path": model_path,
        "gpus": gpus,
        "listen": listen,
        "served_model_name": str(effective.get("served_model_name") or model_path),
        "args": effective,
        "argv": command.argv(model_path),
        "env": env,
        "api_key_set": _api_key(given, where, findings),
        "need": _need(_merged(profile, given, "need", where, findings), f"{where}.need", findings),
        "exceptions": exceptions,
        "gate": _merged(profile, given, "gate", where, findings),
        "engine_version": version,
        "tp_size": _whole(effective.get("tp_size"), 1),
        "kv_cache_dtype": str(effective.get("kv_cache_dtype") or "auto"),
        "attention_backend": _text_or_none(effective.get("attention_backend")),
        "quantization": _text_or_none(effective.get("quantization")),
        "speculative": bool(effective.get("speculative_algorithm")),
    }
    instance["enabled"] = instance["state"] == "started"
    _check_gpu_count(instance, where, findings)
    lint.check(instance, where, findings, stack["exceptions"] if stack else [])
    return instance


def _name(given: Table, where: str, findings: Findings) -> str:
    if given.get("name") is None:
        findings.problem(
            f"{where}.name",
            "is missing",
            "a-z, 0-9 and -, at most 40; the unit is sglang-NAME.service",
            f"write {where}.name: qwen",
            "name_missing",
        )
        return "unnamed"
    name = findings.text(given["name"], f"{where}.name", "qwen", "unnamed")
    if not _NAME.fullmatch(name):
        findings.problem(
            f"{where}.name",
            f"is {shown(name)}",
            "a-z, 0-9 and - (not at the ends), at most 40; the unit is sglang-NAME.service",
            "write " + (re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-") or "qwen"),
            "name",
        )
    return name


def _profile(given: Table, where: str, profiles: dict[str, Table], findings: Findings) -> tuple[str | None, Table]:
    if given.get("profile") is None:
        return None, {}
    name = findings.text(given["profile"], f"{where}.profile", "generic_nvfp4")
    if not name:
        return None, {}
    if name not in profiles:
        findings.problem(
            f"{where}.profile",
            f"names the profile {shown(name)}, which does not exist",
            "one of " + (", ".join(sorted(profiles)) or "the keys of sglang_profiles"),
            did_you_mean(name, profiles, f"add sglang_profiles.{name}, or remove profile"),
            "unknown_profile",
        )
        return name, {}
    return name, profiles[name]


def _stack(
    given: Table,
    profile: Table,
    profile_name: str | None,
    where: str,
    stack_of: t.Callable[[str, str], Table | None],
    findings: Findings,
) -> tuple[str, Table | None]:
    if given.get("stack") is not None:
        place, value = f"{where}.stack", given["stack"]
    elif profile.get("stack") is not None:
        place, value = f"sglang_profiles.{profile_name}.stack", profile["stack"]
    else:
        place, value = f"{where}.stack", DEFAULT_STACK
    name = findings.text(value, place, DEFAULT_STACK)
    return (name, stack_of(name, place)) if name else (DEFAULT_STACK, None)


def _merged(profile: Table, given: Table, key: str, where: str, findings: Findings) -> Table:
    """A dictionary of the profile with the instance's over it; null removes a key of the profile, or does nothing."""
    base = profile.get(key)
    over = findings.table(given.get(key), f"{where}.{key}")
    merged = dict(base) if isinstance(base, dict) else {}
    merged.update(over)
    return {str(name): value for name, value in merged.items() if value is not None}


def _quiet_list(value: t.Any) -> list[t.Any]:
    """A profile's list; its type was reported where the profile was read."""
    return list(value) if isinstance(value, (list, tuple)) else []


def _env(env: Table, where: str, findings: Findings) -> dict[str, str]:
    found = {}
    for name, value in env.items():
        place = f"{where}.env.{name}"
        if not _ENV_NAME.fullmatch(name):
            findings.problem(
                place,
                "is no name of an environment variable",
                "letters, digits and _, no digit first",
                "write NAME: value",
                "env_name",
            )
        elif name in _SECRET_ENV:
            findings.problem(
                place,
                "would put a secret into the environment of the process",
                "api_key of the instance, from a vault",
                "move it to api_key",
                "secret_in_env",
            )
        elif isinstance(value, bool):
            findings.problem(
                place,
                "is true or false, which programs spell differently",
                "text in quotes",
                f'write {name}: "{int(value)}" or "{str(value).lower()}", as the program reads it',
                "type",
            )
        elif isinstance(value, (int, float)):
            found[name] = str(value)
        elif isinstance(value, str):
            if has_control(value):
                findings.problem(
                    place,
                    "holds a line break or a control character",
                    "one line of text",
                    "write it on one line",
                    "type",
                )
            else:
                found[name] = str(value)
        else:
            findings.problem(place, f"is {kind_of(value)}", "text", f'write {name}: "value"', "type")
    return found


def _exceptions(value: t.Any, where: str, today: datetime.date, findings: Findings) -> list[Table]:
    found: dict[str, Table] = {}
    for index, raw in enumerate(findings.listing(value, where, "[{id: RULE, reason: why}]")):
        place = f"{where}[{index}]"
        entry = findings.table(raw, place, "{id: RULE, reason: why, until: 2027-01-31}")
        findings.known_keys(entry, place, EXCEPTION_KEYS)
        if not entry:
            continue
        rule = findings.text(entry.get("id"), f"{place}.id", "the id that the refusal names")
        reason = findings.text(entry.get("reason"), f"{place}.reason", "why this is right here; the report repeats it")
        until = entry.get("until")
        day = _day(until)
        if until is not None and day is None:
            findings.problem(
                f"{place}.until",
                f"is {shown(until)}",
                "a day such as 2027-01-31",
                f"write {place}.until: 2027-01-31, or remove it",
                "type",
            )
        elif day is not None and day < today:
            findings.problem(
                f"{place}.until",
                f"the exception {rule} ended on {day.isoformat()}",
                "a day that has not passed",
                "look at its reason again, then write a new day or remove it",
                "exception_expired",
            )
            continue
        if rule and reason:
            found[rule] = {"id": rule, "reason": reason, "until": day.isoformat() if day else None}
    return list(found.values())


def _day(value: t.Any) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if isinstance(value, str):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            return None
    return None


def _gpus(value: t.Any, where: str, findings: Findings) -> str | list[int]:
    fix = f"write {where}: all, or {where}: [0, 1]"
    if value == "all" or value is None:
        return "all"
    if not isinstance(value, (list, tuple)):
        if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(\s*,\s*\d{1,3})*\s*", value):
            fix = f"write {where}: [{', '.join(part.strip() for part in value.split(','))}]"
        findings.problem(
            where, f"is {kind_of(value)}", "all, or a list of indices as nvidia-smi shows them", fix, "type"
        )
        return "all"
    found: list[int] = []
    for index, entry in enumerate(value):
        number = findings.integer(entry, f"{where}[{index}]", 0, 127, index)
        if number is None:
            continue
        if number in found:
            findings.problem(
                f"{where}[{index}]",
                f"names GPU {number} a second time",
                "each GPU once",
                "remove one of them",
                "gpu_twice",
            )
            continue
        found.append(number)
    if not value:
        findings.problem(where, "is empty", "all, or a list of indices as nvidia-smi shows them", fix, "type")
        return "all"
    return sorted(found)


def _api_key(given: Table, where: str, findings: Findings) -> bool:
    value = given.get("api_key")
    if value is None:
        return False
    if not isinstance(value, str) or not value.strip() or has_control(value):
        what = "is empty or holds a line break" if isinstance(value, str) else f"is {kind_of(value)}"
        findings.problem(
            f"{where}.api_key",
            what,
            "one line of text, from a vault",
            'write api_key: "{{ vault_sglang_api_key }}", or remove it',
            "api_key",
        )
        return False
    return True


def _need(need: Table, where: str, findings: Findings) -> Table | None:
    findings.known_keys(need, where, NEED_KEYS)
    found = {}
    for key in NEED_KEYS:
        if need.get(key) is not None:
            found[key] = findings.integer(need[key], f"{where}.{key}", 1, 100_000_000, 32768 if key == "context" else 4)
    return found or None


def _check_listen(listen: Table, where: str, findings: Findings) -> None:
    host = listen["host"]
    if not isinstance(host, str) or not host.strip() or has_control(host) or " " in host or "/" in host:
        findings.problem(
            f"{where}.args.host",
            f"is {shown(host)}",
            "an address such as 127.0.0.1 or 0.0.0.0",
            f"write {where}.args.host: {DEFAULT_HOST}",
            "type",
        )
        listen["host"] = DEFAULT_HOST
    port = listen["port"]
    number = _whole(port, -1)
    if not 1 <= number <= 65535:
        findings.problem(
            f"{where}.args.port",
            f"is {shown(port)}",
            "a whole number from 1 to 65535",
            f"write {where}.args.port: {DEFAULT_PORT}",
            "type",
        )
        number = DEFAULT_PORT
    listen["port"] = number


def _check_gpu_count(instance: Table, where: str, findings: Findings) -> None:
    gpus = instance["gpus"]
    args = instance["args"]
    ranks = instance["tp_size"] * _whole(args.get("pp_size"), 1)
    if not args.get("enable_dp_attention"):
        ranks *= _whole(args.get("dp_size"), 1)
    if not isinstance(gpus, list) or not gpus or ranks == len(gpus):
        return
    said = f"names {len(gpus)} GPUs, but tp_size, pp_size and dp_size make {ranks} ranks"
    fix = f"write tp_size: {len(gpus)}, or list {ranks} GPUs"
    if ranks > len(gpus):
        findings.problem(f"{where}.gpus", said, "a GPU for each rank", fix, "gpu_count")
    else:
        findings.warn(f"{where}.gpus", said, "no GPU that stays idle", fix, "gpu_count")


def _check_together(instances: list[Table], findings: Findings) -> None:
    """Names of all instances differ; GPUs and ports of the started ones do."""
    names: dict[str, int] = {}
    for index, instance in enumerate(instances):
        if instance["name"] in names and instance["name"] != "unnamed":
            findings.problem(
                f"sglang_instances[{index}].name",
                f"is {instance['name']}, like sglang_instances[{names[instance['name']]}].name",
                "a name of its own",
                f"write {instance['name']}-2",
                "name_twice",
            )
        names.setdefault(instance["name"], index)
    started = [(index, instance) for index, instance in enumerate(instances) if instance["state"] == "started"]
    for place, (index, one) in enumerate(started):
        for _, other in started[:place]:
            if one["listen"]["port"] == other["listen"]["port"]:
                findings.problem(
                    f"sglang_instances[{index}].args.port",
                    f"{one['name']} and {other['name']} are both started on port {one['listen']['port']}",
                    "a port for each started instance",
                    "write another port, or state: stopped for one of them",
                    "port_overlap",
                )
            shared = _shared_gpus(one["gpus"], other["gpus"])
            if shared:
                findings.problem(
                    f"sglang_instances[{index}].gpus",
                    f"{one['name']} and {other['name']} are both started on {shared}",
                    "GPUs of its own for each started instance",
                    "list disjoint gpus, or write state: stopped for one of them",
                    "gpu_overlap",
                )


def _shared_gpus(one: str | list[int], other: str | list[int]) -> str:
    if isinstance(one, str) or isinstance(other, str):
        return "GPUs that overlap (gpus: all takes every one)"
    both = sorted(set(one) & set(other))
    return ("GPU " if len(both) == 1 else "GPUs ") + ", ".join(map(str, both)) if both else ""


def _whole(value: t.Any, default: int) -> int:
    """A positive whole number as a value or text of digits, else the default."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _text_or_none(value: t.Any) -> str | None:
    return str(value) if isinstance(value, str) and value else None

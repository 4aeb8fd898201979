# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of the single keys of an instance and its host (private to the collection).

Each takes the value and its variable path, notes what is wrong and returns something usable in any case.
"""

from __future__ import annotations

import datetime
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._findings import (
    Findings,
    Table,
    did_you_mean,
    has_control,
    kind_of,
    shown,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_settings import CHECK_IDS, SETTINGS

DEFAULT_USER = "sglang"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000
NEED_KEYS = ("context", "concurrent")
EXCEPTION_KEYS = ("id", "reason", "until")

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_ENV = ("SGLANG_API_KEY", "OPENAI_API_KEY")


def name_of(given: Table, where: str, findings: Findings) -> str:
    """The name of an instance; ``unnamed`` where there is none."""
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


def absolute(value: t.Any, where: str, example: str, findings: Findings) -> str:
    """An absolute path on the host; empty where it is unusable."""
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


def user(value: t.Any, findings: Findings) -> str:
    """The name of a system user."""
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


def environment(env: Table, where: str, findings: Findings) -> dict[str, str]:
    """Environment variables as text."""
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


def exceptions(value: t.Any, where: str, today: datetime.date, findings: Findings) -> list[Table]:
    """Exceptions in force, one for each id, the last of equal ids; ``until`` as text or None."""
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


def gpus(value: t.Any, where: str, findings: Findings) -> str | list[int]:
    """``all``, or GPU indices in order."""
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
    return sorted(found) or "all"


def api_key_set(given: Table, where: str, findings: Findings) -> bool:
    """Whether a key is given; the key itself goes nowhere."""
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


def need(need: Table, where: str, findings: Findings) -> Table | None:
    """What must fit, or None."""
    findings.known_keys(need, where, NEED_KEYS)
    found = {}
    for key in NEED_KEYS:
        if need.get(key) is not None:
            found[key] = findings.integer(need[key], f"{where}.{key}", 1, 100_000_000, 32768 if key == "context" else 4)
    return found or None


def gate(gate: Table, where: str, findings: Findings) -> Table:
    """Settings of the gate's probes; what is wrong is left out, so that the default stands in for it."""
    findings.known_keys(gate, where, SETTINGS)
    found: Table = {}
    for key, value in gate.items():
        setting = SETTINGS.get(key)
        place = f"{where}.{key}"
        if setting is None:
            continue
        if key == "skip":
            found[key] = _skipped(value, place, findings)
        elif isinstance(setting.sample, str):
            found[key] = findings.text(value, place, setting.sample, setting.sample)
        else:
            number = _number(value, isinstance(setting.sample, int))
            if number is None or not setting.least <= number <= setting.most:
                kind = "a whole number" if isinstance(setting.sample, int) else "a number"
                findings.problem(
                    place,
                    f"is {shown(value)}",
                    f"{kind} from {setting.least:g} to {setting.most:g}: {setting.meaning}",
                    f"write {place}: {setting.sample}, or remove it",
                    "type",
                )
            else:
                found[key] = number
    longest = found.get("ready_timeout", SETTINGS["ready_timeout"].default)
    if found.get("ready_timeout_warm", 0) > longest:
        findings.problem(
            f"{where}.ready_timeout_warm",
            f"is {found.pop('ready_timeout_warm')}, longer than ready_timeout",
            f"at most {longest}: a start with warm JIT caches takes no longer than one that has to fill them",
            f"raise {where}.ready_timeout too, or remove {where}.ready_timeout_warm",
            "gate_limits",
        )
    return found


def _skipped(value: t.Any, where: str, findings: Findings) -> list[str]:
    found = []
    for index, entry in enumerate(findings.listing(value, where, "[right.long]")):
        if isinstance(entry, str) and entry in CHECK_IDS:
            found.append(entry)
        else:
            findings.problem(
                f"{where}[{index}]",
                f"is {shown(entry)}, no check of the gate",
                "one of " + ", ".join(CHECK_IDS),
                did_you_mean(str(entry), CHECK_IDS),
                "choice",
            )
    return found


def _number(value: t.Any, whole_only: bool) -> int | float | None:
    """A number, also as text (``-e`` on the command line passes text); None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 20 else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if whole_only:
        return int(value) if value == value // 1 else None
    return value


def listen(args: Table, where: str, findings: Findings) -> Table:
    """Address and port of the arguments; the defaults where they are unusable."""
    host, port = args.get("host", DEFAULT_HOST), args.get("port", DEFAULT_PORT)
    if not isinstance(host, str) or not host.strip() or has_control(host) or " " in host or "/" in host:
        findings.problem(
            f"{where}.args.host",
            f"is {shown(host)}",
            "an address such as 127.0.0.1 or 0.0.0.0",
            f"write {where}.args.host: {DEFAULT_HOST}",
            "type",
        )
        host = DEFAULT_HOST
    number = whole(port, -1)
    if not 1 <= number <= 65535:
        findings.problem(
            f"{where}.args.port",
            f"is {shown(port)}",
            "a whole number from 1 to 65535",
            f"write {where}.args.port: {DEFAULT_PORT}",
            "type",
        )
        number = DEFAULT_PORT
    return {"host": str(host), "port": number}


def model_path(value: t.Any, where: str, findings: Findings) -> str:
    """The folder of the checkpoint on the host; empty where it is missing."""
    if value is None:
        findings.problem(
            where,
            "is missing",
            "the folder of the checkpoint on the host",
            f"write {where}: /models/NAME",
            "model_path_missing",
        )
        return ""
    return absolute(value, where, "/models/NAME", findings)


def select_gpus(env: dict[str, str], chosen: str | list[int], where: str, findings: Findings) -> None:
    """Put the chosen GPUs into the environment; ``all`` leaves it as it is."""
    if isinstance(chosen, str):
        return
    if "CUDA_VISIBLE_DEVICES" in env:
        findings.problem(
            f"{where}.env.CUDA_VISIBLE_DEVICES",
            "is set beside gpus",
            "one of the two",
            "remove it from env; gpus sets it",
            "gpus_twice",
        )
    # Without PCI order CUDA may number the same cards in another way than nvidia-smi.
    env.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, chosen))


def check_gpu_count(instance: Table, where: str, findings: Findings) -> None:
    """As many GPUs as the arguments make ranks."""
    gpus = instance["gpus"]
    args = instance["args"]
    ranks = instance["tp_size"] * whole(args.get("pp_size"), 1)
    if not args.get("enable_dp_attention"):
        ranks *= whole(args.get("dp_size"), 1)
    if not isinstance(gpus, list) or not gpus or ranks == len(gpus):
        return
    said = f"names {len(gpus)} GPUs, but tp_size, pp_size and dp_size make {ranks} ranks"
    fix = f"write tp_size: {len(gpus)}, or list {ranks} GPUs"
    if ranks > len(gpus):
        findings.problem(f"{where}.gpus", said, "a GPU for each rank", fix, "gpu_count")
    else:
        findings.warn(f"{where}.gpus", said, "no GPU that stays idle", fix, "gpu_count")


def whole(value: t.Any, default: int) -> int:
    """A positive whole number as a value or text of digits, else the default."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default

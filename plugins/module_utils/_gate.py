# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: what must be seen of a running instance before it counts as serving (private to the collection).

Four groups of checks, in this order: ready, right, ordered, roomy. A later group is not asked when the server is not
ready, since each of its questions would only time out. The same code runs in the module ``sglang_gate`` and in the
verifier that systemd starts on the host.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_settings import DEFAULTS
from ansible_collections.blackwell.sglang.plugins.module_utils._http import Client
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run
from ansible_collections.blackwell.sglang.plugins.module_utils._unit_log import UnitLog


@dataclasses.dataclass
class Check:
    """One check. ``passed`` is None when it was skipped or nothing could be judged; ``evidence`` says why then."""

    id: str
    passed: bool | None
    expected: t.Any
    seen: t.Any
    evidence: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, t.Any]:
        """For the result, as docs/contracts/gate.schema.json says."""
        return {**dataclasses.asdict(self), "seconds": round(self.seconds, 3)}


@dataclasses.dataclass
class Context:
    """What the checks share. ``info`` is /server_info without secrets, filled by the first check that needs it."""

    run: Run
    places: Places
    instance: dict[str, t.Any]
    settings: dict[str, t.Any]
    client: Client
    invocation_id: str = ""
    log: UnitLog | None = None
    info: dict[str, t.Any] | None = None
    info_error: str = ""
    receipt: dict[str, t.Any] | None = None
    kv: dict[str, t.Any] | None = None
    kv_receipt: dict[str, t.Any] | None = None
    capacity: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    checkpoint: t.Any = None
    checkpoint_error: str = ""

    @property
    def model(self) -> str:
        """The name that requests must ask for."""
        return str(self.instance.get("served_model_name") or self.instance["model_path"])


CheckFunction = t.Callable[[Context], Check]


def settings_of(instance: dict[str, t.Any]) -> dict[str, t.Any]:
    """The instance's gate settings over the defaults.

    Raises:
        SglangError: a key that the gate does not know.
    """
    given = instance.get("gate") or {}
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise SglangError(
            f"unknown gate setting {', '.join(unknown)}",
            where=f"instance {instance['name']}, gate",
            expected=", ".join(sorted(DEFAULTS)),
            kind="bad_setting",
        )
    return {**DEFAULTS, **given}


def client_of(instance: dict[str, t.Any], api_key: str | None, timeout: float) -> Client:
    """A client for the instance as seen from its own host: a wildcard address is asked on loopback."""
    listen = instance.get("listen") or {}
    host = str(listen.get("host") or "127.0.0.1")
    if host in ("0.0.0.0", "*", ""):
        host = "127.0.0.1"
    if host in ("::", "[::]"):
        host = "::1"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return Client(f"http://{host}:{listen.get('port') or 30000}", api_key=api_key, timeout=timeout)


def run_checks(context: Context, functions: t.Sequence[CheckFunction]) -> list[Check]:
    """Run checks in order; one that raises fails with what it raised, and the others are still asked."""
    done = []
    for function in functions:
        begun = time.monotonic()
        name = check_id(function)
        if name in context.settings["skip"]:
            check = Check(name, None, "skipped by gate.skip", None, ["skipped on purpose: named in gate.skip"])
        else:
            try:
                check = function(context)
            except SglangError as exc:
                check = Check(name, False, exc.expected or "an answer", exc.what, [str(exc)])
        check.seconds = time.monotonic() - begun
        done.append(check)
    return done


def check_id(function: CheckFunction) -> str:
    """The id of a check: the group and the name of its function, ``right.logprobs`` for ``right_logprobs``."""
    return function.__name__.replace("_", ".", 1)


def verdict(checks: list[Check]) -> bool:
    """Whether the gate is passed: something was judged and nothing failed."""
    return any(check.passed for check in checks) and all(check.passed is not False for check in checks)


def proof_of(context: Context, checks: list[Check], passed: bool, quick: bool, by: str) -> dict[str, t.Any]:
    """The receipt of this gate, as proof.json keeps it under the InvocationID."""
    return {
        "version": 1,
        "instance": context.places.name,
        "unit": context.places.unit,
        "invocation_id": context.invocation_id,
        "boot_id": _service.boot_id(),
        "release": _service.linked_release(context.places),
        "passed": passed,
        "at": now(),
        "by": by,
        "quick": quick,
        "engine_version": (context.info or {}).get("version"),
        "kv": context.kv,
        "kv_receipt": context.kv_receipt,
        "capacity": context.capacity,
        "checks": [check.as_dict() for check in checks],
    }


def now() -> str:
    """This moment in UTC, as all state files write it."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

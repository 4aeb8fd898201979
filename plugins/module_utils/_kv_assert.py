# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kv_cache_assert does: the static judgement, the live one, and exceptions (private to the collection)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _checkpoint,
    _checkpoint_info,
    _kv_dtype,
    _kv_live,
    _unit_log,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._http import Client
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_args import Arguments, parse
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_exception import EXCEPTION, EXCEPTIONS, granted
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_verdict import Evidence, KvVerdict

# Options of the module and of the action plugin of its name; documented in the module.
ARGUMENTS: dict[str, t.Any] = {
    "path": {"type": "path"},
    "checkpoint": {"type": "dict"},
    "args": {"type": "raw"},
    "engine_version": {"type": "str"},
    "architecture": {"type": "str"},
    "attention_backend": {"type": "str"},
    "compute_capability": {"type": "str"},
    "kv_cache_dtype": {"type": "str", "default": "bfloat16"},
    "draft_kv_cache_dtype": {"type": "str"},
    "url": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "timeout": {"type": "float", "default": 5.0},
    "tp_size": {"type": "int", "default": 1},
    "pp_size": {"type": "int", "default": 1},
    "unit": {"type": "str"},
    "log_file": {"type": "path"},
    "pid": {"type": "int"},
    "receipt": {"type": "raw"},
    "exceptions": {"type": "list", "elements": "dict", "default": []},
}
MUTUALLY_EXCLUSIVE = [("path", "checkpoint"), ("unit", "log_file")]
REQUIRED_ONE_OF = [("path", "checkpoint", "architecture")]
# Options that name something on the host; without any of them there is nothing to be read there.
ON_THE_HOST = ("path", "url", "unit", "log_file")

# Reasons for which an engine cannot be asked from a bare host.
_NO_LIBRARY = ("no_requests", "no_jmespath")


@dataclasses.dataclass
class Outcome:
    """``result`` for exit_json, ``failure`` what to fail with (empty: nothing), ``warnings`` for the operator."""

    result: dict[str, t.Any]
    failure: str
    warnings: list[str]


def run(params: t.Mapping[str, t.Any], command: _unit_log.Run, check_mode: bool = False) -> Outcome:
    """Judge with a module's parameters.

    Raises:
        SglangError: an input that makes no sense.
    """
    warnings: list[str] = []
    checkpoint = _model(params)
    arguments = parse(params["args"])
    live_asked = any(params[name] for name in ("url", "unit", "log_file"))
    static = _static(params, checkpoint, arguments, live_asked)
    verdict, source = static, "static"
    if live_asked:
        live, asked = _live(params, checkpoint, arguments.given, command, check_mode=check_mode, warnings=warnings)
        verdict, source = _together(static, live, check_mode and not asked), "live"
        if check_mode and not asked:
            warnings.append("check mode: no running engine could be asked, so only the arguments were judged")
            source = "static"
    result: dict[str, t.Any] = {**verdict.as_dict(), "judged": source, "receipt": verdict.receipt, "excepted_by": None}
    if verdict.ok:
        return Outcome(result, "", warnings)
    exception = granted(params["exceptions"], verdict.verdict, warnings)
    if exception is not None:
        result["excepted_by"] = exception
        result["evidence"].append(
            Evidence("inventory", f"exception {exception['id']}: {exception['reason']}", "intent").as_dict()
        )
        return Outcome(result, "", warnings)
    return Outcome(result, _message(params["kv_cache_dtype"], verdict), warnings)


def _static(
    params: t.Mapping[str, t.Any], checkpoint: _checkpoint.Checkpoint, arguments: Arguments, live_asked: bool
) -> KvVerdict:
    """The judgement of the arguments; beside a running engine none are judged where none were given."""
    if live_asked and params["args"] is None:
        return KvVerdict("unproved", _kv_dtype.UNKNOWN, _kv_dtype.declared(checkpoint))
    return _kv_dtype.assert_static(
        checkpoint,
        arguments,
        params["engine_version"],
        params["attention_backend"],
        compute_capability=params["compute_capability"],
        ordered=params["kv_cache_dtype"],
        draft_dtype=params["draft_kv_cache_dtype"],
    )


def _model(params: t.Mapping[str, t.Any]) -> _checkpoint.Checkpoint:
    """The checkpoint from a folder, a registered result, a config.json as a dict, or an architecture alone."""
    given = params["checkpoint"]
    if params["path"]:
        checkpoint = _checkpoint.read(params["path"])
    elif given and "engine_auto_kv_cache_dtype" in given:
        checkpoint = _checkpoint_info.rebuilt(given)
    elif given:
        checkpoint = _checkpoint.from_config(given)
    else:
        checkpoint = _checkpoint.from_config({})
        checkpoint.known_auto = (
            str(_kv_dtype.version_of(params["engine_version"])),
            _kv_dtype.UNKNOWN,
            "No checkpoint was given.",
        )
    if params["architecture"]:
        checkpoint.config = {**checkpoint.config, "architectures": [params["architecture"]]}
    return checkpoint


def _live(
    params: t.Mapping[str, t.Any],
    checkpoint: _checkpoint.Checkpoint,
    arguments: dict[str, t.Any],
    command: _unit_log.Run,
    *,
    check_mode: bool,
    warnings: list[str],
) -> tuple[KvVerdict, bool]:
    """The live verdict, and whether anything of a running engine could be read."""
    info, silence = None, ""
    if params["url"]:
        info, silence = ask(Client(params["url"], params["api_key"], params["timeout"]), check_mode, warnings)
    log: _unit_log.UnitLog | None = None
    try:
        if params["unit"]:
            log = _unit_log.read_unit(command, params["unit"])
        elif params["log_file"]:
            log = _unit_log.read_file(params["log_file"], params["pid"])
    except SglangError as exc:
        if not check_mode:
            raise
        warnings.append(str(exc))
    verdict = _kv_live.prove(
        params["kv_cache_dtype"],
        checkpoint,
        log,
        info,
        tp_size=params["tp_size"],
        engine_version=params["engine_version"],
        receipt=_receipt(params["receipt"]),
        pp_size=params["pp_size"],
        draft_ordered=params["draft_kv_cache_dtype"],
        arguments=arguments,
        silence=silence,
    )
    return verdict, info is not None or bool(log and log.lines)


def ask(client: Client, check_mode: bool, warnings: list[str]) -> tuple[dict[str, t.Any] | None, str]:
    """The JSON of /server_info, or why there is none.

    Raises:
        SglangError: a library is missing and this is no check mode.
    """
    try:
        reply = client.get("/server_info")
        if reply.status == 404:  # the name before 0.5.5
            reply = client.get("/get_server_info")
    except SglangError as exc:
        if exc.kind in _NO_LIBRARY and not check_mode:
            raise
        if exc.kind in _NO_LIBRARY:
            warnings.append(str(exc))
        return None, str(exc)
    if reply.status in (401, 403):
        return None, f"{client.base_url}/server_info answers {reply.status}: give the api_key of the engine"
    if not reply.ok or not isinstance(reply.json, dict):
        return None, f"{client.base_url}/server_info answers {reply.status} without usable JSON"
    return reply.json, ""


def _receipt(given: t.Any) -> dict[str, t.Any] | None:
    """A kept receipt: a dict, or the path of a JSON file that is one or holds one under ``kv_receipt`` or
    ``receipt``.
    """
    if not given:
        return None
    data = given
    if isinstance(given, str):
        try:
            data = json.loads(pathlib.Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
    if not isinstance(data, dict):
        return None
    inner = data.get("kv_receipt") or data.get("receipt")
    return dict(inner) if isinstance(inner, dict) else data


def _together(static: KvVerdict, live: KvVerdict, blind: bool) -> KvVerdict:
    """Live proof outranks what the arguments promise; where it is missing their fault still counts."""
    if blind:
        return KvVerdict(
            static.verdict, static.effective_dtype, [*static.evidence, *live.evidence], static.recommendation
        )
    evidence = [*static.evidence, *live.evidence]
    if live.verdict == "unproved" and static.verdict in ("violated", "impossible"):
        return KvVerdict(static.verdict, static.effective_dtype, evidence, static.recommendation)
    advice = live.recommendation
    if live.ok and static.verdict == "violated":
        evidence.append(Evidence("arguments", "the next start with these arguments would not be as ordered", "risk"))
        advice = static.recommendation
    elif live.verdict == "violated":
        advice = static.recommendation or live.recommendation
    return KvVerdict(live.verdict, live.effective_dtype, evidence, advice, live.receipt)


def _message(ordered: str, verdict: KvVerdict) -> str:
    decided = [e for e in verdict.evidence if e.weight in ("proves", "refutes")] or [
        e for e in verdict.evidence if e.weight != "risk"
    ]
    says = "; ".join(f"{item.source}: {item.says}" for item in decided[:6])
    head = {
        "violated": f"the KV cache is {verdict.effective_dtype}, not {ordered}",
        "impossible": f"the KV cache cannot be {ordered} here",
        "unproved": f"nothing proves that the KV cache is {ordered}",
    }[verdict.verdict]
    fix = f" Set {verdict.recommendation}." if verdict.recommendation else ""
    exception = EXCEPTION if verdict.verdict == "violated" else EXCEPTIONS[verdict.verdict][1]
    return f"{head} ({says}).{fix} To go on nonetheless, grant the exception {exception} with a reason."

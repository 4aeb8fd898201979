# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate, third group: is what runs what was ordered (private to the collection)."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_exception, _kv_live, _unit_log
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context

# Fields whose value must be what was written; a difference fails the gate.
MUST_MATCH = (
    "tp_size",
    "pp_size",
    "dp_size",
    "ep_size",
    "context_length",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "moe_runner_backend",
    "fp4_gemm_runner_backend",
    "fp8_gemm_runner_backend",
    "quantization",
    "kv_cache_dtype",
    "speculative_algorithm",
    "served_model_name",
    "mem_fraction_static",
    "max_running_requests",
    "reasoning_parser",
    "tool_call_parser",
)
# Values that the engine is known to rewrite without changing what was meant (engine facts 2.1 and 2.3).
ALIASES: dict[str, tuple[frozenset[str], ...]] = {
    "kv_cache_dtype": (frozenset({"bf16", "bfloat16"}),),
    "speculative_algorithm": (frozenset({"NEXTN", "EAGLE"}),),
}
# Never kept, shown or compared: secrets, and fields that repeat the whole command line.
SECRET_FIELDS = ("api_key", "admin_api_key", "ssl_keyfile_password", "launch_command", "hf_token")


def fetch_info(context: Context) -> dict[str, t.Any] | None:
    """/server_info without secrets, fetched once; None when the server does not give it (``info_error`` says why)."""
    if context.info is None and not context.info_error:
        try:
            reply = context.client.get("/server_info", timeout=20.0)
            if reply.status == 404:  # versions before the alias
                reply = context.client.get("/get_server_info", timeout=20.0)
        except SglangError as exc:
            context.info_error = str(exc)
            return None
        if not reply.ok or not isinstance(reply.json, dict):
            context.info_error = f"/server_info answers {reply.status}"
            return None
        context.info = without_secrets(reply.json)
    return context.info


def without_secrets(info: dict[str, t.Any]) -> dict[str, t.Any]:
    """A copy without the fields of :data:`SECRET_FIELDS`, at the top and in each internal state."""
    clean = {key: value for key, value in info.items() if key not in SECRET_FIELDS}
    states = clean.get("internal_states")
    if isinstance(states, list):
        clean["internal_states"] = [
            {key: value for key, value in state.items() if key not in SECRET_FIELDS}
            for state in states
            if isinstance(state, dict)
        ]
    return clean


def read_config(context: Context) -> dict[str, t.Any] | None:
    """The checkpoint's config.json, read once; None when it cannot be read (``checkpoint_error`` says why)."""
    if context.checkpoint is None and not context.checkpoint_error:
        path = pathlib.Path(context.instance["model_path"], "config.json")
        try:
            context.checkpoint = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            context.checkpoint_error = f"{path}: {exc}"
    return context.checkpoint if isinstance(context.checkpoint, dict) else None


def read_log(context: Context) -> _unit_log.UnitLog | None:
    """The log of this start, read once; None when the journal cannot be read or the unit has another start by now."""
    if context.log is None:
        try:
            log = _unit_log.read_unit(context.run, context.places.unit)
        except SglangError:
            return None
        context.log = log if log.invocation_id == context.invocation_id else None
    return context.log


def ordered_arguments(context: Context) -> Check:
    """The running server has the arguments that were written."""
    info = fetch_info(context)
    if info is None:
        return Check("ordered.arguments", False, "/server_info", context.info_error)
    wanted = dict(context.instance.get("args") or {})
    wrong: list[str] = []
    notes: list[str] = []
    for field, value in sorted(wanted.items()):
        if field not in info or same_value(field, value, info[field]):
            continue
        text = f"{field}: {value!r} was written, {info[field]!r} runs"
        (wrong if field in MUST_MATCH else notes).append(text)
    if str(info.get("model_path")) != str(context.instance["model_path"]):
        wrong.append(f"model_path: {context.instance['model_path']} was written, {info.get('model_path')} runs")
    expected = {field: wanted[field] for field in MUST_MATCH if field in wanted}
    seen = {field: info.get(field) for field in expected}
    notes = [f"the engine changed {note}" for note in notes]
    return Check("ordered.arguments", not wrong, expected, seen, wrong + notes)


def ordered_version(context: Context) -> Check:
    """The engine is of the version that the stack names."""
    info = fetch_info(context)
    wanted = context.instance.get("engine_version")
    seen = (info or {}).get("version")
    if not wanted:
        return Check("ordered.version", None, "the stack names no version", seen, ["nothing to compare with"])
    one, other = EngineVersion.try_parse(str(wanted)), EngineVersion.try_parse(str(seen))
    return Check("ordered.version", one is not None and one == other, wanted, seen or context.info_error)


def ordered_kv(context: Context) -> Check:
    """The dtype of the KV cache is proved, by the log of this start and by arithmetic."""
    info = fetch_info(context)
    config = read_config(context)
    if config is None:
        return Check("ordered.kv", False, "a readable config.json", context.checkpoint_error)
    verdict = _kv_live.prove(
        str(context.instance.get("kv_cache_dtype") or "auto"),
        config,
        read_log(context),
        info,
        tp_size=int(context.instance.get("tp_size") or 1),
        engine_version=context.instance.get("engine_version"),
        receipt=context.receipt,
        arguments=context.instance.get("args") or {},
        silence=context.info_error,
    )
    context.kv = verdict.as_dict()
    context.kv_receipt = verdict.receipt or None
    evidence = [f"{item.source}: {item.says} ({item.weight})" for item in verdict.evidence]
    if verdict.recommendation:
        evidence.append(verdict.recommendation)
    expected = f"{context.instance.get('kv_cache_dtype') or 'auto'}, proved"
    warnings: list[str] = []
    exception = None
    if not verdict.ok:
        exception = _kv_exception.granted(context.instance.get("exceptions") or [], verdict.verdict, warnings)
        evidence += warnings
    if exception:
        evidence.append(f"lifted by exception {exception['id']}: {exception['reason']}")
    seen = f"{verdict.effective_dtype}: {verdict.verdict}"
    return Check("ordered.kv", verdict.ok or exception is not None, expected, seen, evidence)


def same_value(field: str, written: t.Any, runs: t.Any) -> bool:
    """Whether two values of a field mean the same."""
    if written == runs or str(written) == str(runs):
        return True
    return any({str(written), str(runs)} <= group for group in ALIASES.get(field, ()))


CHECKS: tuple[t.Callable[[Context], Check], ...] = (ordered_version, ordered_arguments, ordered_kv)

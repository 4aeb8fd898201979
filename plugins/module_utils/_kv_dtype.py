# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV cache's dtype before a start: what ``auto`` becomes, how to spell an order, whether arguments fulfil it
(private).
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _engine_quant
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion, in_range
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_args import Arguments, parse
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_verdict import Evidence, KvVerdict

# What engine_auto answers besides dtypes.
UNRECOGNISED, REFUSED, UNKNOWN = "unrecognised", "refused", "unknown"


def version_of(text: str | None) -> EngineVersion:
    """The version whose rules apply; the newest that the tables know where none is given.

    Raises:
        SglangError: the text is no version.
    """
    try:
        return EngineVersion.parse(text or kv.DEFAULT_VERSION)
    except ValueError as exc:
        raise SglangError(
            str(exc), where="engine_version", fix="write a version such as 0.5.12.post1, or main"
        ) from exc


def capability(value: str | float | None) -> int | None:
    """The major number of a compute capability: ``12.0``, ``120``, ``sm_120a`` and 12 are all 12.

    Raises:
        SglangError: no number is in it.
    """
    if value is None or value == "":
        return None
    match = re.fullmatch(r"(?:sm_?)?(\d+)(?:\.(\d+))?[af]?", str(value).strip().lower())
    if match is None:
        raise SglangError(
            f"{value!r} is no compute capability",
            where="compute_capability",
            expected="for instance 12.0",
            fix="write 12.0",
        )
    number = int(match[1])
    return number // 10 if match[2] is None and number >= 50 else number


def is_dsa(checkpoint: Checkpoint, version: EngineVersion) -> bool:
    """Whether a version treats a model as DeepSeek sparse attention: its class is known so and it has index_topk."""
    if checkpoint.text.get("index_topk") is None and checkpoint.config.get("index_topk") is None:
        return False
    return any(
        arch == name and in_range(version, since) for arch in checkpoint.architectures for name, since in kv.DSA_ARCHS
    )


def engine_auto(
    checkpoint: Checkpoint,
    engine_version: str | None = None,
    attention_backend: str | None = None,
    compute_capability: str | float | None = None,
) -> tuple[str, str]:
    """What ``--kv-cache-dtype auto`` becomes.

    Returns:
        The dtype (``bfloat16``, ``float16``, ``fp8_e4m3`` ...), ``unrecognised`` where the version does not read the
        quantization, ``refused`` where it raises, or ``unknown``; and sentences that say why.
    """
    version = version_of(engine_version)
    dtype, notes = _auto(checkpoint, version, attention_backend, capability(compute_capability))
    return dtype, " ".join(notes)


def _auto(
    checkpoint: Checkpoint, version: EngineVersion, backend: str | None, major: int | None
) -> tuple[str, list[str]]:
    notes: list[str] = []
    if not kv.known(version):
        notes.append(f"SGLang {version} is outside the versions whose source was read ({kv.TABLE_RANGE}).")
        return UNKNOWN, notes
    rule = _architecture_rule(checkpoint, version, backend, major)
    if rule is not None:
        return rule
    if checkpoint.known_auto is not None and not checkpoint.declared:
        made_for, dtype, why = checkpoint.known_auto
        if made_for == str(version):
            return dtype, [why]
        return UNKNOWN, [f"The registered result was made for SGLang {made_for}, not for {version}."]
    reading = _engine_quant.read(checkpoint, version)
    notes += [_sentence(note) for note in reading.notes]
    if reading.refused:
        return REFUSED, [*notes, f"SGLang {version} refuses the checkpoint: {reading.refused}."]
    model_dtype, why = serving_dtype(checkpoint)
    if reading.method is None:
        if reading.seen:
            where = reading.declaration.file if reading.declaration else "a file that it does not open"
            return UNRECOGNISED, [
                *notes,
                f"SGLang {version} does not read the quantization that is declared in {where}.",
            ]
        return model_dtype, [*notes, f"No file declares a quantization, so auto is the model's dtype. {why}".strip()]
    blind = _blind_class(checkpoint, version)
    source = reading.kv_declaration.file if reading.kv_declaration else "the checkpoint"
    if blind and (reading.kv or "").upper() == "FP8":
        return model_dtype, [
            *notes,
            f"{source} declares an FP8 KV cache, but in SGLang {version} the class {blind} keeps no quantization "
            f"configuration where auto looks, so auto is the model's dtype. {why}".strip(),
        ]
    if (reading.kv or "").upper() == "FP8":
        return "fp8_e4m3", [
            *notes,
            f"{source} declares an FP8 KV cache, and SGLang {version} makes auto fp8_e4m3 of it.",
        ]
    declared = reading.kv_declaration.kv if reading.kv_declaration else "none"
    says = (
        "declares no quantized KV cache"
        if declared == "none"
        else f"declares {declared} for the KV cache, of which auto makes nothing"
    )
    return model_dtype, [*notes, f"{source} {says}: auto is the model's dtype in SGLang {version}. {why}".strip()]


def _architecture_rule(
    checkpoint: Checkpoint, version: EngineVersion, backend: str | None, major: int | None
) -> tuple[str, list[str]] | None:
    """Rules that come before the checkpoint's word."""
    for arch in checkpoint.architectures:
        row = kv.ARCH_AUTO.get(arch)
        if row is not None:
            if not in_range(version, row.range):
                return UNKNOWN, [f"SGLang {version} does not have the model class {arch}."]
            return row.value, [
                f"SGLang sets auto to {row.value} for {arch}, whatever the checkpoint says ({row.source})."
            ]
    if backend == "tokenspeed_mla":
        return REFUSED, ["The attention backend tokenspeed_mla requires fp8_e4m3 and raises ValueError for auto."]
    if is_dsa(checkpoint, version):
        if checkpoint.config.get("learnable_sink"):
            return "bfloat16", ["Learnable attention sinks of DeepSeek sparse attention require a bfloat16 KV cache."]
        if major is None:
            return UNKNOWN, [
                "For DeepSeek sparse attention auto is fp8_e4m3 from compute capability 10 on and bfloat16 below; "
                "none was given."
            ]
        forced = (kv.pick(kv.DSA_RULE, version) or kv.DSA_RULE[0]).value == "forced"
        if major >= 10:
            return "fp8_e4m3", [f"For DeepSeek sparse attention on SM{major} SGLang {version} makes auto fp8_e4m3."]
        if not forced:
            return "bfloat16", [f"For DeepSeek sparse attention on SM{major} SGLang {version} makes auto bfloat16."]
    if _is_m3_native(checkpoint, version) and (major is None or major >= 10):
        return "fp8_e4m3", [f"MiniMax-M3.1 NVFP4 on Blackwell requires fp8_e4m3 ({kv.M3_NATIVE.source})."]
    return None


def serving_dtype(checkpoint: Checkpoint) -> tuple[str, str]:
    """The dtype in which the engine runs a model whose ``--dtype`` is auto, and a remark where that surprises.

    Source: configs/model_config.py _get_and_verify_dtype; gpt-oss in MXFP4 is set to bfloat16 by its own override.
    """
    dtype = checkpoint.model_dtype
    if dtype in (None, "float32"):
        if (checkpoint.model_type or "").startswith("gemma"):
            return "bfloat16", "The engine runs Gemma models given in float32 as bfloat16."
        if any(arch.startswith("GptOss") for arch in checkpoint.architectures) or _method_is(checkpoint, "mxfp4"):
            return "bfloat16", "The configuration names no dtype; the engine runs MXFP4 models as bfloat16."
        if dtype is None:
            return (
                "float16",
                "The configuration names no dtype; the engine takes that for float32 and runs it as float16.",
            )
        return "float16", "The engine runs models given in float32 as float16."
    return dtype or UNKNOWN, ""


def _method_is(checkpoint: Checkpoint, method: str) -> bool:
    return any(item.method == method for item in checkpoint.declared)


def _blind_class(checkpoint: Checkpoint, version: EngineVersion) -> str | None:
    for row in kv.NO_QUANT_CONFIG:
        if in_range(version, row.range):
            for arch in checkpoint.architectures:
                if arch in row.value:
                    return arch
    return None


def _is_m3_native(checkpoint: Checkpoint, version: EngineVersion) -> bool:
    if not in_range(version, kv.M3_NATIVE.range) or not any("MiniMaxM3" in a for a in checkpoint.architectures):
        return False
    for item in checkpoint.declared:
        data = item.section.data
        if (
            str(data.get("moe_quant_algo", "")).upper() == "NVFP4"
            and data.get("moe_quant_format") == "nvfp4-pack-quantized"
            and (item.method == "mxfp8" or item.weight_algo == "MXFP8")
        ):
            return True
    return False


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


# --- how to spell an order -------------------------------------------------------------------------------------------


def accepted(
    checkpoint: Checkpoint,
    version: EngineVersion,
    backends: t.Collection[str] = (),
    major: int | None = None,
) -> tuple[tuple[str, ...], list[str]]:
    """The values of --kv-cache-dtype that a version, the backends and a model all accept, and what narrows them."""
    row = kv.pick(kv.KV_CHOICES, version)
    values: tuple[str, ...] = row.value if row else ()
    why = [f"SGLang {version} accepts {', '.join(values)}"]
    limits: list[tuple[tuple[str, ...], str]] = []
    archs = checkpoint.architectures
    if "DeepseekV4ForCausalLM" in archs:
        found = kv.pick(kv.DSV4_VALUES, version)
        limits.append((("auto", *(found.value if found else ())), "DeepSeek-V4"))
    if _is_m3_native(checkpoint, version) and (major is None or major >= 10):
        limits.append((("auto", *kv.M3_NATIVE.value), "MiniMax-M3.1 NVFP4 on Blackwell"))
    if is_dsa(checkpoint, version):
        forced = (kv.pick(kv.DSA_RULE, version) or kv.DSA_RULE[0]).value == "forced"
        if not (forced and (major or 0) < 10):
            fp8_only = forced and (major or 0) >= 10
            limits.append(
                (
                    ("auto", "fp8_e4m3") if fp8_only else ("auto", *kv.DSA_VALUES[0].value),
                    "DeepSeek sparse attention",
                )
            )
    chosen = set(backends)
    if (
        not chosen
        and (major == 10 or major is None)
        and any(a in kv.TRTLLM_MLA_DEFAULT for a in archs)
        and not is_dsa(checkpoint, version)
    ):
        # Where none is named, SM100 takes trtllm_mla for these, so a spelling that suits it too is the safe one.
        chosen = {"trtllm_mla"} if major == 10 else set()
    for backend in sorted(chosen):
        rows = kv.BACKEND_VALUES.get(backend)
        found = kv.pick(rows, version) if rows else None
        if found is not None:
            limits.append((found.value, f"the attention backend {backend}"))
    for allowed, who in limits:
        values = tuple(value for value in values if value in allowed)
        why.append(f"{who} accepts {', '.join(allowed)}")
    return values, why


def recommend(
    ordered: str,
    checkpoint: Checkpoint,
    version: EngineVersion,
    backends: t.Collection[str] = (),
    major: int | None = None,
) -> tuple[str | None, list[str]]:
    """The value of --kv-cache-dtype that yields ``ordered``, or None where there is none, and why.

    Source: section C3 of the quantization facts, as tables in :mod:`_engine.kv`. ``bf16`` comes before ``bfloat16``
    since trtllm_mla takes the short form alone; DeepSeek-V4 takes the long one alone.
    """
    values, why = accepted(checkpoint, version, backends, major)
    wanted = canonical(ordered)
    spellings = [
        value for value in ("bf16", "bfloat16", *values) if value in values and kv.VALUE_DTYPE.get(value) == wanted
    ]
    if spellings:
        return spellings[0], why
    backend = next(iter(backends), None)
    dtype, notes = _auto(checkpoint, version, backend, major)
    if dtype == wanted and "auto" in values:
        return "auto", [*why, *notes]
    return None, [*why, *notes]


def canonical(dtype: str) -> str:
    """The dtype that a spelling stands for."""
    word = dtype.strip().lower()
    return kv.VALUE_DTYPE.get(word, word)


# --- whether arguments fulfil an order -----------------------------------------------------------------------------


def assert_static(
    checkpoint: Checkpoint,
    args: t.Any = None,
    engine_version: str | None = None,
    attention_backend: str | None = None,
    *,
    compute_capability: str | float | None = None,
    ordered: str = "bfloat16",
    draft_dtype: str | None = None,
) -> KvVerdict:
    """Judge the arguments of an engine before it starts.

    Args:
        checkpoint: what it will load.
        args: its arguments: a list of words, a string, a dict by field name, or parsed :class:`Arguments`.
        engine_version: for instance ``0.5.12.post1``; the newest known where not given.
        attention_backend: as resolved; arguments that name backends count as well.
        compute_capability: of the GPUs.
        ordered: the dtype that must come out.
        draft_dtype: dtype of the draft model's KV cache where it is known from elsewhere.
    """
    version = version_of(engine_version)
    arguments = args if isinstance(args, Arguments) else parse(args)
    major = capability(compute_capability)
    backends = {b for b in (attention_backend, *arguments.attention_backends()) if b}
    wanted = canonical(ordered)
    value, evidence = arguments.kv_cache_dtype or "auto", declared(checkpoint)
    values, why = accepted(checkpoint, version, backends, major)
    best, best_why = recommend(wanted, checkpoint, version, backends, major)
    recommendation = as_argument(best)
    known = kv.known(version)
    if arguments.kv_cache_dtype is None or value == "auto":
        dtype, notes = _auto(checkpoint, version, attention_backend or next(iter(sorted(backends)), None), major)
        evidence.append(
            Evidence(
                "arguments", f"--kv-cache-dtype is {'auto' if arguments.kv_cache_dtype else 'not given'}", "intent"
            )
        )
        evidence.append(Evidence(f"SGLang {version}", " ".join(notes), "intent"))
    else:
        dtype = kv.VALUE_DTYPE.get(value, UNKNOWN)
        evidence.append(Evidence("arguments", f"--kv-cache-dtype {value}", "intent"))
        if known and value not in values:
            evidence.append(Evidence(f"SGLang {version}", f"{value} is not accepted: {'; '.join(why)}", "intent"))
            dtype = REFUSED
    if known and best is None and dtype != wanted:
        evidence.append(Evidence(f"SGLang {version}", f"{wanted} is impossible here: {' '.join(best_why)}", "intent"))
        return KvVerdict("impossible", dtype, evidence, "")
    verdict = "ok" if dtype == wanted else "unproved" if dtype == UNKNOWN else "violated"
    if dtype in (UNRECOGNISED, REFUSED):
        verdict = "violated" if dtype == REFUSED else "unproved"
    if verdict == "ok":
        verdict = _draft(arguments, wanted, draft_dtype, version, evidence)
    return KvVerdict(verdict, dtype, evidence, recommendation if verdict != "ok" or value == "auto" else "")


def as_argument(value: str | None) -> str:
    """A recommended value, as words for an operator."""
    if value is None:
        return ""
    return "leave --kv-cache-dtype out (auto)" if value == "auto" else f"--kv-cache-dtype {value}"


def declared(checkpoint: Checkpoint) -> list[Evidence]:
    """What the checkpoint tells of the risk."""
    found = [
        Evidence(f"{item.file}:{item.kv_key}", f"declares the KV cache as {item.kv}", "risk")
        for item in checkpoint.declared
        if item.kv != "none" and item.kv_key
    ]
    if found and checkpoint.scales is not None and checkpoint.scales.state != "unknown":
        found.append(Evidence("scale tensors", f"{checkpoint.scales.found} found, {checkpoint.scales.state}", "risk"))
    return found or [Evidence("checkpoint", "declares no quantized KV cache", "risk")]


def _draft(
    arguments: Arguments, wanted: str, draft_dtype: str | None, version: EngineVersion, evidence: list[Evidence]
) -> str:
    """The verdict on the draft model's cache, where speculation is on."""
    if not arguments.speculative:
        return "ok"
    given = draft_dtype or arguments.draft_kv_cache_dtype
    if given is None or (given == "auto" and draft_dtype is None and arguments.draft_kv_cache_dtype is None):
        evidence.append(Evidence("arguments", "the draft model's KV cache follows the target's", "intent"))
        return "ok"
    if draft_dtype is None and not in_range(version, kv.DRAFT_FLAG.range):
        evidence.append(Evidence(f"SGLang {version}", f"has no {kv.DRAFT_FLAG.value}", "intent"))
        return "violated"
    dtype = canonical(given)
    evidence.append(Evidence("arguments", f"the draft model's KV cache is {dtype}", "intent"))
    if dtype == "auto":
        return "unproved"
    return "ok" if dtype == wanted else "violated"

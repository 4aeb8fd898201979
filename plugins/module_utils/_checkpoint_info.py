# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of hf_quant_config_info: what the files declare and what an engine makes of it (private)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _engine_quant, _kv_dtype
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import TEXT_KEYS, Checkpoint, from_config
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint_quant import (
    KV_KEYS,
    Declaration,
    kv_algorithm,
    kv_word,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_layers import kv_scale_tensors

# Entries of an exclude list that a conflict shows; the lists have hundreds.
_SHOWN = 5
_LONG = (
    "quantization_config",
    "compression_config",
    "vision_config",
    "audio_config",
    "id2label",
    "label2id",
    "auto_map",
)


def info(
    checkpoint: Checkpoint,
    engine_version: str | None = None,
    attention_backend: str | None = None,
    compute_capability: str | float | None = None,
) -> dict[str, t.Any]:
    """Everything that hf_quant_config_info returns.

    Raises:
        SglangError: engine_version or compute_capability cannot be read.
    """
    version = _kv_dtype.version_of(engine_version)
    reading = _engine_quant.read(checkpoint, version)
    auto, why = _kv_dtype.engine_auto(checkpoint, engine_version, attention_backend, compute_capability)
    main = _main(checkpoint, reading)
    kv_said = _kv_declaration(checkpoint, reading)
    conflicts = _conflicts(checkpoint)
    result: dict[str, t.Any] = {
        "weight_algo": main.weight_algo if main else None,
        "weight_algos": _histogram(checkpoint, main),
        "group_size": main.group_size if main else None,
        "kv_cache_algo": _kv_algo(kv_said, reading),
        "kv_cache_sources": [f"{d.file}:{d.kv_key}" for d in checkpoint.declared if d.kv_key],
        "conflicts": conflicts,
        "kv_scales": _scales(checkpoint),
        "exclude_modules": list(main.exclude) if main else [],
        "producer": next((d.producer for d in ([main] if main else []) + checkpoint.declared if d.producer), None),
        "architectures": checkpoint.architectures,
        "model_type": checkpoint.model_type,
        "model_dtype": checkpoint.model_dtype,
        "folder": checkpoint.path,
        "config": essential(checkpoint.config),
        "engine_version": str(version),
        "engine_auto_kv_cache_dtype": auto,
        "quantization_argument": reading.argument,
    }
    result["explanation"] = _explain(checkpoint, result, why)
    if checkpoint.files is not None:
        result["files"] = checkpoint.files.as_dict()
    return result


def essential(config: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """config.json without what may be long and says nothing on the KV cache, so that a registered result carries it
    on.
    """
    return {
        key: essential(value) if key in TEXT_KEYS and isinstance(value, dict) else value
        for key, value in config.items()
        if key not in _LONG and not (isinstance(value, dict) and key.endswith(("vision_config", "audio_config")))
    }


def rebuilt(result: t.Mapping[str, t.Any]) -> Checkpoint:
    """A checkpoint from the registered result of hf_quant_config_info."""
    config = result.get("config")
    checkpoint = from_config(config if isinstance(config, dict) else {"architectures": result.get("architectures")})
    checkpoint.known_auto = (
        str(result.get("engine_version")),
        str(result.get("engine_auto_kv_cache_dtype")),
        str(result.get("explanation")),
    )
    return checkpoint


def _main(checkpoint: Checkpoint, reading: _engine_quant.Reading) -> Declaration | None:
    """The declaration whose weights count: the one that the engine reads, else the first that names an algorithm."""
    if reading.declaration is not None:
        return reading.declaration
    named = [item for item in checkpoint.declared if item.weight_algo]
    return named[0] if named else next(iter(checkpoint.declared), None)


def _kv_declaration(checkpoint: Checkpoint, reading: _engine_quant.Reading) -> Declaration | None:
    """The declaration whose KV algorithm counts: where the files disagree, the one that the engine uses."""
    if reading.kv_declaration is not None and (reading.method is not None or reading.refused):
        return reading.kv_declaration
    said = [item for item in checkpoint.declared if item.kv != "none"]
    return said[0] if said else next(iter(checkpoint.declared), None)


def _kv_algo(said: Declaration | None, reading: _engine_quant.Reading) -> str:
    if said is None:
        return "none"
    if said is reading.kv_declaration and reading.kv and _disagree(said):  # two keys of one file: what the engine took
        return kv_algorithm(reading.kv)
    return said.kv


def _histogram(checkpoint: Checkpoint, main: Declaration | None) -> dict[str, int]:
    if main is None or main.weight_algo != "MIXED_PRECISION":
        return {}
    # ModelOpt 0.19 to 0.27 keep the map of layers in quant_cfg.json.
    return main.weight_algos or next((d.weight_algos for d in checkpoint.declared if d.weight_algos), {})


def _scales(checkpoint: Checkpoint) -> dict[str, t.Any]:
    expected = kv_scale_tensors(checkpoint.text)
    if checkpoint.scales is None:
        return {"state": "unknown", "found": 0, "expected": expected}
    return {"state": checkpoint.scales.state, "found": checkpoint.scales.found, "expected": expected}


def _conflicts(checkpoint: Checkpoint) -> list[dict[str, t.Any]]:
    """Keys on which the files that declare a quantization disagree."""
    speaking = [item for item in checkpoint.declared if item.weight_algo or item.method or item.kv != "none"]
    found: list[dict[str, t.Any]] = []
    if len(speaking) > 1:
        for key, values in (
            ("weight_algo", {d.file: d.weight_algo for d in speaking}),
            ("group_size", {d.file: d.group_size for d in speaking if d.group_size is not None}),
            ("kv_cache_algo", {d.file: d.kv for d in speaking}),
        ):
            if len(set(map(str, values.values()))) > 1:
                found.append({"key": key, "values": values})
        lists = {d.file: d.exclude for d in speaking if d.exclude}
        if len({frozenset(entries) for entries in lists.values()}) > 1:
            common = frozenset.intersection(*(frozenset(entries) for entries in lists.values()))
            only = {file: sorted(set(entries) - common) for file, entries in lists.items()}
            found.append({"key": "exclude_modules", "values": {f: _short(entries) for f, entries in only.items()}})
    for item in speaking:
        both = {key: item.section.raw(key) for key in KV_KEYS}
        if all(value is not None for value in both.values()) and _disagree(item):
            found.append({"key": "kv_cache", "values": {f"{item.file}:{k}": v for k, v in both.items()}})
    return found


def _short(entries: list[str]) -> list[str]:
    more = len(entries) - _SHOWN
    return entries if more <= 0 else [*entries[:_SHOWN], f"and {more} more"]


def _disagree(item: Declaration) -> bool:
    return len({kv_word(item.section, key) for key in KV_KEYS}) > 1


def _explain(checkpoint: Checkpoint, result: dict[str, t.Any], why: str) -> str:
    weights = result["weight_algo"]
    text = [f"Weights: {weights or 'not quantized, as far as the files say'}."]
    if result["weight_algos"]:
        text[0] = text[0][:-1] + " (" + ", ".join(f"{a}: {n}" for a, n in sorted(result["weight_algos"].items())) + ")."
    if result["kv_cache_sources"]:
        text.append(f"KV cache: {result['kv_cache_algo']}, declared by {', '.join(result['kv_cache_sources'])}.")
    else:
        text.append("KV cache: no file declares a quantization.")
    for conflict in result["conflicts"]:
        says = ", ".join(f"{file} says {value}" for file, value in conflict["values"].items())
        text.append(f"The files disagree on {conflict['key']}: {says}.")
    scales = result["kv_scales"]
    if result["kv_cache_algo"] != "none":
        text.append(
            {
                "absent": "There are no scale tensors for the KV cache: a quantized cache would use 1.0.",
                "unit": f"All {scales['found']} KV scales are 1.0: nothing was calibrated.",
                "calibrated": f"{scales['found']} KV scales ({scales['expected']} expected) are there and calibrated.",
                "unknown": "Whether the checkpoint has KV scales could not be read.",
            }[scales["state"]]
        )
    text.append(
        f"--kv-cache-dtype auto in SGLang {result['engine_version']}: {result['engine_auto_kv_cache_dtype']}. {why}"
    )
    if result["quantization_argument"]:
        text.append(f"Start this version with --quantization {result['quantization_argument']}.")
    if checkpoint.files is not None and not checkpoint.files.complete:
        text.append(
            f"The files are not complete: {len(checkpoint.files.missing)} missing, "
            f"{len(checkpoint.files.truncated)} cut short."
        )
    return " ".join(part.strip() for part in text)

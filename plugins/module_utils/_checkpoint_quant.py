# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a checkpoint's files declare about quantization, in the many shapes that exist (private to the collection).

Shapes: nested ``{"quantization": {...}}`` and flat sections, in hf_quant_config.json, quant_cfg.json, and in
config.json under quantization_config, text_config.quantization_config or compression_config; ModelOpt from 0.17 on,
compressed-tensors, and any other method by its name. An algorithm, version or key that is not known is passed on,
never an error.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import Section, wrong_type

# The keys under which config.json may hold a section, in the order in which SGLang looks (model_loader/
# checkpoint_quantization.py).
CONFIG_KEYS = ("quantization_config", "text_config.quantization_config", "compression_config")
_EXCLUDE_KEYS = ("exclude_modules", "ignore", "modules_to_not_convert", "ignored_layers")
KV_KEYS = ("kv_cache_quant_algo", "kv_cache_scheme")
# Keys that speak of the KV cache without naming an algorithm.
_KV_ASIDE = (*KV_KEYS, "kv_cache_quantized_layers", "kv_cache_schema_version", "kv_cache_deployment_supported")
_KV_WORDS = {
    "FP8": "fp8",
    "FLOAT8": "fp8",
    "FP8_E4M3": "fp8",
    "INT8": "int8",
    "NVFP4": "nvfp4",
    "FP4": "nvfp4",
    "FLOAT4": "nvfp4",
    "NVFP4_AFFINE": "nvfp4_affine",
    "MIXED_PRECISION": "mixed",
    "FP8_K_NVFP4_V": "mixed",
    "NONE": "none",
    "NULL": "none",
    "AUTO": "none",
    "": "none",
}


@dataclasses.dataclass
class Declaration:
    """What one file says.

    ``section`` is the object that holds the keys and ``key`` its path in the file; ``nested`` tells whether it stood
    under a key ``quantization``. ``kv`` is one of none, fp8, int8, nvfp4, nvfp4_affine, mixed, unknown; ``kv_key`` the
    path of the key that says so, None where the file is silent.
    """

    file: str
    key: str
    section: Section
    nested: bool
    method: str | None
    weight_algo: str | None
    weight_algos: dict[str, int]
    group_size: int | None
    kv: str
    kv_key: str | None
    exclude: list[str]
    producer: dict[str, str] | None

    def layers(self) -> dict[str, t.Any]:
        """The map of quantized layers, empty where there is none."""
        found = self.section.section("quantized_layers")
        return dict(found.data) if found else {}


def declarations(
    config: t.Mapping[str, t.Any], documents: t.Mapping[str, t.Mapping[str, t.Any]], folder: str = ""
) -> list[Declaration]:
    """Every declaration, config.json's first, then the separate files in their order.

    Raises:
        SglangError: a value of a type that makes no sense, with file and key.
    """
    found = []
    top = Section(config, _place(folder, "config.json"))
    # compressed-tensors keeps its section under an older name too; the first one that is there counts, as for the
    # engine.
    for path in CONFIG_KEYS:
        holder: Section | None = top
        *parents, last = path.split(".")
        for parent in parents:
            holder = holder.section(parent) if holder else None
        section = holder.section(last) if holder else None
        if section is not None:
            found.append(_declaration("config.json", section, section))
            break
    for name, document in documents.items():
        if not isinstance(document, t.Mapping):
            raise wrong_type(_place(folder, name), "(top level)", document, "an object")
        root = Section(document, _place(folder, name))
        found.append(_declaration(name, root, root))
    return found


def _place(folder: str, name: str) -> str:
    return str(pathlib.Path(folder) / name) if folder else name


def _declaration(file: str, root: Section, section: Section) -> Declaration:
    inner = root.section("quantization")
    nested = inner is not None
    if inner is not None:
        section = inner
    method = root.text("quant_method") or section.text("quant_method")
    layers = section.section("quantized_layers")
    histogram = _histogram(layers)
    algo = _weight_algo(section, method, histogram)
    mixed = algo == "MIXED_PRECISION"
    if mixed and not histogram:
        histogram = _group_histogram(section)
    kv, kv_key = _kv(section)
    return Declaration(
        file=file,
        key=section.key,
        section=section,
        nested=nested,
        method=method.lower() if method else None,
        weight_algo=algo,
        weight_algos=histogram if mixed else {},
        group_size=_group_size(root, section, layers),
        kv=kv,
        kv_key=kv_key,
        exclude=next((found for key in _EXCLUDE_KEYS if (found := section.strings(key)) is not None), []),
        producer=_producer(root, section),
    )


def _weight_algo(section: Section, method: str | None, histogram: dict[str, int]) -> str | None:
    algo = section.text("quant_algo")
    if algo:
        return algo.upper()
    word = (method or "").lower().replace("_", "-")
    if word == "compressed-tensors" or (not word and section.section("config_groups") is not None):
        groups = _group_histogram(section)
        if len(groups) > 1:
            return "MIXED_PRECISION"
        return next(iter(groups), None)
    if word.startswith("modelopt"):  # the algorithm is missing or null: KV-only exports of 0.48
        return "MIXED_PRECISION" if len(histogram) > 1 else next(iter(histogram), None)
    return method.upper() if method else None


def _histogram(layers: Section | None) -> dict[str, int]:
    """Algorithm -> number of layers in a map of quantized layers."""
    count: collections.Counter[str] = collections.Counter()
    if layers is None:
        return {}
    for name, entry in layers.data.items():
        if isinstance(entry, dict):
            algo = Section(entry, layers.file, layers.path(name)).text("quant_algo")
            count[algo.upper() if algo else "NONE"] += 1
        elif isinstance(entry, str):
            count[entry.upper()] += 1
        else:
            raise wrong_type(layers.file, layers.path(name), entry, "an object with quant_algo")
    return dict(count)


def _group_histogram(section: Section) -> dict[str, int]:
    """The same from config_groups: a group counts as the number of its targets."""
    count: collections.Counter[str] = collections.Counter()
    groups = section.section("config_groups")
    if groups is None:
        return {}
    for name in groups.data:
        group = groups.section(name)
        weights = group.section("weights") if group else None
        if group is not None and weights is not None:
            count[_scheme_algo(weights, section.text("format"))] += len(group.strings("targets") or [""])
    return dict(count)


def _scheme_algo(weights: Section, layout: str | None) -> str:
    """INT4, FP8, NVFP4, MXFP4 ... from a compressed-tensors or ModelOpt weight scheme."""
    bits = weights.number("num_bits")
    kind = (weights.text("type") or "").lower()
    group = weights.number("group_size")
    if bits == 4 and kind == "float":
        return "MXFP4" if group == 32 or (layout or "").lower().startswith("mxfp4") else "NVFP4"
    if bits == 8 and kind == "float":
        return "MXFP8" if group == 32 else "FP8"
    return f"{kind.upper() or 'UNKNOWN'}{bits or ''}"


def _group_size(root: Section, section: Section, layers: Section | None) -> int | None:
    own = section.number("group_size")
    if own is None and section is not root:
        own = root.number("group_size")
    if own is not None:
        return own
    sizes: set[int] = set()
    groups = section.section("config_groups")
    for name in groups.data if groups else ():
        group = groups.section(name) if groups else None
        weights = group.section("weights") if group else None
        for place in (weights, group):
            size = place.number("group_size") if place else None
            if size is not None:
                sizes.add(size)
                break
    for name in layers.data if layers else ():
        entry = layers.data[name] if layers else None
        if isinstance(entry, dict) and layers is not None:
            size = Section(entry, layers.file, layers.path(name)).number("group_size")
            if size is not None:
                sizes.add(size)
    return sizes.pop() if len(sizes) == 1 else None


def _kv(section: Section) -> tuple[str, str | None]:
    """The KV algorithm of a section and the key that says so; the first key with a value wins."""
    for key in KV_KEYS:
        word = kv_word(section, key)
        if word is not None:
            return word, section.path(key)
    layers = section.section("kv_cache_quantized_layers")
    if layers is not None and layers.data:
        words = set(_histogram(layers))
        word = _KV_WORDS.get(words.pop(), "unknown") if len(words) == 1 else "mixed"
        return word, section.path("kv_cache_quantized_layers")
    return _kv_elsewhere(section)


def _kv_elsewhere(section: Section) -> tuple[str, str | None]:
    """Quark's way of saying it, and keys that nobody has seen: something is declared, but not understood."""
    export = section.raw("export")
    group = export.get("kv_cache_group") if isinstance(export, dict) else None
    if group:
        layers = section.raw("layer_quant_config")
        entries = [layers.get(name) for name in group] if isinstance(layers, dict) and isinstance(group, list) else []
        outputs = [entry.get("output_tensors") for entry in entries if isinstance(entry, dict)]
        dtypes = {str(out.get("dtype")) for out in outputs if isinstance(out, dict)}
        word = "fp8" if dtypes and all(dtype.startswith("fp8") for dtype in dtypes) else "unknown"
        return word, section.path("export.kv_cache_group")
    for key, value in section.data.items():
        if key.startswith("kv_cache") and key not in _KV_ASIDE and value not in (None, False, "", [], {}):
            return "unknown", section.path(key)
    return "none", None


def kv_algorithm(word: str) -> str:
    """none, fp8, int8, nvfp4, nvfp4_affine, mixed or unknown, for a word that a file or the engine uses."""
    return _KV_WORDS.get(word.strip().upper(), "unknown")


def kv_word(section: Section, key: str) -> str | None:
    """The algorithm that one key names, None where it is absent or null."""
    value = section.raw(key)
    if value is None:
        return None
    if isinstance(value, str):
        return kv_algorithm(value)
    if isinstance(value, dict):
        return _kv_scheme(Section(value, section.file, section.path(key)))
    raise wrong_type(section.file, section.path(key), value, "a string, an object or null")


def _kv_scheme(scheme: Section) -> str:
    bits = scheme.number("num_bits")
    kind = (scheme.text("type") or "").lower()
    return {("float", 8): "fp8", ("int", 8): "int8", ("float", 4): "nvfp4"}.get((kind, bits or 0), "unknown")


def _producer(root: Section, section: Section) -> dict[str, str] | None:
    found = root.section("producer") or section.section("producer")
    if found is None:
        return None
    version = found.raw("version")
    return {"name": found.text("name") or "", "version": version if isinstance(version, str) else str(version or "")}

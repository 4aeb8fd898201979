# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a version of the engine makes of a checkpoint's declarations: its method, its KV algorithm (private).

A replay of SGLang's own reading, step by step, with every difference between versions taken from :mod:`_engine.kv`.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion

if t.TYPE_CHECKING:
    from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint
    from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint_quant import Declaration


@dataclasses.dataclass
class Reading:
    """How a version reads a checkpoint.

    ``method``: the engine's quantization, None where it sees none. ``kv``: the KV algorithm in its own words, or None.
    ``refused``: what it raises. ``declaration``: where it reads the weights' quantization, ``kv_declaration`` where the
    KV algorithm. ``argument``: what --quantization must say, None where it may stay away. ``seen``: whether some file
    declares a quantization at all. ``notes``: sentences.
    """

    method: str | None = None
    kv: str | None = None
    refused: str | None = None
    declaration: Declaration | None = None
    kv_declaration: Declaration | None = None
    argument: str | None = None
    seen: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)


def read(checkpoint: Checkpoint, version: EngineVersion) -> Reading:
    """Replay a version's reading of a checkpoint."""
    by_file = {item.file: item for item in checkpoint.declared}
    inline, file = by_file.get("config.json"), by_file.get("hf_quant_config.json")
    reading = Reading(seen=any(d.weight_algo or d.method or d.kv != "none" for d in checkpoint.declared))
    if inline is not None:
        _inline(reading, checkpoint, inline, file, version)
    elif file is not None:
        _separate(reading, checkpoint, file, version)
    return reading


# --- which method -------------------------------------------------------------------------------------------------


def _inline(
    reading: Reading, checkpoint: Checkpoint, inline: Declaration, file: Declaration | None, version: EngineVersion
) -> None:
    """config.json has a section: hf_quant_config.json is then looked at for an incomplete modelopt_mixed alone."""
    reading.declaration = reading.kv_declaration = inline
    declared = inline.method
    if declared is None and not kv.has("config_without_method", version):
        method = _by_algo(checkpoint, inline, version)
        reading.argument = method or "modelopt_fp8"
        reading.notes.append(
            f"{version} does not recognise a quantization_config without quant_method by itself; "
            f"it needs --quantization {reading.argument}"
        )
        reading.method = reading.argument
    elif declared in (None, "modelopt") and (declared is None or kv.has("config_method_modelopt", version)):
        method = _by_algo(checkpoint, inline, version)
        if method is None:
            _unrecognised(reading, inline, version)
            return
        reading.method = method
    elif declared == "modelopt":
        # The class for FP8 is what the word stood for; FP4 must be asked for.
        method = _by_algo(checkpoint, inline, version)
        reading.method = method or "modelopt_fp8"
        if reading.method != "modelopt_fp8":
            reading.argument = reading.method
            reading.notes.append(
                f"in {version} quant_method modelopt means FP8 weights unless --quantization {reading.method} is given"
            )
    else:
        reading.method = declared
    _kv_of_section(reading, inline, version)
    if reading.method == "modelopt_mixed" and kv.has("mixed_falls_through", version):
        keys = inline.section
        if "quantized_layers" not in keys or ("kv_cache_quant_algo" not in keys and "kv_cache_scheme" not in keys):
            _fall_through(reading, file, version)


def _fall_through(reading: Reading, file: Declaration | None, version: EngineVersion) -> None:
    reading.refused = None
    if file is None:
        reading.refused = (
            "ValueError: Cannot find the config file for modelopt_mixed (config.json lacks the layer map "
            "or both KV keys, and there is no hf_quant_config.json to complete it)"
        )
        return
    reading.kv_declaration = file
    reading.notes.append(
        "config.json is incomplete for modelopt_mixed (no layer map or no KV key), "
        "so hf_quant_config.json is read instead"
    )
    _kv_of_section(reading, file, version)


def _separate(reading: Reading, checkpoint: Checkpoint, file: Declaration, version: EngineVersion) -> None:
    """Only hf_quant_config.json declares something."""
    reading.declaration = reading.kv_declaration = file
    if not file.nested and not kv.has("flat_file", version):
        reading.refused = (
            "KeyError: 'quantization' (hf_quant_config.json has no such key, and this version reads no flat file)"
        )
        return
    if kv.has("file_by_algo", version):
        method = _by_algo(checkpoint, file, version)
        if method is None:
            _unrecognised(reading, file, version)
            return
    else:
        mixed = _algo(file) == "MIXED_PRECISION"
        method = "w4afp8" if mixed else "modelopt_fp4" if "FP4" in _algo(file) else "modelopt_fp8"
    reading.method = method
    if method == "mxfp8":
        # The class for MXFP8 names no file of its own, so what the file says of the KV cache is not read.
        reading.kv = None
        if file.kv != "none":
            reading.notes.append(
                "for MXFP8 weights the engine does not read the KV algorithm of hf_quant_config.json, "
                "so auto ignores it"
            )
        return
    _kv_of_section(reading, file, version)


def _by_algo(checkpoint: Checkpoint, declaration: Declaration, version: EngineVersion) -> str | None:
    """The method for a ModelOpt algorithm; the engine compares letters as they are written."""
    algo = _algo(declaration)
    if algo == "MIXED_PRECISION":
        if kv.has("mixed_by_layers", version):
            nvfp4 = any(
                isinstance(entry, dict) and str(entry.get("quant_algo", "")).upper() in ("NVFP4", "W4A16_NVFP4")
                for entry in declaration.layers().values()
            )
            return "modelopt_mixed" if nvfp4 else "w4afp8"
        if kv.has("mixed_nemotron", version):
            names = [*checkpoint.architectures, checkpoint.model_type or ""]
            if any(name.startswith("NemotronH") or name == "nemotron_h" for name in names):
                return "modelopt_mixed"
        return "w4afp8"
    if "FP4" in algo:
        return "modelopt_fp4"
    if algo == "MXFP8" and kv.has("mxfp8", version):
        return "mxfp8"
    if algo == "FP8" or ("FP8" in algo and not kv.has("fp8_exact", version)):
        return "modelopt_fp8"
    return "modelopt_fp8" if kv.has("unknown_algo_is_fp8", version) else None


def _algo(declaration: Declaration) -> str:
    return declaration.section.text("quant_algo") or ""


def _unrecognised(reading: Reading, declaration: Declaration, version: EngineVersion) -> None:
    reading.method = None
    algo = _algo(declaration) or "null"
    reading.notes.append(
        f"{version} does not recognise quant_algo {algo} of {declaration.file}: "
        "the model loads as if it were not quantized, and runs so or fails at the weights"
    )


# --- which KV algorithm -------------------------------------------------------------------------------------------


def _kv_of_section(reading: Reading, declaration: Declaration, version: EngineVersion) -> None:
    """The KV algorithm that the class for ``reading.method`` takes from a section, or what it raises."""
    method = reading.method
    handler = {
        "modelopt_fp8": _kv_fp8,
        "modelopt_fp4": _kv_fp4,
        "modelopt_mixed": _kv_mixed,
        "fp8": _kv_native_fp8,
        "mxfp8": _kv_native_fp8,
        "compressed-tensors": _kv_compressed,
        "compressed_tensors": _kv_compressed,
    }.get(method or "")
    reading.kv = handler(reading, declaration, version) if handler else None


def _lost(reading: Reading, declaration: Declaration) -> bool:
    """Whether the KV keys are out of the class's sight.

    A section nested once more inside config.json gets its method and algorithm written to the top, whereupon the class
    takes its flat branch and finds no KV key there.
    """
    if not (declaration.nested and declaration.file == "config.json"):
        return False
    reading.notes.append(
        "the section in config.json is nested once more: its weights are recognised, "
        "but what it says of the KV cache is not"
    )
    return True


def _scheme_is(scheme: t.Any, bits: int) -> bool:
    return isinstance(scheme, dict) and scheme.get("type") == "float" and scheme.get("num_bits") == bits


def _kv_fp8(reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    algo = _algo(declaration)
    if not (algo == "FP8" if kv.has("fp8_exact", version) else "FP8" in algo):
        reading.refused = f"ValueError: ModelOptFp8Config only supports FP8 quantization, but found {algo or None!r}"
        return None
    if _lost(reading, declaration):
        return None
    if declaration.nested:
        return declaration.section.text("kv_cache_quant_algo")
    scheme = declaration.section.raw("kv_cache_scheme")
    if isinstance(scheme, dict):
        return "FP8" if _scheme_is(scheme, 8) else None
    if isinstance(scheme, str) and scheme:
        if not kv.has("fp8_string_scheme", version):
            reading.refused = "AttributeError: 'str' object has no attribute 'get' (kv_cache_scheme is a string)"
            return None
        reading.notes.append(
            f"the class for FP8 weights ignores a kv_cache_scheme that is a string ({scheme}), "
            "so auto stays unquantized"
        )
    return declaration.section.text("kv_cache_quant_algo") if kv.has("flat_kv_algo", version) else None


def _kv_fp4(reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    algo = _algo(declaration)
    accepted = kv.pick(kv.FP4_ALGOS, version)
    names = accepted.value if accepted else ()
    section = declaration.section
    lost = _lost(reading, declaration)
    nested = declaration.nested and not lost
    if nested and section.number("group_size") is None and not _any_group_size(declaration):
        reading.refused = (
            "ValueError: Cannot find 'quant_algo' in the model's quantization config (a nested file must also give "
            "group_size, and this one has none)"
        )
        return None
    if algo not in names:
        reading.refused = f"ValueError: ModelOpt currently only supports: {', '.join(names)}; found {algo}"
        return None
    if nested:
        return section.text("kv_cache_quant_algo") or "auto"
    if lost:
        return None
    if declaration.group_size is None and not ("NVFP4" in algo and kv.has("fp4_group_size_known", version)):
        reading.refused = (
            "ValueError: NVFP4 quantization requires group_size and exclude_modules in the quantization config"
        )
        return None
    return _kv_fp4_flat(reading, declaration, version)


def _kv_fp4_flat(reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    section = declaration.section
    scheme = section.raw("kv_cache_scheme")
    if kv.has("fp4_flat_kv_algo_first", version) and section.text("kv_cache_quant_algo"):
        return section.text("kv_cache_quant_algo")
    if isinstance(scheme, dict):
        return "FP8" if _scheme_is(scheme, 8) else "auto"
    if isinstance(scheme, str) and scheme:
        if not kv.has("fp4_string_scheme", version):
            reading.refused = "AttributeError: 'str' object has no attribute 'get' (kv_cache_scheme is a string)"
            return None
        word = scheme.strip().upper()
        return "FP8" if word in ("FP8", "FLOAT8") else "NVFP4" if word in ("FP4", "FLOAT4", "NVFP4") else "auto"
    return (section.text("kv_cache_quant_algo") if kv.has("flat_kv_algo", version) else None) or "auto"


def _any_group_size(declaration: Declaration) -> bool:
    groups = declaration.section.section("config_groups")
    return declaration.group_size is not None and groups is not None


def _kv_mixed(reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    section = declaration.section
    if _algo(declaration) != "MIXED_PRECISION":
        reading.refused = "ValueError: ModelOptMixedPrecisionConfig only supports MIXED_PRECISION checkpoints"
        return None
    if not declaration.layers():
        reading.refused = "ValueError: MIXED_PRECISION quantization requires a non-empty quantized_layers map"
        return None
    if _lost(reading, declaration):
        return None
    if declaration.nested:
        return section.text("kv_cache_quant_algo")
    scheme = section.raw("kv_cache_scheme")
    if isinstance(scheme, dict):
        return "FP8" if _scheme_is(scheme, 8) else "NVFP4" if _scheme_is(scheme, 4) else "auto"
    return section.text("kv_cache_quant_algo") if kv.has("flat_kv_algo", version) else None


def _kv_native_fp8(_reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    section = declaration.section
    if not kv.has("method_fp8_kv_algo", version):
        return None
    algo = section.text("kv_cache_quant_algo")
    if algo is None and _algo(declaration) == "MXFP8" and _scheme_is(section.raw("kv_cache_scheme"), 8):
        return "FP8"
    return algo


def _kv_compressed(reading: Reading, declaration: Declaration, version: EngineVersion) -> str | None:
    scheme = declaration.section.raw("kv_cache_scheme")
    if not isinstance(scheme, dict):
        return None
    if not kv.has("compressed_tensors_kv", version):
        reading.notes.append(f"{version} does not read the kv_cache_scheme of compressed-tensors")
        return None
    supported = (
        _scheme_is(scheme, 8)
        and scheme.get("strategy") == "tensor"
        and scheme.get("symmetric", True)
        and not scheme.get("dynamic", False)
    )
    if not supported:
        reading.notes.append(
            "the engine ignores this kv_cache_scheme: only static symmetric per-tensor float8 counts "
            f"(strategy here: {scheme.get('strategy')})"
        )
    return "FP8" if supported else None

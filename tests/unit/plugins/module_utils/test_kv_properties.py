# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties that hold for any input: no crash, no wrong silence, and figures that move as they must."""

from __future__ import annotations

import copy
import typing as t

import kv_models
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info, _kv_live
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_args import parse
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_budget import GIB, Memory, budget
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_log import facts
from hypothesis import given, settings
from hypothesis import strategies as st
from kv_logs import info, log, unit

settings.register_profile("kv", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("kv")

VERSIONS = st.sampled_from(
    ["0.5.3", "0.5.4.post3", "0.5.7", "0.5.9", "0.5.12.post1", "0.5.16", "0.5.20", "0.5.23", "main", "0.9"]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False) | st.text(max_size=12)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
ALGORITHMS = st.sampled_from(
    ["NVFP4", "FP8", "nvfp4", "MIXED_PRECISION", "W4A16_AWQ", "MXFP8", "NVFP4_AWQ", "fp8_pb_wo", "Q8_0", "", None]
)
KV = st.sampled_from(["FP8", "fp8", "INT8", "NVFP4", "NVFP4_AFFINE", "MIXED_PRECISION", "something", "", None])
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "quant_algo": ALGORITHMS,
        "kv_cache_quant_algo": KV,
        "kv_cache_scheme": st.sampled_from(
            [None, "FP8", "NVFP4", {"type": "float", "num_bits": 8}, {"type": "int", "num_bits": 8}, {}]
        ),
        "quant_method": st.sampled_from([None, "modelopt", "fp8", "mxfp8", "compressed-tensors", "gptq", "MODELOPT"]),
        "group_size": st.sampled_from([None, 0, 16, 32, 128]),
        "exclude_modules": st.none() | st.lists(st.text(max_size=10), max_size=3),
        "ignore": st.none() | st.lists(st.text(max_size=10), max_size=3),
        "producer": st.sampled_from([None, {}, {"name": "modelopt"}, {"name": "modelopt", "version": 1.0}]),
        "quantized_layers": st.none()
        | st.dictionaries(st.text(max_size=9), st.fixed_dictionaries({"quant_algo": ALGORITHMS}), max_size=3),
        "config_groups": st.sampled_from(
            [None, {}, {"group_0": {}}, {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}]
        ),
    },
)
KV_WORDS = {"none", "fp8", "int8", "nvfp4", "nvfp4_affine", "mixed", "unknown"}


@given(SECTIONS, SECTIONS, st.booleans(), st.booleans(), st.booleans(), VERSIONS)
def test_any_declaration_is_read(  # noqa: PLR0917 (hypothesis passes by position)
    one: dict[str, t.Any], two: dict[str, t.Any], nested: bool, inline: bool, separate: bool, version: str
) -> None:
    config: dict[str, t.Any] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16"}
    if inline:
        config["quantization_config"] = {"quantization": one} if nested else one
    documents = {"hf_quant_config.json": {"quantization": two} if nested else two} if separate else {}
    result = _checkpoint_info.info(_checkpoint.from_config(config, documents=documents), version)
    assert result["kv_cache_algo"] in KV_WORDS
    auto = result["engine_auto_kv_cache_dtype"]
    assert auto in ("bfloat16", "fp8_e4m3", "unrecognised", "refused", "unknown")
    # An FP8 cache never comes from files that do not say so, and never without a source that is named.
    if auto == "fp8_e4m3":
        assert result["kv_cache_algo"] == "fp8" and result["kv_cache_sources"]
    if auto in ("refused", "unrecognised", "unknown"):
        assert result["explanation"]
    weights = result["weight_algo"]
    assert weights is None or weights == weights.upper()


@given(
    st.dictionaries(
        st.sampled_from(["architectures", "model_type", "dtype", "text_config", "quantization_config", "x"]),
        JSON,
        max_size=5,
    ),
    JSON,
)
def test_any_json_is_read_or_named(config: dict[str, t.Any], document: t.Any) -> None:
    try:
        result = _checkpoint_info.info(_checkpoint.from_config(config, documents={"hf_quant_config.json": document}))
    except SglangError as exc:
        assert "key" in str(exc) and ".json" in str(exc)
    else:
        assert result["explanation"]


# --- budget -----------------------------------------------------------------------------------------------------------

MODELS = st.sampled_from(sorted(kv_models.CELLS))
DTYPES = st.sampled_from(["bfloat16", "fp8_e4m3", "nvfp4"])
GPUS = st.sampled_from([1, 2, 4, 8])


@given(MODELS, DTYPES, GPUS, st.floats(1, 100), st.floats(0, 50))
def test_more_memory_is_never_less_tokens(name: str, dtype: str, tp: int, gib: float, more: float) -> None:
    config = kv_models.CELLS[name][0]
    less = budget(config, dtype, tp_size=tp, memory=Memory(kv_pool_bytes=gib * GIB))
    rest = budget(config, dtype, tp_size=tp, memory=Memory(kv_pool_bytes=(gib + more) * GIB))
    assert rest["tokens"] >= less["tokens"]
    loaded = [Memory(before_load=gib + more + 60, after_load=x, fraction=0.9) for x in (gib + 50, gib + more + 50)]
    small, large = (budget(config, dtype, tp_size=tp, memory=memory) for memory in loaded)
    assert (large["state_slots"] or 0) >= (small["state_slots"] or 0)
    assert all(
        b["by_tokens"] >= a["by_tokens"] or large["state_slots"]
        for a, b in zip(small["requests"], large["requests"], strict=True)
    )


@given(st.integers(1, 128), st.integers(1, 16), st.sampled_from([64, 128, 256]), GPUS, DTYPES)
def test_cost_is_linear_in_layers(layers: int, heads: int, width: int, tp: int, dtype: str) -> None:
    def cost(count: int) -> float:
        config = {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": count,
            "num_attention_heads": heads * 4,
            "num_key_value_heads": heads,
            "head_dim": width,
            "hidden_size": 4096,
        }
        return float(budget(config, dtype, tp_size=tp)["bytes_per_token"])

    assert cost(2 * layers) == 2 * cost(layers)
    assert cost(layers) == layers * cost(1)


@given(
    MODELS,
    DTYPES,
    GPUS,
    st.sampled_from(["text_config", "llm_config", "language_config", "thinker_config"]),
    st.booleans(),
)
def test_nesting_changes_nothing(name: str, dtype: str, tp: int, key: str, twice: bool) -> None:
    config = copy.deepcopy(kv_models.CELLS[name][0])
    plain = budget(config, dtype, tp_size=tp)
    outer = {"architectures": config["architectures"], key: config}
    if twice:
        outer = {"architectures": config["architectures"], "thinker_config": outer}
    assert budget(outer, dtype, tp_size=tp) == plain


@given(MODELS, GPUS)
def test_more_gpus_never_cost_more_and_fp8_never_more_than_bf16(name: str, tp: int) -> None:
    config = kv_models.CELLS[name][0]
    here, twice = budget(config, tp_size=tp), budget(config, tp_size=2 * tp)
    assert twice["bytes_per_token"] <= here["bytes_per_token"]
    assert here["fp8"]["bytes_per_token"] <= here["bytes_per_token"]


FIELD = st.from_regex(r"\A(kv|attn|attention|index|sparse|window|cache|mamba|linear)_[a-z]{3,8}_zz\Z")


@given(MODELS, FIELD, st.integers(1, 9) | st.lists(st.integers(0, 3), min_size=1, max_size=3) | st.just(True))
def test_an_unknown_field_is_never_passed_over(name: str, field: str, value: t.Any) -> None:
    config = copy.deepcopy(kv_models.CELLS[name][0])
    inner = config.get("text_config", config)
    inner[field] = value
    result = budget(config)
    if result["kind"] != "dsv4":
        assert result["approximate"] and any(field in note for note in result["notes"])


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *kv_models.stored("Qwen/Qwen3.5-397B-A17B")["text_config"],
                "kv_lora_rank",
                "block_configs",
                "compress_ratios",
            ]
        ),
        JSON,
        max_size=3,
    ),
    MODELS,
)
def test_a_damaged_configuration_is_computed_or_named(change: dict[str, t.Any], name: str) -> None:
    config = copy.deepcopy(kv_models.CELLS[name][0])
    config.get("text_config", config).update(change)
    try:
        result = budget(config, tp_size=8, memory=Memory(kv_pool_bytes=GIB))
    except SglangError as exc:
        assert "config.json" in str(exc) or "key" in str(exc)
    else:
        assert result["bytes_per_token"] >= 0


# --- arguments, logs and answers --------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(
            ["--tp-size", "8", "--kv-cache-dtype", "--kv-cache-dtype=fp8_e4m3", "bf16", "--x=1", "-h", "", "="]
        ),
        max_size=8,
    )
)
def test_any_words_are_read_or_named(words: list[str]) -> None:
    try:
        value = parse(words).kv_cache_dtype
    except SglangError as exc:
        assert "args[" in str(exc)
    else:
        assert value is None or any(value in word for word in words)


@given(st.lists(st.text(max_size=80), max_size=20), JSON)
def test_any_log_and_answer_prove_nothing(lines: list[str], answer: t.Any) -> None:
    assert not facts(lines).recognised
    states = answer if isinstance(answer, dict) else {"internal_states": answer}
    verdict = _kv_live.prove(
        "bfloat16",
        kv_models.CAPTURED,
        unit(lines),
        {**states, "version": "0.5.12.post1"},
        tp_size=1,
        engine_version=None,
    )
    assert verdict.verdict != "ok"


@given(st.integers(0, 7), st.sampled_from(["first", "all", "none"]), st.booleans())
def test_one_odd_rank_never_passes(odd: int, named: str, modern: bool) -> None:
    dtypes = ["float8_e4m3fn" if rank == odd else "bfloat16" for rank in range(8)]
    lines = log(dtypes, named=named, modern=modern)
    verdict = _kv_live.prove(
        "bfloat16", kv_models.CAPTURED, unit(lines), info(gib=17.9, tp=8), tp_size=8, engine_version=None
    )
    assert verdict.verdict == "violated"

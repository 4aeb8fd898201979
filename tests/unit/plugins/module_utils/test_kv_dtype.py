# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments, spellings and the judgement before a start."""

from __future__ import annotations

import typing as t

import kv_models
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_dtype
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint, from_config
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_args import parse
from kv_shapes import FLOAT8, flat


def model(arch: str = "Qwen3MoeForCausalLM", fp8: bool = True, **more: t.Any) -> Checkpoint:
    config: dict[str, t.Any] = {"architectures": [arch], "torch_dtype": "bfloat16", "num_hidden_layers": 2, **more}
    if fp8:
        config["quantization_config"] = flat("NVFP4", kv_cache_scheme=FLOAT8)
    return from_config(config)


DSA = {"index_topk": 2048, "index_head_dim": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--kv-cache-dtype", "bf16"], "bf16"),
        (["--kv-cache-dtype=bf16"], "bf16"),
        ("--tp-size 8 --kv-cache-dtype bf16", "bf16"),
        ("--kv-cache-dtype='bf16'", "bf16"),
        ({"kv_cache_dtype": "bf16"}, "bf16"),
        ({"kv-cache-dtype": "bf16"}, "bf16"),
        ({"--kv-cache-dtype": "bf16"}, "bf16"),
        ({"kv_cache_dtype": None}, None),
        (["--kv-cache-dtype", "bf16", "--kv-cache-dtype=fp8_e4m3"], "fp8_e4m3"),
        ("--kv-cache-dtype=fp8_e4m3 --kv-cache-dtype bf16", "bf16"),
        (["--kv-cache-d", "fp8_e4m3"], "fp8_e4m3"),  # argparse takes any unambiguous beginning
        (["--model-path", "/models/--kv-cache-dtype"], None),
        (["--kv_cache_dtype", "bf16"], None),  # no flag of SGLang's parser
        ([], None),
        (None, None),
        ("", None),
    ],
)
def test_the_last_value_wins(args: t.Any, value: str | None) -> None:
    assert parse(args).kv_cache_dtype == value


def test_other_arguments_are_read() -> None:
    given = parse(
        "--tp 8 --speculative-algo NEXTN --disable-radix-cache --decode-attention-backend trtllm_mla --random-seed=7"
    )
    assert given.given["tp_size"] == "8" and given.speculative and given.given["disable_radix_cache"] is True
    assert given.attention_backends() == ["trtllm_mla"] and given.given["random_seed"] == "7"


@pytest.mark.parametrize(
    "args", [["--kv-cache-dtype"], ["--kv-cache-dtype", "--tp-size", "8"], "--kv-cache-dtype 'bf16", 7]
)
def test_arguments_that_cannot_be_read(args: t.Any) -> None:
    with pytest.raises(SglangError, match="args"):
        parse(args)


# --- how BF16 is spelled ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checkpoint", "version", "backend", "capability", "spelling"),
    [
        (model(), "0.5.12.post1", None, "12.0", "bf16"),
        (model(), "0.5.4", None, None, "bf16"),
        (model(), "0.5.3.post3", None, None, None),  # no value for it, and auto is FP8
        (model(fp8=False), "0.5.3.post3", None, None, "auto"),
        (model("DeepseekV3ForCausalLM"), "0.5.23", "trtllm_mla", "10.0", "bf16"),
        (model("DeepseekV3ForCausalLM", fp8=False), "0.5.6", "trtllm_mla", "10.0", "auto"),
        (model("DeepseekV3ForCausalLM"), "0.5.6", "trtllm_mla", "10.0", None),
        (model("DeepseekV3ForCausalLM"), "0.5.23", "cutedsl_mla", "10.0", "bf16"),
        (model("DeepseekV3ForCausalLM"), "0.5.18", "tokenspeed_mla", "10.0", None),
        (model("DeepseekV4ForCausalLM"), "0.5.23", None, "12.0", "bfloat16"),
        (model("DeepseekV4ForCausalLM"), "0.5.12.post1", None, "12.0", None),
        (model("DeepseekV32ForCausalLM", **DSA), "0.5.23", None, "12.0", "bf16"),
        (model("DeepseekV32ForCausalLM", **DSA), "0.5.4", None, "10.0", None),  # forced to FP8
    ],
)
def test_spelling_by_version_backend_and_model(
    checkpoint: Checkpoint, version: str, backend: str | None, capability: str | None, spelling: str | None
) -> None:
    best, why = _kv_dtype.recommend(
        "bfloat16",
        checkpoint,
        _kv_dtype.version_of(version),
        [backend] if backend else [],
        _kv_dtype.capability(capability),
    )
    assert best == spelling, why


# --- verdicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "version", "verdict", "effective"),
    [
        ("--kv-cache-dtype bf16", "0.5.12.post1", "ok", "bfloat16"),
        ("--kv-cache-dtype bfloat16", "0.5.12.post1", "ok", "bfloat16"),
        ("--kv-cache-dtype auto", "0.5.12.post1", "violated", "fp8_e4m3"),
        ("", "0.5.12.post1", "violated", "fp8_e4m3"),
        ("--kv-cache-dtype bf16 --kv-cache-dtype=auto", "0.5.12.post1", "violated", "fp8_e4m3"),
        ("--kv-cache-dtype fp8_e4m3", "0.5.12.post1", "violated", "fp8_e4m3"),
        ("--kv-cache-dtype bf16", "0.5.3", "impossible", "refused"),
        ("", "0.5.3.post3", "impossible", "fp8_e4m3"),
        ("--kv-cache-dtype bf16", "0.7.0", "ok", "bfloat16"),
        ("", "0.7.0", "unproved", "unknown"),
    ],
)
def test_verdicts(args: str, version: str, verdict: str, effective: str) -> None:
    result = _kv_dtype.assert_static(model(), args, version)
    assert (result.verdict, result.effective_dtype) == (verdict, effective), result.evidence


def test_a_violation_says_what_to_set() -> None:
    result = _kv_dtype.assert_static(model(), [], "0.5.12.post1")
    assert result.recommendation == "--kv-cache-dtype bf16"
    assert {item.weight for item in result.evidence} == {"risk", "intent"}


def test_a_refused_spelling_is_no_success() -> None:
    result = _kv_dtype.assert_static(
        model("DeepseekV3ForCausalLM"), "--kv-cache-dtype bfloat16 --attention-backend trtllm_mla", "0.5.23"
    )
    assert (result.verdict, result.recommendation) == ("violated", "--kv-cache-dtype bf16")
    v4 = _kv_dtype.assert_static(model("DeepseekV4ForCausalLM"), "--kv-cache-dtype bf16", "0.5.23")
    assert (v4.verdict, v4.recommendation) == ("violated", "--kv-cache-dtype bfloat16")


@pytest.mark.parametrize(
    ("args", "draft", "verdict"),
    [
        ("--speculative-algorithm NEXTN", None, "ok"),
        ("--speculative-algorithm NEXTN --speculative-draft-kv-cache-dtype bf16", None, "ok"),
        ("--speculative-algorithm NEXTN --speculative-draft-kv-cache-dtype fp8_e4m3", None, "violated"),
        ("--speculative-algorithm NEXTN", "fp8_e4m3", "violated"),
        ("--speculative-draft-kv-cache-dtype fp8_e4m3", None, "ok"),  # without speculation there is no draft
    ],
)
def test_the_drafts_cache_counts_where_there_is_one(args: str, draft: str | None, verdict: str) -> None:
    result = _kv_dtype.assert_static(model(), f"--kv-cache-dtype bf16 {args}", "0.5.23", draft_dtype=draft)
    assert result.verdict == verdict


def test_dtype_depends_on_the_gpu_for_sparse_attention() -> None:
    checkpoint = from_config(kv_models.stored("deepseek-ai/DeepSeek-V3.2"))
    assert _kv_dtype.assert_static(checkpoint, [], "0.5.23").verdict == "unproved"
    assert _kv_dtype.assert_static(checkpoint, [], "0.5.23", compute_capability="12.0").verdict == "violated"
    assert _kv_dtype.assert_static(checkpoint, [], "0.5.23", compute_capability="9.0").verdict == "ok"


@pytest.mark.parametrize(
    ("text", "major"), [("12.0", 12), ("sm_120a", 12), (12, 12), ("90", 9), ("10.3", 10), (8.9, 8), ("", None)]
)
def test_capabilities(text: t.Any, major: int | None) -> None:
    assert _kv_dtype.capability(text) == major


@pytest.mark.parametrize("text", ["Blackwell", "12,0", "x"])
def test_capabilities_that_are_none(text: str) -> None:
    with pytest.raises(SglangError, match="compute_capability"):
        _kv_dtype.capability(text)


def test_a_version_that_is_none() -> None:
    with pytest.raises(SglangError, match="engine_version"):
        _kv_dtype.engine_auto(model(), "newest")

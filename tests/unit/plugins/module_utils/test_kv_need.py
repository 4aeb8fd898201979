"""Whether a need can fit: against the captured servers, and what is said where it cannot."""

from __future__ import annotations

import re
import typing as t

import kv_models
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info, _kv_need

GIB = 1024**3
H200 = 143771  # MiB, as nvidia-smi of the captures says
PRO6000 = 97887
QWEN = 233 * 10**9
EIGHT = [{"index": index, "total_mib": PRO6000} for index in range(8)]


def checkpoint(config: dict[str, t.Any], size: int | None, weights: str | None = "NVFP4") -> dict[str, t.Any]:
    """What hf_quant_config_info returns of it."""
    found = _checkpoint_info.info(_checkpoint.from_config(config), "0.5.12.post1")
    return {**found, "weight_algo": weights, "files": {"complete": True, "missing": [], "truncated": [], "bytes": size}}


def judge(**given: t.Any) -> _kv_need.Outcome:
    """Qwen3.5-397B-A17B-NVFP4 on eight cards, unless told otherwise."""
    given = {"size": QWEN, "config": kv_models.CAPTURED, "weights": "NVFP4", "args": {}, **given}
    return _kv_need.run(
        {
            "checkpoint": checkpoint(given["config"], given["size"], given["weights"]),
            "args": {"tp_size": 8, "kv_cache_dtype": "bf16", **given["args"]},
            "need": given.get("need", {}),
            "gpus": given.get("gpus", "all"),
            "cards": given.get("cards", EIGHT),
            "engine_version": given.get("engine_version", "0.5.12.post1"),
            "exceptions": given.get("exceptions", []),
        }
    )


@pytest.mark.parametrize(
    ("version", "dtype", "tp", "loaded_gib", "served"),
    [
        # captures: version, --kv-cache-dtype, TP, "mem usage" of all ranks, max_total_num_tokens, max_running_requests
        ("0.5.12.post1", "bf16", 1, 1.71, (1251491, 59)),
        ("0.5.12.post1", "fp8_e4m3", 1, 1.70, (2502982, 59)),
        ("0.5.12.post1", "fp8_e4m3", 2, 1.82, (5024705, 120)),
        ("0.5.16", "fp8_e4m3", 1, 1.71, (2500115, 35)),
    ],
)
def test_captured_servers_are_predicted(
    version: str, dtype: str, tp: int, loaded_gib: float, served: tuple[int, int]
) -> None:
    tokens, requests = served
    result = judge(
        size=int(loaded_gib * GIB),
        args={"tp_size": tp, "kv_cache_dtype": dtype, "mem_fraction_static": 0.5},
        need={"context": 1000},
        cards=[{"index": index, "total_mib": H200} for index in range(tp)],
        engine_version=version,
    ).result
    assert result["verdict"] == "fits"
    assert result["likely"]["tokens"] == pytest.approx(tokens, rel=0.02)
    assert result["likely"]["requests"] == pytest.approx(requests, abs=2)
    assert result["most"]["tokens"] >= tokens
    assert result["most"]["requests"] >= requests


def test_what_cannot_fit_is_refused_with_both_numbers_and_what_to_change() -> None:
    outcome = judge(need={"context": 262144, "concurrent": 32}, args={"mem_fraction_static": 0.6})
    assert outcome.result["verdict"] == "short"
    found = re.search(r"at most (\d+) tokens fit, (\d+) are needed", outcome.failure)
    assert found is not None, outcome.failure
    assert int(found[1]) == outcome.result["most"]["tokens"]
    assert int(found[2]) == 262144 * 32 == outcome.result["needed"]["tokens"]
    assert outcome.failure.startswith("need.context 262144 and need.concurrent 32 cannot fit")
    for words in (
        "lower need.context or need.concurrent",
        "raise args.mem_fraction_static (now 0.6)",
        "exception capacity",
    ):
        assert words in outcome.failure
    assert "fp8_e4m3" not in outcome.failure  # would not help
    assert outcome.warnings == []


def test_fp8_is_advised_where_it_would_fit() -> None:
    assert "args.kv_cache_dtype: fp8_e4m3" in judge(need={"context": 262144, "concurrent": 12}).failure


def test_weights_that_leave_no_room_are_refused() -> None:
    outcome = judge(need={"context": 4096}, args={"tp_size": 2}, cards=EIGHT[:2])
    assert "at most 0 tokens fit, 4096 are needed" in outcome.failure
    assert outcome.result["most"] == {"tokens": 0, "requests": 0}


def test_requests_are_limited_by_states_too() -> None:
    """Each request of a hybrid model holds slots of a fixed size, however short it is."""
    outcome = judge(need={"context": 16, "concurrent": 2000})
    assert re.search(r"at most \d+ requests run at once, 2000 are needed", outcome.failure)


def test_a_context_length_counts_without_a_need() -> None:
    outcome = judge(args={"context_length": 10_000_000})
    assert "args.context_length 10000000 cannot fit" in outcome.failure
    assert "lower args.context_length" in outcome.failure
    assert judge(args={"context_length": 262144}).failure == ""


def test_what_lies_between_is_told_and_not_refused() -> None:
    sizes = judge(need={"context": 1}).result
    between = (sizes["likely"]["tokens"] + sizes["most"]["tokens"]) // 2
    outcome = judge(need={"context": between})
    assert outcome.result["verdict"] == "close"
    assert outcome.failure == ""
    assert "may not fit" in outcome.warnings[0]
    assert judge(need={"context": sizes["likely"]["tokens"]}).warnings == []
    assert judge(need={"context": sizes["most"]["tokens"] + 1}).failure


def test_an_exception_lifts_it_and_is_told() -> None:
    outcome = judge(need={"context": 10**8}, exceptions=[{"id": "capacity", "reason": "a smaller draft"}])
    assert outcome.failure == ""
    assert "a smaller draft" in outcome.warnings[0]
    assert outcome.result["excepted_by"]["id"] == "capacity"
    assert judge(need={"context": 10**8}, exceptions=[{"id": "kv_cache_dtype", "reason": "x"}]).failure


def test_a_model_that_is_not_wholly_understood_is_told_and_not_refused() -> None:
    config = {**kv_models.CAPTURED, "kv_source_layer_ids": [0, 1]}
    outcome = judge(config=config, need={"context": 10**8})
    assert outcome.failure == ""
    assert outcome.result["verdict"] == "unknown"
    assert "not wholly understood" in outcome.warnings[0]
    assert "kv_source_layer_ids" in outcome.warnings[0]


def test_without_the_cards_nothing_is_judged() -> None:
    for given in ({"cards": []}, {"gpus": [0, 9]}):
        outcome = judge(need={"context": 10**8}, **given)
        assert (outcome.failure, outcome.result["verdict"]) == ("", "unknown")
        assert "memory of the instance's GPUs" in outcome.warnings[0]
        assert judge(**given).warnings == []  # nothing was asked for


def test_the_smallest_of_its_own_cards_counts() -> None:
    cards = [*EIGHT[:7], {"index": 7, "total_mib": 32607}]
    big = judge(need={"context": 4096}, args={"tp_size": 4}, cards=cards, gpus=[0, 1, 2, 3]).result["most"]["tokens"]
    assert big > judge(need={"context": 4096}, cards=cards).result["most"]["tokens"]


@pytest.mark.parametrize(
    "given",
    [
        {"size": None},
        {"args": {"cpu_offload_gb": 40}},
        {"args": {"quantization": "fp8"}, "weights": None},
    ],
)
def test_weights_of_unknown_size_are_counted_as_nothing(given: dict[str, t.Any]) -> None:
    known = judge(need={"context": 4096}).result
    outcome = judge(need={"context": 4096}, **given)
    assert outcome.result["most"]["tokens"] > known["most"]["tokens"]
    assert "counted as nothing" in outcome.result["notes"][0]
    assert judge(need={"context": 10**8}, **given).failure  # not even then


@pytest.mark.parametrize(
    ("version", "names", "backend", "bytes_a_layer"),
    [
        # 512 + 512 / 128 x 4 + 64 x 2 with scales, 512 + 64 without; 132 more of the index
        ("0.5.12.post1", "nsa", "tilelang", 656),
        ("0.5.12.post1", "nsa", "trtllm", 576),
        ("0.5.21", "dsa", "tilelang", 656),
        ("0.5.23", "dsa", "tilelang", 576),
        ("0.5.23", "dsa", "flashinfer_sparse_mla", 656),
    ],
)
def test_the_latent_of_a_sparse_attention_is_as_its_backends_keep_it(
    version: str, names: str, backend: str, bytes_a_layer: int
) -> None:
    args = {
        "kv_cache_dtype": "fp8_e4m3",
        "mem_fraction_static": 0.9,
        f"{names}_prefill_backend": backend,
        f"{names}_decode_backend": backend,
    }
    result = judge(
        config=kv_models.stored("deepseek-ai/DeepSeek-V3.2"),
        size=400 * 10**9,
        args=args,
        need={"context": 1},
        engine_version=version,
    ).result
    found = re.search(r"tokens = (\d+) B / (\d+) B", result["formula"])
    assert found is not None
    assert int(found[2]) == 61 * (bytes_a_layer + 132)

"""Memory arithmetic of the stand-in engine, by figures that a real server logged."""

from __future__ import annotations

import pytest
from lab_engine_kit import capture_config
from sglang._standin.checkpoint import Geometry
from sglang._standin.errors import NotEnoughMemory
from sglang._standin.pools import Pools, divide
from sglang.srt.server_args import ServerArgs

CONFIG = capture_config()
GEOMETRY = Geometry(
    layers=60,
    full_attention_layers=15,
    kv_heads=CONFIG["num_key_value_heads"],
    head_dim=CONFIG["head_dim"],
    hidden=CONFIG["hidden_size"],
    conv_kernel=4,
    key_heads=16,
    key_dim=128,
    value_heads=64,
    value_dim=128,
    ssm_bytes=4,
    context=262144,
    vocab=2048,
    weight_bytes=1,
)


@pytest.mark.parametrize(
    ("args", "memory", "logged"),
    [
        ({}, (2, 139.13, 137.42), (1_251_491, 179, 59)),
        ({}, (1, 139.13, 137.42), (2_502_982, 179, 59)),
        ({"tp_size": 2}, (1, 138.28, 137.37), (5_024_705, 361, 120)),
        ({"tp_size": 2}, (2, 66.58, 65.67), (1_194_148, 171, 57)),
        ({"mamba_scheduler_strategy": "extra_buffer"}, (1, 139.09, 137.38), (2_500_115, 179, 35)),
    ],
)
def test_pools_agree_with_logged_ones(
    args: dict[str, object], memory: tuple[float, float, float], logged: tuple[int, int, int]
) -> None:
    tokens, slots, requests = logged
    pools = divide(GEOMETRY, ServerArgs(mem_fraction_static=0.5, **args), *memory)
    assert (pools.slots, pools.requests) == (slots, requests)
    assert pools.tokens == pytest.approx(tokens, rel=0.002)


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    assert GEOMETRY.kv_bytes_per_token(1, 2) == 30_720
    assert GEOMETRY.kv_bytes_per_token(2, 2) == GEOMETRY.kv_bytes_per_token(8, 2) == 15_360
    assert GEOMETRY.kv_bytes_per_token(8, 1) == 7_680


def test_state_of_a_request() -> None:
    assert GEOMETRY.conv_bytes_per_slot(1) + GEOMETRY.ssm_bytes_per_slot(1) == 192_061_440
    assert GEOMETRY.conv_bytes_per_slot(8) + GEOMETRY.ssm_bytes_per_slot(8) == 24_007_680


def pools_with(**args: object) -> Pools:
    return divide(GEOMETRY, ServerArgs(mem_fraction_static=0.5, **args), 2, 139.13, 137.42)


def test_arguments_that_change_the_division() -> None:
    assert pools_with(max_mamba_cache_size=30).slots == 30
    assert pools_with(max_mamba_cache_size=30).requests == 10
    assert pools_with(disable_radix_cache=True).requests == 179
    assert pools_with(max_total_tokens=100_000).tokens == 100_000
    assert pools_with(max_running_requests=4).requests == 4
    assert pools_with(page_size=64).tokens % 64 == 0
    assert pools_with(mamba_full_memory_ratio=0.1).tokens > pools_with().tokens


def test_a_draft_layer_costs_a_sixteenth_more() -> None:
    drafting = {"speculative_algorithm": "EAGLE", "max_running_requests": 1, "speculative_num_draft_tokens": 1}
    with_draft = pools_with(mamba_scheduler_strategy="extra_buffer", max_mamba_cache_size=8, **drafting)
    without = pools_with(mamba_scheduler_strategy="extra_buffer", max_mamba_cache_size=9)
    assert with_draft.tokens == pytest.approx(without.tokens * 15 / 16, rel=0.001)


@pytest.mark.parametrize("fraction", [0.005, 0.0])
def test_nothing_left(fraction: float) -> None:
    with pytest.raises(NotEnoughMemory, match="Please try to increase --mem-fraction-static"):
        divide(GEOMETRY, ServerArgs(mem_fraction_static=fraction), 2, 139.13, 137.05)

"""Levels of a sweep and their labels."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_plan
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import Limits, Shape

# Figures of a hybrid model on one card: 179 state slots serve 59 requests, 1,251,491 tokens of KV.
INFO = {
    "max_total_num_tokens": 1251491,
    "max_req_input_len": 262138,
    "max_running_requests": None,
    "internal_states": [
        {
            "effective_max_running_requests_per_dp": 59,
            "max_mamba_cache_size": 179,
            "memory_usage": {"token_capacity": 1},
        }
    ],
}


def test_limits_are_read_from_what_the_server_tells() -> None:
    limits = _bench_plan.limits_of(INFO)
    assert (limits.kv_tokens, limits.requests, limits.slots) == (1251491, 59, 179)
    assert limits.request_cause == "state slots"


def test_a_cap_that_was_asked_for_is_no_lack_of_slots() -> None:
    capped = {**INFO, "max_running_requests": 59}
    assert _bench_plan.limits_of(capped).request_cause == "max_running_requests"


def test_data_parallel_ranks_hold_their_share_each() -> None:
    limits = _bench_plan.limits_of({**INFO, "dp_size": 2})
    assert (limits.kv_tokens, limits.requests) == (2 * 1251491, 118)


def test_a_capture_gives_the_same_limits(shared: pathlib.Path) -> None:
    info = json.loads((shared / "captures/kv_bf16_override/server_info.200.json").read_text(encoding="utf-8"))
    limits = _bench_plan.limits_of(info)
    assert (limits.kv_tokens, limits.requests, limits.slots) == (1251491, 59, 179)
    assert limits.request_cause == "state slots"


@pytest.mark.parametrize(
    ("concurrency", "limits", "label", "c_max", "run"),
    [
        (59, Limits(kv_tokens=1251491, requests=59, slots=179, request_cause="state slots"), "compute", 59, True),
        (60, Limits(kv_tokens=1251491, requests=59, slots=179, request_cause="state slots"), "slots", 59, True),
        (60, Limits(kv_tokens=1251491, requests=59), "requests", 59, True),
        # 371,456 tokens hold 40 requests of 1,024 + 8,192: the sweep that was published as 1,490 tok/s at C=512
        (512, Limits(kv_tokens=371456, requests=2048), "kv", 40, True),
        (40, Limits(kv_tokens=371456, requests=2048), "compute", 40, True),
        (1, Limits(kv_tokens=9000), "cannot-fit", 0, False),
        (1, Limits(kv_tokens=10**9, context=9215), "cannot-fit", 0, False),
        (1024, Limits(), "compute", None, True),
    ],
)
def test_labels(concurrency: int, limits: Limits, label: str, c_max: int | None, run: bool) -> None:
    level = _bench_plan.level(concurrency, Shape(1024, 8192), limits)
    assert (level.label, level.c_max, level.run) == (label, c_max, run)


def test_a_plan_is_ascending_and_has_enough_prompts() -> None:
    plan = _bench_plan.plan([64, 1, 64, 16], Shape(), Limits())
    assert [level.concurrency for level in plan] == [1, 16, 64]
    assert [level.prompts for level in plan] == [8, 80, 320]

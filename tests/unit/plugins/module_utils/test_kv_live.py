# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What proves a KV cache's dtype, what refutes it, and what is worth nothing."""

from __future__ import annotations

import json
import pathlib
import typing as t

import kv_models
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_live, _unit_log
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_log import facts
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_verdict import KvVerdict
from kv_logs import info, log, unit

BF16, FP8 = "bfloat16", "float8_e4m3fn"


def prove(log_: t.Any, answer: t.Any, tp: int = 1, version: str | None = "0.5.12.post1", **more: t.Any) -> KvVerdict:
    return _kv_live.prove("bfloat16", kv_models.CAPTURED, log_, answer, tp_size=tp, engine_version=version, **more)


def weights(verdict: KvVerdict, source: str) -> set[str]:
    return {item.weight for item in verdict.evidence if source in item.source}


# --- proof and violation --------------------------------------------------------------------------------------------


def test_log_and_arithmetic_prove() -> None:
    verdict = prove(unit(log([BF16])), info())
    assert verdict.ok and verdict.effective_dtype == "bfloat16" and not verdict.recommendation
    assert weights(verdict, "journal") == {"proves", "nothing"}
    assert weights(verdict, "arithmetic") == {"proves"}
    assert weights(verdict, "internal_states") == {"nothing"}
    assert verdict.receipt["invocation_id"] == "a" * 32 and verdict.receipt["tokens"] == 1251491


def test_log_alone_has_arithmetic_of_its_own() -> None:
    assert prove(unit(log([BF16])), None, silence="401").ok
    # ... but not without sizes
    assert prove(unit(log([BF16], sizes=False, modern=True)), None).verdict == "unproved"


def test_auto_that_became_fp8_is_a_violation_by_all_three() -> None:
    verdict = prove(unit(log([FP8], tokens=2502982)), info("fp8_e4m3", tokens=2502982))
    assert (verdict.verdict, verdict.effective_dtype) == ("violated", "fp8_e4m3")
    assert "proves" in weights(verdict, "journal") and weights(verdict, "arithmetic") == {"proves"}
    assert weights(verdict, "internal_states") == {"refutes"}
    assert verdict.recommendation == "--kv-cache-dtype bf16"


def test_internal_states_alone_refute_but_never_prove() -> None:
    assert prove(None, info("fp8_e4m3", gib=None)).verdict == "violated"
    assert prove(None, info("bf16", gib=None)).verdict == "unproved"
    assert prove(None, info("auto", gib=None)).verdict == "unproved"


def test_an_argument_that_is_only_repeated_is_no_proof() -> None:
    verdict = prove(None, {"kv_cache_dtype": "bf16", "version": "0.5.12.post1"})
    assert verdict.verdict == "unproved"
    assert weights(verdict, "/server_info kv_cache_dtype") == {"nothing"}


def test_arithmetic_alone_is_half_a_proof() -> None:
    assert prove(None, info()).verdict == "unproved"
    assert prove(None, info(tokens=2502982)).verdict == "violated"


@pytest.mark.parametrize("named", ["first", "all"])
def test_other_ranks_are_proved_by_their_own_size(named: str) -> None:
    assert prove(unit(log([BF16] * 8, named=named)), info(gib=17.90, tp=8), tp=8).ok


def test_no_rank_that_names_a_dtype_is_no_proof() -> None:
    assert prove(unit(log([BF16] * 8, named="none")), info(gib=17.90, tp=8), tp=8).verdict == "unproved"


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("odd", [0, 3, 7])
def test_one_rank_of_eight_in_fp8_is_a_violation(odd: int, modern: bool) -> None:
    dtypes = [FP8 if rank == odd else BF16 for rank in range(8)]
    verdict = prove(unit(log(dtypes, modern=modern)), info(gib=17.90, tp=8), tp=8, version=None)
    assert (verdict.verdict, verdict.effective_dtype) == ("violated", "fp8_e4m3")


def test_a_rank_that_logs_nothing_is_not_proved() -> None:
    lines = [line for line in log([BF16] * 8) if "TP5] KV Cache" not in line]
    verdict = prove(unit(lines), info(gib=17.90, tp=8), tp=8)
    assert verdict.verdict == "unproved"
    assert any("7 of 8 ranks" in item.says for item in verdict.evidence)


def test_fp8_on_one_gpu_is_no_bf16_on_two() -> None:
    """15,360 bytes are FP8 with both heads and BF16 with one: the number of GPUs that the engine names decides."""
    verdict = prove(unit(log([FP8], tokens=2502982)), info("auto", tokens=2502982, tp=1), tp=2)
    assert verdict.verdict == "violated"


def test_a_pool_of_another_model_proves_nothing() -> None:
    other = {**kv_models.CAPTURED, "num_hidden_layers": 48}
    verdict = _kv_live.prove("bfloat16", other, unit(log([BF16])), info(), tp_size=1, engine_version="0.5.12.post1")
    assert verdict.verdict == "unproved"
    assert any("fits no dtype" in item.says for item in verdict.evidence)


# --- whose log, whose answers ------------------------------------------------------------------------------------


def test_a_log_of_another_start_or_server_is_never_counted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("\n".join(log([BF16], pid=1)))
    foreign = _unit_log.read_file(str(path), 2**22 + 1)
    assert foreign.belongs == "no" and not foreign.lines
    assert prove(foreign, info()).verdict == "unproved"
    # Another start of the same server: other seed, so the lines are of no use even where the process id fits.
    unsure = unit(log([BF16]), belongs="unknown")
    assert prove(unsure, info(seed=1)).verdict == "unproved"
    assert prove(unsure, info(tokens=1251492)).verdict == "unproved"


def test_an_unsure_log_may_refute_but_not_prove() -> None:
    unsure = {"belongs": "unknown", "active_state": "unknown"}
    assert prove(unit(log([BF16]), **unsure), None).verdict == "unproved"
    assert prove(unit(log([FP8], tokens=2502982), **unsure), None).verdict == "violated"
    # The seed that each start draws ties it to the server that answers; a seed that is always the same does not.
    assert prove(unit(log([BF16]), **unsure), info()).ok
    fixed = {"random_seed": "327776380"}
    assert prove(unit(log([BF16]), **unsure), info(), arguments=fixed).verdict == "unproved"


def test_another_server_on_the_port_is_noticed() -> None:
    verdict = prove(unit(log([BF16])), info(seed=99, tokens=5))
    assert verdict.verdict == "unproved"
    assert any("another server answers" in item.says for item in verdict.evidence)
    assert prove(unit(log([FP8], tokens=2502982)), info(seed=99)).verdict == "violated"


def test_a_failed_unit_proves_nothing() -> None:
    assert prove(unit(log([BF16]), active_state="failed"), None).verdict == "unproved"


def test_text_that_a_request_quotes_is_not_the_engines() -> None:
    quoted = "[2026-11-29 18:00:00] Receive: text='[2026-11-29 17:57:10] Using KV cache dtype: torch.float8_e4m3fn'"
    assert prove(unit([*log([BF16]), quoted]), info()).ok
    assert not facts([quoted]).recognised


# --- receipts ---------------------------------------------------------------------------------------------------------


def test_a_receipt_of_this_start_stands_in_for_a_rotated_log() -> None:
    receipt = prove(unit(log([BF16])), info()).receipt
    rotated = unit([], complete=False)
    again = prove(rotated, info(), receipt=receipt)
    assert again.ok and again.receipt["invocation_id"] == receipt["invocation_id"]
    assert prove(rotated, info()).verdict == "unproved"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"invocation_id": "b" * 32}, info()),
        ({"effective_dtype": "fp8_e4m3"}, info()),
        ({"tokens": 7}, info()),
        ({}, info(gib=None)),
        ({}, None),
        ({}, info(tokens=2502982, gib=35.81)),
    ],
)
def test_a_receipt_that_does_not_stand(change: dict[str, t.Any], answer: t.Any) -> None:
    receipt = {**prove(unit(log([BF16])), info()).receipt, **change}
    assert not prove(unit([], complete=False), answer, receipt=receipt).ok


# --- versions -------------------------------------------------------------------------------------------------------


def test_a_version_that_no_table_knows_is_proved_by_arithmetic() -> None:
    wording = ["[2026-11-29 17:57:10] KV pool ready in a new wording"]
    verdict = prove(unit(wording), info("auto", version="0.6.1"), version=None)
    assert verdict.ok
    assert any("arithmetic alone" in item.says for item in verdict.evidence)
    assert prove(unit(wording), info("auto", tokens=2502982, version="0.6.1"), version=None).verdict == "violated"
    assert prove(None, info("auto", version="0.6.1"), version=None).ok
    # A version that is known words its log as the tables say; a log without such a line is no proof.
    assert prove(unit(wording), info()).verdict == "unproved"


def test_moved_fields_are_found() -> None:
    moved = {
        "sglang_version": "0.6.1",
        "memory_usage": {"kvcache": 35.81, "token_capacity": 1251491},
        "server_args": {"tp_size": 1},
    }
    assert prove(None, moved, version=None).ok


@pytest.mark.parametrize(
    "states", [None, [], {}, "x", [None], [{"memory_usage": None}], [{"memory_usage": {"kvcache": "x"}}]]
)
def test_answers_of_strange_shapes(states: t.Any) -> None:
    assert prove(None, {"internal_states": states, "version": 5}).verdict == "unproved"


def test_the_size_after_capture_counts() -> None:
    """Newer versions may reserve addresses first: that figure is an upper bound and no memory."""
    lines = [line for line in log([BF16]) if "KV" not in line]
    mark = "[2026-11-29 17:57:10]"
    bound = (
        f"{mark} KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9000000, K size: 128.75 GB, V size: 128.75 GB"
    )
    after = (
        f"{mark} Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, "
        "#tokens: 1251491, KV size: 35.81 GB, "
        "avail mem=3.00 GB"
    )
    found = facts([bound, after])
    assert [pool.tokens for pool in found.pools] == [1251491]
    assert prove(unit([*lines, bound, after]), info(version="0.5.23"), version=None).ok


def test_a_draft_pool_of_the_targets_shape() -> None:
    half = 2048 * 1251491 / 1024**3 / 2
    draft = (
        f"[2026-11-29 17:57:11] KV Cache is allocated. #tokens: 1251491, K size: {half:.2f} GB, V size: {half:.2f} GB"
    )
    assert prove(unit([*log([BF16]), draft]), info(speculative_algorithm="EAGLE")).ok
    quarter = half / 2
    sizes = f"K size: {quarter:.2f} GB, V size: {quarter:.2f} GB"
    fp8 = f"[2026-11-29 17:57:11] KV Cache is allocated. #tokens: 1251491, {sizes}"
    assert prove(unit([*log([BF16]), fp8]), info(speculative_algorithm="EAGLE")).verdict == "violated"


def test_auto_ordered_is_whatever_is_proved() -> None:
    lines, answer = unit(log([FP8], tokens=2502982)), info("fp8_e4m3", tokens=2502982)
    verdict = _kv_live.prove("auto", kv_models.CAPTURED, lines, answer, tp_size=1, engine_version="0.5.12.post1")
    assert verdict.ok and verdict.effective_dtype == "fp8_e4m3"
    assert not _kv_live.prove("auto", kv_models.CAPTURED, None, answer, tp_size=1, engine_version="0.5.12.post1").ok


# --- the captures of real servers -------------------------------------------------------------------------------


def captured(shared: pathlib.Path, name: str, pid: int, tp: int = 1) -> KvVerdict:
    folder = shared / "captures" / name
    answer = folder / "server_info.200.json"
    lines = _unit_log.read_file(str(folder / "server.log"), pid)
    return prove(lines, json.loads(answer.read_text()) if answer.exists() else None, tp, version=None)


@pytest.mark.parametrize(
    ("name", "pid", "tp", "verdict", "effective"),
    [
        ("kv_auto_fp8_checkpoint", 563, 1, "violated", "fp8_e4m3"),
        ("kv_auto_fp8_checkpoint_0.5.16", 698, 1, "violated", "fp8_e4m3"),
        ("kv_bf16_override", 1716, 1, "ok", "bfloat16"),
        ("kv_bf16_override", 1717, 1, "unproved", "unknown"),
        ("tp2_bf16_beside_a_forgotten_server", 2152, 2, "ok", "bfloat16"),
        ("tp2_auto_beaten_to_the_port", 900, 2, "violated", "fp8_e4m3"),
        ("kv_fp8_e4m3_explicit_api_key", 2333, 1, "violated", "fp8_e4m3"),
    ],
)
def test_captures(shared: pathlib.Path, *, name: str, pid: int, tp: int, verdict: str, effective: str) -> None:
    result = captured(shared, name, pid, tp)
    assert (result.verdict, result.effective_dtype) == (verdict, effective)


def test_a_capture_is_refuted_by_internal_states_and_arithmetic(shared: pathlib.Path) -> None:
    result = captured(shared, "kv_auto_fp8_checkpoint", 563)
    assert weights(result, "internal_states") == {"refutes"}
    assert weights(result, "arithmetic") == {"proves"}
    assert weights(result, "/server_info kv_cache_dtype") == {"nothing"}


def test_a_log_beside_the_answers_of_another_server(shared: pathlib.Path) -> None:
    lines = _unit_log.read_file(str(shared / "captures/kv_bf16_override/server.log"), 1716)
    answer = json.loads((shared / "captures/kv_auto_fp8_checkpoint/server_info.200.json").read_text())
    assert prove(lines, answer, version=None).verdict == "violated"  # what answers keeps FP8
    other = json.loads((shared / "captures/tp2_bf16_beside_a_forgotten_server/server_info.200.json").read_text())
    assert prove(lines, other, version=None).verdict == "unproved"


def test_figures_of_the_captured_logs(shared: pathlib.Path) -> None:
    found = facts((shared / "captures/tp2_auto_beaten_to_the_port/server.log").read_text().splitlines())
    assert found.slots == {"TP0": 361, "TP1": 361} and found.requests == 120
    assert found.load_begin["TP0"] == 138.28 and found.load_end["TP1"] == 137.37

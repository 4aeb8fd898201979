"""A server that does not have its GPUs to itself, by each source that may know it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import kv_models
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate,
    _gate_roomy,
    _http,
    _procs,
    _service,
    _unit_log,
)

UNIT = "sglang-qwen.service"
# The card of the captures, and what each of two servers that share it holds of it.
TOTAL_MIB = 143771
OURS_MIB, OTHER_MIB = 39200, 73300
# The captured server beside a forgotten one: lines of its log and what /server_info said.
BESIDE_LOG = [f"[2026-11-29 18:27:14 TP{rank}] Load weight begin. avail mem=66.58 GB" for rank in (0, 1)]
BESIDE_INFO = {
    "version": "0.5.12.post1",
    "tp_size": 2,
    "mem_fraction_static": 0.5,
    "mamba_scheduler_strategy": "no_buffer",
    "mamba_full_memory_ratio": 0.9,
    "disable_radix_cache": False,
    "page_size": 1,
    "attention_backend": "triton",
    "max_total_num_tokens": 1194148,
    "internal_states": [{"memory_usage": {"weight": 0.91, "kvcache": 17.08, "token_capacity": 1194148}}],
}


class Cards:
    """Two GPUs with a process of ours and one of somebody else, real ones as far as /proc is asked."""

    def __init__(self) -> None:
        self.ours, self.other = (subprocess.Popen(["sleep", "600"]) for _number in range(2))
        self.used = OURS_MIB + OTHER_MIB
        self.seen = {self.ours.pid: str(OURS_MIB), self.other.pid: str(OTHER_MIB)}
        self.broken = False

    def run(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] != "nvidia-smi" or self.broken:
            return 9, "", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        if words[1].startswith("--query-gpu"):
            return 0, "".join(f"{index}, GPU-{index}, {self.used}, {TOTAL_MIB}\n" for index in range(2)), ""
        return 0, "".join(f"{pid}, GPU-{index}, {mib}\n" for pid, mib in self.seen.items() for index in range(2)), ""

    def free(self, *, log: list[str], info: dict[str, Any], config: dict[str, Any] | None = None) -> _gate.Check:
        instance = {"name": "qwen", "model_path": "/models/m", "gpus": "all", "kv_cache_dtype": "bf16", "gate": {}}
        context = _gate.Context(
            self.run,
            _service.Places("qwen"),
            instance,
            _gate.settings_of(instance),
            _http.Client("http://127.0.0.1:9"),
            log=_unit_log.UnitLog(lines=log),
            info=info,
            checkpoint=config or kv_models.CAPTURED,
        )
        return _gate_roomy.roomy_free(context)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cards]:
    made = Cards()
    monkeypatch.setattr(_procs, "unit_of", lambda pid: UNIT if pid == made.ours.pid else "session-3.scope")
    monkeypatch.setattr(_procs, "gpu_users", dict)
    yield made
    for process in (made.ours, made.other):
        process.kill()
        process.wait()


def test_the_log_of_the_start_tells(cards: Cards) -> None:
    cards.seen = {}
    check = cards.free(log=BESIDE_LOG, info={})
    assert check.passed is False
    assert check.seen == "66.58 GiB on TP0"


def test_without_the_log_who_holds_memory_now_tells(cards: Cards) -> None:
    check = cards.free(log=[], info={})
    assert check.passed is False
    assert f"sleep (pid {cards.other.pid}" in check.seen
    assert f"GPU 0: {OTHER_MIB} MiB" in check.seen


def test_what_cannot_be_seen_from_a_container_tells_by_its_memory(cards: Cards) -> None:
    del cards.seen[cards.other.pid]
    check = cards.free(log=[], info={})
    assert check.passed is False
    assert "cannot be seen from here" in check.seen


def test_when_it_has_ended_since_the_capacity_tells(cards: Cards) -> None:
    del cards.seen[cards.other.pid]
    cards.used = OURS_MIB
    check = cards.free(log=[], info=BESIDE_INFO)
    assert check.passed is False, check
    assert str(check.seen).startswith("1194148 tokens, while empty GPUs of this size hold at least 2")


def test_the_capacity_of_a_server_alone_passes(cards: Cards) -> None:
    cards.seen, cards.used = {}, OURS_MIB
    # As captured without another server (kv_bf16_override): one GPU, 1,251,491 tokens.
    alone = {**BESIDE_INFO, "tp_size": 1, "max_total_num_tokens": 1251491}
    alone["internal_states"] = [{"memory_usage": {"weight": 1.14, "kvcache": 35.81, "token_capacity": 1251491}}]
    check = cards.free(log=[], info=alone)
    assert check.passed is True, check


def test_a_server_alone_passes_by_its_log_and_by_the_holders(cards: Cards) -> None:
    del cards.seen[cards.other.pid]
    cards.used = OURS_MIB + 300  # what the driver itself takes
    check = cards.free(log=[line.replace("66.58", "139.13") for line in BESIDE_LOG], info={})
    assert check.passed is True
    assert "nobody else holds memory on its GPUs now" in check.evidence


def test_an_earlier_crowd_is_not_excused_by_nobody_being_there_now(cards: Cards) -> None:
    del cards.seen[cards.other.pid]
    cards.used = OURS_MIB
    assert cards.free(log=BESIDE_LOG, info={}).passed is False


def test_a_share_that_nvidia_smi_does_not_give_is_not_taken_for_a_stranger_s(cards: Cards) -> None:
    cards.seen, cards.used = {cards.ours.pid: "[N/A]"}, OURS_MIB
    check = cards.free(log=[], info={})
    assert check.passed is None
    assert "nvidia-smi does not say what this server holds on GPU 0, GPU 1" in check.evidence


def test_without_nvidia_smi_a_rank_that_found_less_than_another_tells(cards: Cards) -> None:
    cards.broken = True
    check = cards.free(log=[BESIDE_LOG[0], BESIDE_LOG[1].replace("66.58", "139.13")], info={})
    assert (check.passed, check.seen) == (False, "66.58 GiB on TP0")


def test_only_where_nothing_is_known_nothing_is_said(cards: Cards) -> None:
    cards.broken = True
    check = cards.free(log=[], info=BESIDE_INFO)
    assert (check.passed, check.seen) == (None, None)
    assert any("couldn't communicate" in words for words in check.evidence)


def test_a_server_of_one_rank_is_named_in_the_words_about_memory(cards: Cards) -> None:
    # Seen on a real GPU: with --tp-size 1 the engine writes no rank, and the words ended in "GiB on ".
    cards.seen = {}
    check = cards.free(log=["[2026-11-29 17:57:10] Load weight begin. avail mem=139.13 GB"], info={})
    assert check.seen == "139.13 GiB on TP0"


@pytest.mark.parametrize("source", ["log", "holders", "capacity"])
def test_the_captured_server_beside_a_forgotten_one_is_refused(source: str, cards: Cards, shared: pathlib.Path) -> None:
    folder = shared / "captures" / "tp2_bf16_beside_a_forgotten_server"
    lines = (folder / "server.log").read_text(encoding="utf-8").splitlines()
    info = json.loads((folder / "server_info.200.json").read_text(encoding="utf-8"))
    if source != "holders":  # the forgotten one has ended since
        del cards.seen[cards.other.pid]
        cards.used = OURS_MIB
    check = cards.free(log=lines if source == "log" else [], info=info if source == "capacity" else {})
    assert check.passed is False, check


def test_the_captured_server_alone_passes_by_each_source(cards: Cards, shared: pathlib.Path) -> None:
    folder = shared / "captures" / "kv_bf16_override"
    lines = (folder / "server.log").read_text(encoding="utf-8").splitlines()
    info = json.loads((folder / "server_info.200.json").read_text(encoding="utf-8"))
    cards.seen, cards.used = {}, OURS_MIB
    for log, said in ((lines, {}), ([], info)):
        assert cards.free(log=log, info=said).passed is True

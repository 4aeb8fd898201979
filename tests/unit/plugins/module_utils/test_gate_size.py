"""How large burst and long prompt are: by the settings, else by what the running server says."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gate, _gate_size, _http, _service


def context(
    info: dict[str, Any],
    gate: dict[str, Any] | None = None,
    need: dict[str, int] | None = None,
    args: dict[str, Any] | None = None,
) -> _gate.Context:
    instance = {"name": "qwen", "model_path": "/models/m", "gate": gate or {}, "need": need, "args": args or {}}
    return _gate.Context(
        run=lambda words: (1, "", ""),
        places=_service.Places("qwen", root=str(pathlib.Path("/nonexistent"))),
        instance=instance,
        settings=_gate.settings_of(instance),
        client=_http.Client("http://127.0.0.1:9"),
        info=info,
    )


def server(runs: int | None = None, **fields: Any) -> dict[str, Any]:
    """What /server_info says, by the names of the captured servers."""
    state = {"effective_max_running_requests_per_dp": runs} if runs else {}
    return {"internal_states": [state], "max_total_num_tokens": 1194148, "max_req_input_len": 262138, **fields}


# (the server runs at once, need.concurrent, gate.concurrency, requests of the burst, what the reason says)
BURSTS = [
    (371, None, None, 64, "races between kernels show from 64"),
    (57, None, None, 57, "the server runs 57 at once"),
    (4, None, None, 8, "never fewer than 8"),
    (371, 128, None, 128, "need.concurrent is 128"),
    (100, 128, None, 100, "which it cannot reach"),
    (4096, 1000, None, 256, "need.concurrent"),
    (371, 4, None, 64, "races between kernels"),
    (371, 128, 3, 3, "gate.concurrency is 3"),
    (None, None, None, 64, "does not say"),
]


@pytest.mark.parametrize(("runs", "need", "given", "number", "reason"), BURSTS)
def test_the_burst(runs: int | None, need: int | None, given: int | None, number: int, reason: str) -> None:
    asked = context(
        server(runs), {"concurrency": given} if given else {}, {"context": 8192, "concurrent": need} if need else None
    )
    size = _gate_size.burst(asked)
    assert size.number == number
    assert reason in size.reason


def test_a_server_of_several_groups_runs_as_many_in_each() -> None:
    assert _gate_size.burst(context(server(20, dp_size=2))).number == 40


def test_no_more_are_sent_than_run_and_queue() -> None:
    assert _gate_size.burst(context(server(2, max_queued_requests=3))).number == 5
    assert _gate_size.burst(context(server(2, max_queued_requests=300))).number == 8


def test_where_only_the_arguments_tell_what_runs_at_once_they_count() -> None:
    assert _gate_size.burst(context({}, args={"max_running_requests": 12})).number == 12
    assert _gate_size.burst(context({"max_running_requests": 16})).number == 16


# A word of so many tokens, what the server says, gate.long_prompt_words, words, what the reason says.
PROMPTS = [
    (2.0, {}, None, 20501, "faults show from 40000 tokens on"),
    (1.25, {}, None, 32801, "faults show"),
    (2.0, {"max_req_input_len": 10000}, None, 4960, "a request holds 10000 tokens"),
    (2.0, {"max_total_num_tokens": 20080}, None, 10000, "the KV cache holds 20080 tokens"),
    (2.0, {"context_length": 8080}, None, 4000, "context_length"),
    (2.0, {"max_req_input_len": 10000}, 300, 300, "gate.long_prompt_words is 300"),
    (2.0, {}, 60000, 60000, "gate.long_prompt_words is 60000"),
    (2.0, {"max_req_input_len": 10000}, 60000, 4960, "a request holds 10000 tokens; gate.long_prompt_words is 60000"),
    (2.0, {"max_req_input_len": 40}, None, 1, "a request holds 40 tokens"),
]


@pytest.mark.parametrize(("per_word", "says", "given", "words", "reason"), PROMPTS)
def test_the_long_prompt(per_word: float, says: dict[str, int], given: int | None, words: int, reason: str) -> None:
    asked = context(server(64, **says), {"long_prompt_words": given} if given else {})
    size = _gate_size.long_prompt(asked, per_word)
    assert size.number == words
    assert reason in size.reason
    # 16 tokens are answered; prompt and answer must fit together.
    if words > 1:
        assert words * per_word + 16 <= min(says.get("max_req_input_len", 262138), 1194148)


def test_a_server_that_says_nothing_gets_a_prompt_that_any_takes() -> None:
    size = _gate_size.longest_words(context({}), 3.0)
    assert (size.number, size.reason) == (973, "the server does not say how long a request may be")


def test_a_long_prompt_may_take_longer_than_a_short_one() -> None:
    asked = context({}, {"request_timeout": 5})
    assert _gate_size.patience(asked, 40000) == 85
    assert _gate_size.patience(asked, 0) == 5

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep asks and what limits each of its levels (private to the collection).

A published figure at C=512 with a median wait of 17 minutes for the first token is the length of a queue, not a speed.
So each level is judged beforehand against the room that the server itself reports, and its label says what it measured.
"""

from __future__ import annotations

import dataclasses
import typing as t

LEVELS = (1, 4, 16, 32, 64, 128, 256, 512, 1024)
# Prompts per concurrent request: with fewer, ramp-up and drain are a large part of the wall time (engine's own advice).
PROMPTS_PER_LEVEL = 5
# A single stream is judged by few requests, else one slow start is the whole figure.
FEWEST_PROMPTS = 8
DATASETS = {
    "text": "random",  # the client cuts real text, given as a file, to the length asked for
    "random": "random-ids",  # token ids drawn at random
}
# Share of the client's own ceiling from which a level says more about the client than about the server.
CLIENT_SHARE = 0.7


@dataclasses.dataclass(frozen=True)
class Shape:
    """Lengths of every request of a sweep, in tokens, and the kind of prompt: ``text`` or ``random``."""

    input_len: int = 1024
    output_len: int = 512
    dataset: str = "text"

    @property
    def tokens(self) -> int:
        """Tokens of KV cache that one request holds when it ends."""
        return self.input_len + self.output_len

    @property
    def name(self) -> str:
        """Names the shape in files and headings."""
        return f"{self.dataset}-{self.input_len}-{self.output_len}"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the running server can hold at once; None where it does not say.

    ``kv_tokens``: tokens of the KV pool. ``requests``: requests that may run at once. ``slots``: state slots of a model
    with linear attention (0 for others). ``request_cause``: ``state slots`` or ``max_running_requests``.
    """

    kv_tokens: int | None = None
    requests: int | None = None
    slots: int = 0
    request_cause: str = "max_running_requests"
    context: int | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """For the result."""
        return dataclasses.asdict(self)


def limits_of(info: t.Mapping[str, t.Any], context: int | None = None) -> Limits:
    """Read the limits from /server_info.

    Fields seen in 0.5.12 and 0.5.16: ``max_total_num_tokens``, ``max_req_input_len`` (context less a handful), and in
    ``internal_states[0]`` ``effective_max_running_requests_per_dp`` and ``max_mamba_cache_size`` (filled in by the
    engine when the model keeps states).
    """
    states = info.get("internal_states")
    state: t.Mapping[str, t.Any] = states[0] if isinstance(states, list) and states else {}
    memory = state.get("memory_usage") or {}
    ranks = _int(info.get("dp_size")) or 1
    per_rank = _int(state.get("effective_max_running_requests_per_dp")) or _int(info.get("max_running_requests"))
    slots = _int(state.get("max_mamba_cache_size")) or _int(info.get("max_mamba_cache_size")) or 0
    asked = _int(info.get("max_running_requests"))
    tokens = _int(info.get("max_total_num_tokens")) or _int(memory.get("token_capacity"))
    by_slots = slots > 0 and (asked is None or per_rank is None or per_rank < asked)
    return Limits(
        kv_tokens=tokens * ranks if tokens else None,
        requests=per_rank * ranks if per_rank else None,
        slots=slots,
        request_cause="state slots" if by_slots else "max_running_requests",
        context=context or _int(info.get("context_length")) or _int(info.get("max_req_input_len")),
    )


@dataclasses.dataclass(frozen=True)
class Level:
    """One level before it is run. ``run`` is False where nothing of it could be measured; ``why`` says so."""

    concurrency: int
    prompts: int
    label: str
    c_max: int | None
    why: str
    run: bool = True


def plan(levels: t.Iterable[int], shape: Shape, limits: Limits, per_level: int = PROMPTS_PER_LEVEL) -> list[Level]:
    """The levels of a sweep with their labels; ascending, each once."""
    return [level(number, shape, limits, per_level) for number in sorted({int(each) for each in levels})]


def level(concurrency: int, shape: Shape, limits: Limits, per_level: int = PROMPTS_PER_LEVEL) -> Level:
    """Judge one level: ``compute``, ``kv``, ``slots``, ``requests`` or ``cannot-fit``.

    C_max = KV tokens / (input + output): a request holds its whole prompt and, at its end, its whole answer.
    """
    prompts = max(per_level * concurrency, FEWEST_PROMPTS)
    if limits.context is not None and shape.tokens > limits.context:
        why = f"{shape.tokens} tokens a request are more than the context of {limits.context}"
        return Level(concurrency, prompts, "cannot-fit", 0, why, run=False)
    by_kv = limits.kv_tokens // shape.tokens if limits.kv_tokens is not None else None
    if by_kv == 0:
        why = f"{shape.tokens} tokens a request are more than the whole KV pool of {limits.kv_tokens}"
        return Level(concurrency, prompts, "cannot-fit", 0, why, run=False)
    bounds = [bound for bound in (by_kv, limits.requests) if bound is not None]
    c_max = min(bounds) if bounds else None
    if c_max is None:
        return Level(concurrency, prompts, "compute", None, "the server does not say what it can hold")
    if concurrency <= c_max:
        return Level(concurrency, prompts, "compute", c_max, f"all {concurrency} fit at once (at most {c_max})")
    if by_kv is not None and by_kv == c_max:
        why = f"{limits.kv_tokens} KV tokens hold {by_kv} requests of {shape.tokens} tokens: the rest waits"
        return Level(concurrency, prompts, "kv", c_max, why)
    if limits.request_cause == "state slots":
        why = f"{limits.slots} state slots serve {limits.requests} requests at once: the rest waits"
        return Level(concurrency, prompts, "slots", c_max, why)
    return Level(concurrency, prompts, "requests", c_max, f"max_running_requests is {limits.requests}: the rest waits")


LABELS = {
    "compute": "compute-limited",
    "kv": "queue-limited by KV tokens",
    "slots": "queue-limited by state slots",
    "requests": "queue-limited by max_running_requests",
    "cannot-fit": "cannot fit",
    "errors": "errors",
}


def _int(value: t.Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

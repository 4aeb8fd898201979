# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large the gate's burst and its long prompt are for an instance (private to the collection).

What the instance sets under ``gate`` counts. Without it the running server decides, since a fault that needs a size can
only be met by a server that takes this size, and is not seen by a probe that stays below it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Context
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_ordered import fetch_info
from ansible_collections.blackwell.sglang.plugins.module_utils._gate_roomy import capacity_of

# Below this a burst shows nothing that single requests do not.
BURST_LEAST = 8
# The race between kernels of FlashInfer (PDL without its fences, #2716) shows from 64 requests at once: field report
# B001, facts on SM120 A.2 and A.4.
BURST_RACE = 64
# A declared need may be larger; more threads than this say more about the client than about the server.
BURST_MOST = 256
# Errors that only long prompts show begin at 40,000 tokens: facts on SM120 A.4. A little more, since words are counted.
LONG_TOKENS = 41_000
# A prompt that surely fits where the server says nothing about its limit.
UNKNOWN_TOKENS = 3_000
# Left free beside prompt and answer, for what the server adds.
SLACK_TOKENS = 64
# Slowest prefill that is waited for, tokens/s; published figures for SM120 begin at 9,600 (128K tokens in 13.25 s).
SLOWEST_PREFILL = 500


@dataclasses.dataclass(frozen=True)
class Size:
    """A size, and in words where it comes from."""

    number: int
    reason: str


def burst(context: Context) -> Size:
    """Requests of the burst: ``gate.concurrency``, else 64 or the larger declared need, as far as the server runs them
    at once; never fewer than 8."""
    given = context.settings["concurrency"]
    if given is not None:
        return Size(max(2, int(given)), f"gate.concurrency is {given}")
    need = min(BURST_MOST, _need(context, "concurrent"))
    wanted, why = BURST_RACE, f"races between kernels show from {BURST_RACE} at once"
    if need > BURST_RACE:
        wanted, why = need, f"need.concurrent is {need}"
    info = fetch_info(context) or {}
    each = capacity_of(context, info)["requests"]
    runs = _argument(context, info, "max_running_requests") if each is None else each * (_int(info.get("dp_size")) or 1)
    if runs is None:
        return Size(wanted, f"{why}; the server does not say how many it runs at once")
    if runs < wanted:
        # Beyond a queue that has an end, requests are refused.
        queue = _argument(context, info, "max_queued_requests")
        least = BURST_LEAST if queue is None else min(BURST_LEAST, runs + queue)
        words = f", but never fewer than {least}" if runs < least else ""
        return Size(max(least, runs), f"the server runs {runs} at once{words}; {why}, which it cannot reach")
    return Size(wanted, f"{why}; the server runs up to {runs}")


def long_prompt(context: Context, per_word: float) -> Size:
    """Words of the long prompt: ``gate.long_prompt_words``, else 41,000 tokens; as far as a request may be so long.

    ``per_word`` is the tokens that the server's own tokenizer makes of a word.
    """
    most = longest_words(context, per_word)
    given = context.settings["long_prompt_words"]
    wanted = int(given) if given is not None else int(LONG_TOKENS / per_word) + 1
    why = f"gate.long_prompt_words is {given}" if given is not None else "faults show from 40000 tokens on"
    if most.number < wanted:
        return Size(most.number, f"{most.reason}; {why}")
    return Size(wanted, why)


def longest_words(context: Context, per_word: float) -> Size:
    """Words of a prompt that surely fit: the least of what a request may hold and what the KV cache holds."""
    info = fetch_info(context) or {}
    capacity = capacity_of(context, info)
    limits = {
        f"a request holds {capacity['context']} tokens": capacity["context"],
        f"the KV cache holds {capacity['tokens']} tokens": capacity["tokens"],
        "context_length of the arguments": _argument(context, info, "context_length"),
    }
    known = {words: tokens for words, tokens in limits.items() if tokens}
    if not known:
        known = {"the server does not say how long a request may be": UNKNOWN_TOKENS}
    reason, tokens = min(known.items(), key=lambda each: each[1])
    return Size(max(1, int((tokens - int(context.settings["max_tokens"]) - SLACK_TOKENS) / per_word)), reason)


def patience(context: Context, tokens: float) -> float:
    """Seconds to wait for the answer to a prompt of so many tokens; ``gate.request_timeout`` is for a short one."""
    return float(context.settings["request_timeout"]) + tokens / SLOWEST_PREFILL


def _need(context: Context, key: str) -> int:
    return int((context.instance.get("need") or {}).get(key) or 0)


def _argument(context: Context, info: dict[str, t.Any], field: str) -> int | None:
    return _int(info.get(field) or (context.instance.get("args") or {}).get(field))


def _int(value: t.Any) -> int | None:
    try:
        return int(value) if value else None
    except (TypeError, ValueError):
        return None

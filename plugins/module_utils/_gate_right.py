# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate, second group: does it compute right (private to the collection).

The signs of NaN were captured from a real server whose every layer yielded it: /health 200, chat 200, the text ``!!!!``
(token 0), and ``null`` where each log-probability should be. Log-probabilities are therefore asked first.
"""

from __future__ import annotations

import math
import typing as t
import uuid

from ansible_collections.blackwell.sglang.plugins.module_utils import _gate_size, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Check, Context
from ansible_collections.blackwell.sglang.plugins.module_utils._http import Reply

# Shortest answer, in tokens, from which a repetition is counted: "Paris." is no loop.
LOOP_TOKENS = 8
# Longest cycle of tokens that counts as a loop; field reports show cycles of one ("++++") to three ("\n\n</").
LOOP_PERIOD = 4
# Two log-probabilities this near are a tie that another order of additions may decide otherwise (bf16 keeps 8 bits).
TIE = 0.15
# Items of the sample from which the tokens of a word are counted, words of an item, and tokens of a word where the
# server counts none (a tokenizer that takes digits one by one makes 2.4).
SAMPLE_ITEMS = 100
ITEM_WORDS = 5
UNKNOWN_TOKENS_A_WORD = 3.0
# matched_stop of an answer that ran out of the vocabulary (schedule_batch.py of 0.5.9 to 0.5.23).
NAN_STOP = "NaN happened"


def right_logprobs(context: Context) -> Check:
    """The log-probability of every token is a number."""
    answer = generate(context, context.settings["prompt"], context.settings["max_tokens"])
    faults = logprob_faults(answer)
    seen = f"{len(answer['logprobs'])} log-probabilities, mean {mean(answer['logprobs'])}"
    check = Check("right.logprobs", not faults, "a finite number for each token", seen, faults)
    if faults:
        check.seen = faults[0]
        check.evidence.append(f"text {answer['text'][:80]!r}, output ids {answer['ids'][:8]}")
    return check


def right_text(context: Context) -> Check:
    """A chat completion that a person could read: not empty, no loop, no U+FFFD, no NaN."""
    body = {
        "model": context.model,
        "messages": [{"role": "user", "content": "Say in one sentence what a graphics card does."}],
        "temperature": 0,
        "max_tokens": max(32, context.settings["max_tokens"]),
    }
    path = "/v1/chat/completions"
    reply = context.client.post(path, body, timeout=context.settings["request_timeout"])
    evidence = []
    if reply.status == 400 and "template" in reply.text.lower():
        evidence.append("the model has no chat template; /v1/completions was asked")
        path = "/v1/completions"
        body.pop("messages")
        body["prompt"] = context.settings["prompt"]
        reply = context.client.post(path, body, timeout=context.settings["request_timeout"])
    choice = first_choice(reply)
    if choice is None:
        return Check("right.text", False, "a completion", f"{path}: {reply.status} {reply.text[:120]}", evidence)
    text = choice_text(choice)
    faults = text_faults(text, [], context.settings["repetition"])
    if choice.get("matched_stop") == NAN_STOP:
        faults.insert(0, f"matched_stop is {NAN_STOP!r}: a token outside of the vocabulary was sampled")
    return Check("right.text", not faults, "readable text", text[:120], faults + evidence)


def right_same(context: Context) -> Check:
    """The same prompt twice gives the same answer, although most of the second comes from the prefix cache."""
    # New words first, or the first answer would come from the cache as well, of an earlier check or an earlier gate.
    # Some hundred words, since a cache keeps whole pages only (64 tokens in some configurations).
    lines = " ".join(f"Entry {number} of the list is {number * 7}." for number in range(30))
    start = f"Note {uuid.uuid4().hex[:12]}. {lines}"
    prompt = f"{start} {context.settings['prompt']}"
    one = generate(context, prompt, context.settings["max_tokens"])
    # The cache of a hybrid model keeps a state where a prompt ended, and nowhere within it: a real server took 0 of 588
    # tokens of a repeated prompt, and 649 of 655 once the start had been asked alone.
    generate(context, start, 1)
    two = generate(context, prompt, context.settings["max_tokens"])
    same, words = agree(one, two)
    evidence = [words, f"cached tokens: {one['cached']} and {two['cached']} of {two['prompt_tokens']}"]
    if not two["cached"]:
        evidence.append("nothing came from the prefix cache, so this says nothing about it")
    faults = logprob_faults(two) + text_faults(two["text"], two["ids"], context.settings["repetition"])
    return Check("right.same", same and not faults, one["text"][:80], two["text"][:80], evidence + faults)


def right_long(context: Context) -> Check:
    """A long prompt: prefill in several chunks, and the attention kernels at another size."""
    # One prompt of some hundred words tells how many tokens this tokenizer makes of a word.
    counted = generate(context, listing(SAMPLE_ITEMS), 1)["prompt_tokens"]
    per_word = counted / (SAMPLE_ITEMS * ITEM_WORDS) if counted else UNKNOWN_TOKENS_A_WORD
    size = _gate_size.long_prompt(context, per_word)
    prompt = listing(size.number // ITEM_WORDS + 1) + " In short, the list says that"
    patience = _gate_size.patience(context, size.number * per_word)
    answer = generate(context, prompt, context.settings["max_tokens"], patience)
    faults = logprob_faults(answer) + text_faults(answer["text"], answer["ids"], context.settings["repetition"])
    seen = f"{answer['prompt_tokens']} tokens in, {len(answer['ids'])} out"
    reason = f"{size.number} words of {per_word:.1f} tokens: {size.reason}"
    return Check("right.long", not faults, "numbers and readable text after a long prompt", seen, [*faults, reason])


def listing(items: int) -> str:
    """A prompt of so many items, of :data:`ITEM_WORDS` words and equally many tokens each."""
    # New words first: an earlier gate of this start would have left the whole list in the prefix cache, and the prefill
    # is what is asked about. Numbers of five digits, so that every item has as many tokens as those of the sample.
    lines = " ".join(f"Item {10000 + number} weighs {number % 7} kg." for number in range(items))
    return f"Note {uuid.uuid4().hex[:12]}. {lines}"


def right_burst(context: Context) -> Check:
    """Several requests at once: races between kernels that a single request does not show (flashinfer #2708)."""
    import concurrent.futures  # noqa: PLC0415 - late: the cheap part of the gate sends no burst

    size = _gate_size.burst(context)

    def one(number: int) -> list[str]:
        answer = generate(context, f"Request {number}. {context.settings['prompt']}", context.settings["max_tokens"])
        return logprob_faults(answer) + text_faults(answer["text"], answer["ids"], context.settings["repetition"])

    faults: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=size.number) as pool:
        for number, future in enumerate([pool.submit(one, each) for each in range(size.number)]):
            try:
                faults += [f"request {number}: {fault}" for fault in future.result()]
            except SglangError as exc:
                faults.append(f"request {number}: {exc.what}")
    state = _service.unit_states(context.run, [context.places.unit])[context.places.unit]
    if state["active"] != "active" or state["invocation_id"] != context.invocation_id:
        faults.insert(0, f"the unit did not survive the burst: {state['active']} ({state['sub']}, {state['result']})")
    bad = len({fault.split(":", 1)[0] for fault in faults})
    seen = f"{size.number - bad} of {size.number}"
    evidence = [*faults[:5], f"{size.number} requests: {size.reason}"]
    return Check("right.burst", not faults, f"{size.number} right answers at once", seen, evidence)


def generate(context: Context, prompt: str, tokens: int, timeout: float | None = None) -> dict[str, t.Any]:
    """One answer of /generate: ``{text, ids, logprobs, prompt_tokens, cached, stop}``.

    ``timeout`` in seconds; without it ``gate.request_timeout``.

    Raises:
        SglangError: no answer, another status than 200, or a body of another shape.
    """
    body = {
        "text": prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": int(tokens)},
        "return_logprob": True,
    }
    limit = context.settings["request_timeout"] if timeout is None else timeout
    reply = context.client.post("/generate", body, timeout=limit)
    answer = reply.json[0] if isinstance(reply.json, list) and reply.json else reply.json
    if not reply.ok or not isinstance(answer, dict) or "meta_info" not in answer:
        raise SglangError(
            f"/generate answers {reply.status}: {reply.text[:160]}", where=context.places.unit, expected="a completion"
        )
    meta = answer["meta_info"]
    pairs = meta.get("output_token_logprobs") or []
    finish = meta.get("finish_reason")
    return {
        "text": str(answer.get("text") or ""),
        "ids": list(answer.get("output_ids") or [pair[1] for pair in pairs]),
        "logprobs": [pair[0] for pair in pairs],
        "prompt_tokens": meta.get("prompt_tokens"),
        "cached": meta.get("cached_tokens"),
        "stop": finish.get("matched") if isinstance(finish, dict) else None,
    }


def logprob_faults(answer: dict[str, t.Any]) -> list[str]:
    """What is wrong with the log-probabilities of an answer, empty when they are all numbers."""
    values = answer["logprobs"]
    if answer["stop"] == NAN_STOP:
        return [f"finish reason {NAN_STOP!r}: a token outside of the vocabulary was sampled"]
    if not values:
        return ["the answer holds no log-probabilities although they were asked for"]
    bad = [value for value in values if not isinstance(value, (int, float)) or not math.isfinite(value)]
    if bad:
        return [
            f"{len(bad)} of {len(values)} log-probabilities are {'null' if bad[0] is None else bad[0]}, not numbers:"
            " the model computes NaN"
        ]
    return []


def text_faults(text: str, ids: list[int], share: float) -> list[str]:
    """What is wrong with a text: empty, replacement characters, or a loop of tokens or of one character."""
    faults = []
    if not text.strip() and not ids:
        faults.append("the answer is empty")
    if "\ufffd" in text:
        faults.append(f"{text.count(chr(0xFFFD))} replacement characters (U+FFFD) in {len(text)}")
    for period in range(1, LOOP_PERIOD + 1):
        pairs = len(ids) - period
        if len(ids) >= LOOP_TOKENS and pairs > 0:
            equal = sum(1 for index in range(period, len(ids)) if ids[index] == ids[index - period]) / pairs
            if equal >= share:
                faults.append(f"{equal:.0%} of the tokens repeat the one {period} before: a loop, {text[:40]!r}")
                break
    letters = "".join(text.split())
    if len(letters) >= 2 * LOOP_TOKENS:
        most = max(set(letters), key=letters.count)
        if letters.count(most) / len(letters) >= share:
            faults.append(f"{letters.count(most)} of {len(letters)} characters are {most!r}")
    return faults


def agree(one: dict[str, t.Any], two: dict[str, t.Any]) -> tuple[bool, str]:
    """Whether two answers to one prompt are the same, and in words.

    Greedy decoding may break a near tie differently when the second prefill is shorter (prefix cache). Where the first
    differing tokens are such a tie the answers agree; any other difference says that one of the two paths is wrong.
    """
    for index, (first, second) in enumerate(zip(one["ids"], two["ids"], strict=False)):
        if first == second:
            continue
        values = (one["logprobs"][index : index + 1] + two["logprobs"][index : index + 1]) or [None]
        if all(isinstance(value, (int, float)) for value in values) and abs(values[0] - values[-1]) <= TIE:
            return True, f"equal up to token {index}, then a near tie ({values[0]:.3f} and {values[-1]:.3f})"
        return False, f"the answers differ from token {index} on (log-probabilities {values})"
    if len(one["ids"]) != len(two["ids"]):
        return False, f"one answer has {len(one['ids'])} tokens, the other {len(two['ids'])}"
    return True, f"{len(one['ids'])} equal tokens"


def first_choice(reply: Reply) -> dict[str, t.Any] | None:
    """The first choice of an OpenAI-shaped answer."""
    choices = reply.json.get("choices") if reply.ok and isinstance(reply.json, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def choice_text(choice: dict[str, t.Any]) -> str:
    """All text of a choice; with a reasoning parser a short answer may hold nothing but reasoning."""
    message = choice.get("message") or {}
    parts = (message.get("reasoning_content"), message.get("content"), choice.get("text"))
    return "".join(str(part) for part in parts if part)


def mean(values: list[t.Any]) -> str:
    """Mean of the numbers among the values, for people."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    return f"{sum(numbers) / len(numbers):.3f}" if numbers else "none"


CHECKS: tuple[t.Callable[[Context], Check], ...] = (right_logprobs, right_text, right_same, right_long, right_burst)
QUICK: tuple[t.Callable[[Context], Check], ...] = (right_logprobs,)

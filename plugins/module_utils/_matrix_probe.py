# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes that show a backend which computes wrong at some shapes only (private to the collection).

Wrong kernels are rarely wrong everywhere. One known fault gives zeros at M = 3072 and at no other size (M is the number
of rows of a GEMM: prompt tokens of a prefill step); another is a race that shows at 64 concurrent requests. So prompts
of many exact lengths are asked, three of each, and many at once. Prompts go out as token ids: no tokenizer is needed on
the host, and M is exact.
"""

from __future__ import annotations

import concurrent.futures
import math
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_text, _gate_right, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Context

# Prompt lengths: powers of two and sizes between them, since the reported faults sat between tile sizes (3072).
LENGTHS = (
    *(2, 7, 16, 48, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024, 1280, 1536, 1792, 2048),
    *(2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192),
)
# Prompts of each length: one that differs from the reference may be a near tie, three are none.
EACH = 3
# Tokens of an answer: enough for a loop to show, few enough to be cheap.
ANSWER = 16
BURST = 64
BURST_PROMPT = 24
BURST_ANSWER = 32
# Last prompt tokens whose log-probability the server is asked for: their mean tells garbage from sense whatever comes
# after. All of them would cost the server a float for each of 248,320 words at each token.
SCORED = 64
# Characters of text sent to learn its token ids.
PIECE = 900


def token_ids(context: Context, count: int) -> list[int]:
    """At least ``count`` token ids of real text in the model's own vocabulary, as the server returns them for a prompt.

    Raises:
        SglangError: the server does not give the ids of a prompt.
    """
    text = prose(_bench_text.corpus())
    ids: list[int] = []
    for start in range(0, len(text), PIECE):
        meta = _meta(context, {"text": text[start : start + PIECE], "logprob_start_len": 0}, 1)
        ids += [int(entry[1]) for entry in meta.get("input_token_logprobs") or []]
        if len(ids) >= count:
            return ids
        if start == 0 and not ids:
            break
    if ids:
        return (ids * (count // len(ids) + 1))[:count]
    raise SglangError(
        "the server gives no token ids of a prompt",
        where=context.places.unit,
        expected="input_token_logprobs in the answer of /generate",
        kind="no_ids",
    )


def prose(text: str) -> str:
    """The lines of a text that are mostly words: after a ruler of dashes, more dashes are the right answer."""
    lines = []
    for line in text.splitlines():
        letters = sum(1 for char in line if char.isalpha() or char == " ")
        if len(line) >= 30 and letters >= 0.85 * len(line):
            lines.append(line.strip())
    return "\n".join(lines)


def lengths_for(info: t.Mapping[str, t.Any], wanted: t.Sequence[int] = LENGTHS) -> list[int]:
    """The lengths that one prefill step takes whole: at most the chunk size, and what a request may hold."""
    chunk = info.get("chunked_prefill_size")
    room = info.get("max_req_input_len")
    limit = min(
        chunk if isinstance(chunk, int) and chunk > 0 else max(wanted),
        room - ANSWER if isinstance(room, int) and room > ANSWER else max(wanted),
    )
    return [length for length in wanted if length <= limit]


def by_length(context: Context, ids: list[int], lengths: t.Sequence[int], each: int = EACH) -> list[dict[str, t.Any]]:
    """Ask ``each`` prompts of every length, one at a time; one answer a prompt, see :func:`ask`.

    No two prompts begin alike, so that no prefix cache makes the prefill shorter than the prompt.
    """
    flush(context)
    answers = []
    for place, length in enumerate(lengths):
        for number in range(each):
            start = (place * each + number) * 11 % max(1, len(ids) - length + 1)
            answers.append(ask(context, f"M={length}/{number + 1}", ids[start : start + length], ANSWER))
    return answers


def burst(context: Context, ids: list[int], count: int = BURST) -> list[dict[str, t.Any]]:
    """Ask ``count`` different prompts at once."""
    flush(context)
    prompts = [ids[start % max(1, len(ids) - BURST_PROMPT) :][:BURST_PROMPT] for start in range(5, 5 + 13 * count, 13)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=count) as pool:
        waiting = [
            pool.submit(ask, context, f"burst/{number + 1}", prompt, BURST_ANSWER)
            for number, prompt in enumerate(prompts)
        ]
        return [each.result() for each in waiting]


def long_prompt(context: Context, ids: list[int], tokens: int) -> list[dict[str, t.Any]]:
    """One prompt of many tokens, cut to what a request may hold: prefill in chunks, attention far back."""
    room = (context.info or {}).get("max_req_input_len")
    tokens = min(tokens, room - 2 * ANSWER) if isinstance(room, int) and room > 4 * ANSWER else tokens
    prompt = (ids * (tokens // len(ids) + 1))[:tokens]
    return [ask(context, f"long={tokens}", prompt, ANSWER)]


def ask(context: Context, probe: str, prompt: list[int], tokens: int) -> dict[str, t.Any]:
    """One prompt; ``{probe, ids, logprobs, prompt_logprob, faults, loops, lost}``.

    ``faults`` are what is wrong with the answer whatever was asked (no number, U+FFFD); ``loops`` are repetitions, of
    which a right model, too, makes some. ``lost`` says that no answer came, with the kind of the failure (``timeout``,
    ``refused``, ``status``), and is empty otherwise.
    """
    start = max(0, len(prompt) - SCORED)
    try:
        meta = _meta(context, {"input_ids": prompt, "logprob_start_len": start}, tokens)
    except SglangError as exc:
        empty: dict[str, t.Any] = {"ids": [], "logprobs": [], "prompt_logprob": None, "loops": []}
        return {"probe": probe, **empty, "faults": [exc.what], "lost": exc.kind or "status"}
    pairs = meta.get("output_token_logprobs") or []
    finish = meta.get("finish_reason")
    text = str(meta["text"])
    ids = [int(pair[1]) for pair in pairs]
    values = [pair[0] for pair in pairs]
    stop = finish.get("matched") if isinstance(finish, dict) else None
    faults = _gate_right.logprob_faults({"logprobs": values, "stop": stop})
    spoken = _gate_right.text_faults(text, ids, float(context.settings["repetition"]))
    faults += [fault for fault in spoken if not _is_loop(fault)]
    scored = [entry[0] for entry in (meta.get("input_token_logprobs") or [])[1:] if entry]
    numbers = [value for value in scored if isinstance(value, (int, float)) and math.isfinite(value)]
    if scored and len(numbers) < len(scored):
        faults.append(f"{len(scored) - len(numbers)} of {len(scored)} log-probabilities of the prompt are no numbers")
    return {
        "probe": probe,
        "ids": ids,
        "logprobs": [round(value, 4) if isinstance(value, (int, float)) else None for value in values],
        "prompt_logprob": round(sum(numbers) / len(numbers), 4) if numbers else None,
        "faults": faults,
        "loops": [fault for fault in spoken if _is_loop(fault)],
        "lost": "",
    }


def flush(context: Context) -> None:
    """Empty the prefix cache; a server that refuses is no reason to stop."""
    context.client.post("/flush_cache", {}, timeout=30.0)


def survived(context: Context) -> str:
    """Empty when the unit still runs in the start that was probed, else what became of it."""
    unit = context.places.unit
    state = _service.unit_states(context.run, [unit])[unit]
    if state["active"] == "active" and state["invocation_id"] == context.invocation_id:
        return ""
    return f"{unit} is {state['active']} ({state['sub']}): {state['result']}, status {state['exit_status']}"


def _is_loop(fault: str) -> bool:
    return "U+FFFD" not in fault and "empty" not in fault


def _meta(context: Context, prompt: dict[str, t.Any], tokens: int) -> dict[str, t.Any]:
    """meta_info of one greedy answer, with its text."""
    params = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = {**prompt, "sampling_params": params, "return_logprob": True}
    reply = context.client.post("/generate", body, timeout=float(context.settings["request_timeout"]))
    answer = reply.json[0] if isinstance(reply.json, list) and reply.json else reply.json
    if not reply.ok or not isinstance(answer, dict) or "meta_info" not in answer:
        raise SglangError(f"/generate answers {reply.status}: {reply.text[:160]}", kind="status")
    return {**answer["meta_info"], "text": answer.get("text") or ""}

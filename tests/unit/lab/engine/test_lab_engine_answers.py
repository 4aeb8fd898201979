"""What the stand-in engine says, and in which shape."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lab_engine_kit import LAB_FLAGS, Engine, Start


def chat(engine: Engine, text: str, **more: Any) -> Any:
    return engine.json("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})


def say(engine: Engine, text: str, limit: int = 16, **more: Any) -> Any:
    return engine.json("/generate", {"text": text, "sampling_params": {"max_new_tokens": limit}, **more})


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the capital of France?", "Paris"),
        ("What is the capital of Japan? Answer with one word.", "Tokyo"),
        ("What is 17 + 25?", "42"),
        ("Two plus two is what?", "four"),
        ("Count from 1 to 5.", "1, 2, 3, 4, 5"),
        ("The access code is 48213. " + "Rivers flow. " * 500 + "What is the access code?", "48213"),
        ("Reply with exactly the word: ready", "ready"),
    ],
)
def test_sensible_answers(qwen: Engine, question: str, answer: str) -> None:
    reply = chat(qwen, question, max_tokens=32, temperature=0)
    assert answer in reply["choices"][0]["message"]["content"]
    assert reply["choices"][0]["finish_reason"] == "stop"


def test_completions_continue(qwen: Engine) -> None:
    reply = qwen.json("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 8, "logprobs": 1})
    assert reply["choices"][0]["text"].startswith(" Paris")
    assert reply["object"] == "text_completion"
    assert all(isinstance(value, float) for value in reply["choices"][0]["logprobs"]["token_logprobs"])


def test_same_prompt_same_answer_and_only_a_longer_one_hits_the_cache(qwen: Engine) -> None:
    """As a real hybrid model without extra_buffer, which keeps a state where a prompt ended and nowhere within it."""
    text = "Once upon a time in a town without a name, " * 20 + "it rained."
    first, second = (say(qwen, text, 40, return_logprob=True) for _rest in range(2))
    assert first["text"] == second["text"]
    assert first["output_ids"] == second["output_ids"]
    assert first["meta_info"]["cached_tokens"] == 0
    assert second["meta_info"]["cached_tokens"] == 0
    longer = say(qwen, text + " And then it rained.", 40)
    assert longer["text"] != first["text"]
    assert longer["meta_info"]["cached_tokens"] == second["meta_info"]["prompt_tokens"]


def test_text_is_no_repetition_and_respects_the_limit(qwen: Engine) -> None:
    reply = say(qwen, "Write about anything", 200)
    ids = reply["output_ids"]
    assert len(ids) == 200
    assert reply["meta_info"]["finish_reason"] == {"type": "length", "length": 200}
    assert all(a != b for a, b in pairwise(ids))
    assert len(set(ids)) > 30
    assert 0 not in ids


def test_stop_words_and_ignore_eos(qwen: Engine) -> None:
    words = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 30, "ignore_eos": True}}
    assert len(qwen.json("/generate", words)["output_ids"]) == 30
    words["sampling_params"] = {"max_new_tokens": 30, "stop": ["aris"]}
    reply = qwen.json("/generate", words)
    assert reply["text"] == " P"
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": "aris"}


def test_logprobs_are_numbers(qwen: Engine) -> None:
    meta = say(qwen, "Hello there", 4, return_logprob=True, logprob_start_len=0, top_logprobs_num=2)["meta_info"]
    assert [len(row) for row in meta["output_token_logprobs"]] == [3, 3, 3, 3]
    assert all(row[0] < 0 for row in meta["output_token_logprobs"])
    assert meta["input_token_logprobs"][0][0] is None
    assert len(meta["output_top_logprobs"][0]) == 2
    reply = chat(qwen, "Hello", max_tokens=3, logprobs=True, top_logprobs=1)
    assert all(entry["logprob"] < 0 for entry in reply["choices"][0]["logprobs"]["content"])


def events(text: str) -> list[Any]:
    rows = [row.removeprefix("data: ") for row in text.strip().split("\n\n")]
    assert rows[-1] == "[DONE]"
    return [json.loads(row) for row in rows[:-1]]


def test_streams(qwen: Engine) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "stream": True}
    body["stream_options"] = {"include_usage": True}
    rows = events(qwen.ask("/v1/chat/completions", body)[1])
    said = "".join(row["choices"][0]["delta"]["content"] or "" for row in rows if row["choices"])
    assert said == "Paris."
    assert rows[-1]["choices"] == []
    assert rows[-1]["usage"]["completion_tokens"] == 2
    assert rows[-2]["choices"][0]["finish_reason"] == "stop"
    rows = events(qwen.ask("/v1/completions", {"prompt": "The capital of France is", "stream": True})[1])
    assert "".join(row["choices"][0]["text"] for row in rows) == " Paris."
    rows = events(qwen.ask("/generate", {"text": "The capital of France is", "stream": True})[1])
    assert rows[-1]["text"] == " Paris."
    assert rows[-1]["meta_info"]["finish_reason"]["type"] == "stop"


def test_usage_with_cache_report(qwen: Engine) -> None:
    short = {"prompt": "Tell me about bridges.", "max_tokens": 2}
    known = qwen.json("/v1/completions", short)["usage"]["prompt_tokens"]
    usage = qwen.json("/v1/completions", {**short, "prompt": "Tell me about bridges. And of ferries."})["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == known


def test_burst_is_answered_and_equal(qwen: Engine) -> None:
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda _rest: say(qwen, "Tell me about the sea", 24)["text"], range(64)))
    assert len(set(replies)) == 1


def test_reasoning_comes_first_and_eats_the_limit(models: Path, start: Start) -> None:
    engine = start(models / "nvfp4", *LAB_FLAGS, "--reasoning-parser", "qwen3").wait()
    question = "What is the capital of France?"
    message = chat(engine, question, max_tokens=64)["choices"][0]["message"]
    assert message["content"] == "Paris."
    assert message["reasoning_content"]
    short = chat(engine, question, max_tokens=8)
    assert short["choices"][0]["message"]["content"] is None
    assert short["usage"]["reasoning_tokens"] == 8
    quick = chat(engine, question, max_tokens=8, chat_template_kwargs={"enable_thinking": False})
    assert quick["choices"][0]["message"]["content"] == "Paris."


def test_requests_that_are_refused(qwen: Engine) -> None:
    assert qwen.ask("/v1/chat/completions", {"model": "qwen"})[0] == 400
    assert qwen.ask("/generate", {})[0] == 400
    status, text = qwen.ask("/generate", {"input_ids": [1] * 262144})
    assert status == 400
    assert "longer than the model's context length (262144 tokens)" in text
    assert qwen.ask("/nothing") == (404, '{"detail":"Not Found"}')
    assert qwen.ask("/generate") == (405, '{"detail":"Method Not Allowed"}')


def test_long_prompt_by_ids(qwen: Engine) -> None:
    reply = qwen.json("/generate", {"input_ids": list(range(1, 40001)), "sampling_params": {"max_new_tokens": 4}})
    assert reply["meta_info"]["prompt_tokens"] == 40000


def test_metrics_count(qwen: Engine) -> None:
    def value(name: str) -> float:
        lines = qwen.ask("/metrics")[1].splitlines()
        return float(next(line for line in lines if line.startswith(f"sglang:{name}{{")).rpartition(" ")[2])

    before = value("generation_tokens_total")
    say(qwen, "Count me", 7)
    assert value("generation_tokens_total") == before + 7
    assert value("max_total_num_tokens") == qwen.json("/server_info")["max_total_num_tokens"]


def test_deprecated_endpoints_say_so(qwen: Engine) -> None:
    assert qwen.json("/get_server_info")["version"] == "0.5.12.post1"
    assert "Endpoint '/get_server_info' is deprecated" in qwen.text()
    assert qwen.json("/get_model_info")["architectures"] == ["Qwen3_5MoeForConditionalGeneration"]

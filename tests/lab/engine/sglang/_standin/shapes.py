"""The captured JSON shapes of the answers, key order included."""

from __future__ import annotations

import math
import time
from typing import Any

from sglang._standin import answers
from sglang._standin.engine import Engine, Result
from sglang._standin.release import __version__

META = {"weight_version": "default"}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def model_info(engine: Engine) -> dict[str, Any]:
    """/model_info."""
    args, checkpoint = engine.args, engine.loader.checkpoint
    return {
        "model_path": args.model_path,
        "tokenizer_path": args.tokenizer_path,
        "is_generation": not args.is_embedding,
        "preferred_sampling_params": args.preferred_sampling_params,
        "weight_version": args.weight_version,
        "has_image_understanding": checkpoint.is_multimodal,
        "has_audio_understanding": False,
        "model_type": checkpoint.config.get("model_type"),
        "architectures": checkpoint.config.get("architectures"),
    }


def models(engine: Engine) -> dict[str, Any]:
    """/v1/models."""
    name = engine.args.served_model_name
    card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": name}
    return {"object": "list", "data": [{**card, "parent": None, "max_model_len": engine.loader.context_len}]}


def server_info(engine: Engine) -> dict[str, Any]:
    """/server_info: the arguments as given, the scheduler's figures, the arguments as resolved in internal_states."""
    loader = engine.loader
    given = engine.args.as_dict()
    asked = given["kv_cache_dtype"]
    resolved = {
        **given,
        "kv_cache_dtype": asked if asked != "auto" or loader.kv_dtype == "bf16" else loader.kv_dtype,
        "pp_max_micro_batch_size": loader.pools.requests,
        "decode_attention_backend": given["decode_attention_backend"] or given["attention_backend"],
        "prefill_attention_backend": given["prefill_attention_backend"] or given["attention_backend"],
        "disable_chunked_prefix_cache": True,
    }
    if loader.geometry.linear_layers:
        resolved["max_mamba_cache_size"] = loader.pools.slots
    resolved |= {
        "enable_grpc": False,
        "grpc_port": 40000,
        "_quantization_explicitly_unset": False,
        "use_mla_backend": False,
        "_mx_config_cache": {},
        "last_gen_throughput": 0.0,
        "memory_usage": {
            "weight": round(loader.weight_gib, 2),
            "kvcache": round(loader.pools.kv_gib, 2),
            "token_capacity": loader.pools.tokens,
            "graph": round(loader.graph_gib, 2) or 0,
        },
        "effective_max_running_requests_per_dp": loader.pools.requests,
    }
    return {
        **given,
        "status": "ready",
        "max_total_num_tokens": loader.pools.tokens,
        "max_req_input_len": loader.context_len - 6,
        "internal_states": [resolved],
        "version": __version__,
    }


def generate(
    engine: Engine, result: Result, asked: dict[str, Any], pieces: list[answers.Piece] | None = None
) -> dict[str, Any]:
    """/generate; `pieces` are those said so far when streaming."""
    said = result.pieces if pieces is None else pieces
    done = pieces is None or len(pieces) == len(result.pieces)
    now = time.time()
    meta: dict[str, Any] = {
        "id": result.identity,
        "finish_reason": result.finish if done else None,
        "prompt_tokens": len(result.call.pieces),
        **META,
        "num_retractions": 0,
    }
    if engine.args.enable_metrics:
        meta["queue_time"] = 0.0
    if asked.get("return_logprob"):
        with_text = bool(asked.get("return_text_in_logprobs"))
        start = asked.get("logprob_start_len")
        begin = len(result.call.pieces) if start is None or start < 0 else int(start)
        heard = [
            answers.Piece(piece, answers.token_id(piece), -2.5 if place else math.nan)
            for place, piece in enumerate(result.call.pieces)
        ]
        meta["input_token_logprobs"] = [_logprob(p, with_text) for p in heard[begin:]]
        meta["output_token_logprobs"] = [_logprob(piece, with_text) for piece in said]
        meta["output_token_logprobs_length"] = len(said)
        if asked.get("top_logprobs_num"):
            meta["input_top_logprobs"] = []
            meta["output_top_logprobs"] = [
                [_logprob(piece, with_text)] * int(asked["top_logprobs_num"]) for piece in said
            ]
    meta |= {
        "reasoning_tokens": len(result.reasoning),
        "completion_tokens": len(said) + len(result.reasoning),
        "cached_tokens": result.call.cached,
        "cached_tokens_details": None,
        "dp_rank": None,
        "e2e_latency": now - result.call.arrived,
    }
    if engine.args.enable_metrics:
        meta |= {
            "request_received_ts": result.call.arrived,
            "api_server_dispatch_finish_ts": result.started,
            "request_finished_ts": now,
            "decode_throughput": len(said) / max(1e-6, now - result.started),
        }
    meta["response_sent_to_client_ts"] = now
    return {"text": "".join(p.text for p in said), "output_ids": [p.token for p in said], "meta_info": meta}


def _logprob(piece: answers.Piece, with_text: bool) -> list[Any]:
    return [_number(piece.logprob), piece.token, piece.text if with_text else None]


def usage(engine: Engine, results: list[Result]) -> dict[str, Any]:
    """The usage block of the OpenAI endpoints."""
    prompt = sum(len(result.call.pieces) for result in results)
    completion = sum(result.completion_tokens for result in results)
    cached = sum(result.call.cached for result in results)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if engine.args.enable_cache_report else None,
        "reasoning_tokens": sum(len(result.reasoning) for result in results),
    }


def _finish(result: Result) -> dict[str, Any]:
    return {"finish_reason": result.finish["type"], "matched_stop": result.finish.get("matched")}


def chat(engine: Engine, result: Result, asked: dict[str, Any]) -> dict[str, Any]:
    """/v1/chat/completions."""
    reasoning = "".join(p.text for p in result.reasoning) or None
    content = result.text or (None if reasoning else "")
    logprobs = None
    if asked.get("logprobs"):
        top = int(asked.get("top_logprobs") or 0)
        logprobs = {"content": [_chat_logprob(piece, top) for piece in result.pieces]}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": None},
        "logprobs": logprobs,
        **_finish(result),
    }
    return {
        "id": result.identity,
        "object": "chat.completion",
        "created": int(result.call.arrived),
        "model": asked.get("model") or engine.args.served_model_name,
        "choices": [choice],
        "usage": usage(engine, [result]),
        "metadata": META,
    }


def _chat_logprob(piece: answers.Piece, top: int) -> dict[str, Any]:
    entry = {"token": piece.text, "bytes": list(piece.text.encode()), "logprob": _number(piece.logprob)}
    return {**entry, "top_logprobs": [entry] * top}


def chat_chunk(
    engine: Engine, result: Result, asked: dict[str, Any], delta: dict[str, Any], last: bool
) -> dict[str, Any]:
    """One event of a streamed chat completion."""
    finish = _finish(result) if last else {"finish_reason": None, "matched_stop": None}
    blank = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}
    return {
        "id": result.identity,
        "object": "chat.completion.chunk",
        "created": int(result.call.arrived),
        "model": asked.get("model") or engine.args.served_model_name,
        "choices": [{"index": 0, "delta": {**blank, **delta}, "logprobs": None, **finish}],
        "usage": None,
    }


def completion(engine: Engine, results: list[Result], asked: dict[str, Any]) -> dict[str, Any]:
    """/v1/completions."""
    choices = []
    for index, result in enumerate(results):
        logprobs = None
        if asked.get("logprobs") is not None:
            logprobs = {
                "text_offset": [-1] * len(result.pieces),
                "token_logprobs": [_number(piece.logprob) for piece in result.pieces],
                "tokens": [piece.text for piece in result.pieces],
                "top_logprobs": [{piece.text: _number(piece.logprob)} for piece in result.pieces],
            }
        text = (asked["prompt"] if asked.get("echo") and isinstance(asked["prompt"], str) else "") + result.text
        choices.append({"index": index, "text": text, "logprobs": logprobs, **_finish(result)})
    return {
        "id": results[0].identity,
        "object": "text_completion",
        "created": int(results[0].call.arrived),
        "model": asked.get("model") or engine.args.served_model_name,
        "choices": choices,
        "usage": usage(engine, results),
        "metadata": META,
    }

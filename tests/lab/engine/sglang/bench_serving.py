"""`python -m sglang.bench_serving`: the real client's flags, result line and table, over a few threads.

Prompts are random token ids of the asked lengths; each request streams, so that times are measured and not made up.
Imitates the captures in bench_serving/ (0.5.12.post1).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Output:
    """One request's times in seconds; `error` is empty for a good one."""

    prompt: int
    ttft: float = 0.0
    latency: float = 0.0
    tokens: int = 0
    began: float = 0.0
    itl: list[float] = field(default_factory=list)
    error: str = ""


def make_parser() -> argparse.ArgumentParser:
    """The flags that matter to a sweep; the others of the real client are not taken."""
    parser = argparse.ArgumentParser(description="Benchmark the online serving throughput.")
    parser.add_argument("--backend", default="sglang", choices=["sglang", "sglang-native", "sglang-oai", "vllm"])
    parser.add_argument("--base-url")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--dataset-name", default="sharegpt", choices=["sharegpt", "random", "random-ids"])
    parser.add_argument("--dataset-path", default="")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name")
    parser.add_argument("--tokenizer")
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--random-input-len", type=int, default=1024)
    parser.add_argument("--random-output-len", type=int, default=1024)
    parser.add_argument("--random-range-ratio", type=float, default=0.0)
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument("--output-file")
    parser.add_argument("--disable-tqdm", action="store_true")
    parser.add_argument("--disable-ignore-eos", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flush-cache", action="store_true")
    parser.add_argument("--warmup-requests", type=int, default=1)
    parser.add_argument("--tokenize-prompt", action="store_true")
    parser.add_argument("--ready-check-timeout-sec", type=int, default=60)
    parser.add_argument("--tag")
    return parser


def open_url(url: str, body: dict[str, Any] | None = None, timeout: float = 600.0) -> Any:
    """Open a URL with the key that the environment holds."""
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if os.environ.get("OPENAI_API_KEY"):
        request.add_header("Authorization", f"Bearer {os.environ['OPENAI_API_KEY']}")
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout)


def send(url: str, ids: list[int], length: int, ignore_eos: bool) -> Output:
    """Send one streaming request and take the times."""
    output = Output(prompt=len(ids), began=time.perf_counter())
    params = {"temperature": 0, "max_new_tokens": length, "ignore_eos": ignore_eos}
    try:
        with open_url(f"{url}/generate", {"input_ids": ids, "sampling_params": params, "stream": True}) as reply:
            last = output.began
            for line in reply:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                now = time.perf_counter()
                if output.tokens:
                    output.itl.append(now - last)
                else:
                    output.ttft = now - output.began
                last = now
                output.tokens = json.loads(line[6:])["meta_info"]["completion_tokens"]
            output.latency = last - output.began
    except (OSError, ValueError, KeyError) as error:
        output.error = f"{type(error).__name__}: {error}"
    return output


def draw_requests(args: argparse.Namespace) -> list[tuple[list[int], int]]:
    """Token ids and output lengths, drawn between ratio x N and N."""
    chosen = random.Random(args.seed)

    def length(most: int) -> int:
        return chosen.randint(max(1, int(most * args.random_range_ratio)), most)

    return [
        ([chosen.randint(1, 240000) for _ in range(length(args.random_input_len))], length(args.random_output_len))
        for _ in range(args.num_prompts)
    ]


def percentile(values: list[float], share: int) -> float:
    """Linear interpolation between the closest ranks, as NumPy's default."""
    ordered = sorted(values) or [0.0]
    place = (len(ordered) - 1) * share / 100
    low = int(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def spread(name: str, values: list[float], shares: tuple[int, ...]) -> dict[str, float]:
    """Mean, median, deviation and percentiles of seconds, in ms."""
    ms = [value * 1000 for value in values] or [0.0]
    found = {f"mean_{name}_ms": statistics.fmean(ms), f"median_{name}_ms": statistics.median(ms)}
    found[f"std_{name}_ms"] = statistics.pstdev(ms)
    return {**found, **{f"p{share}_{name}_ms": percentile(ms, share) for share in shares}}


def summarize(args: argparse.Namespace, info: Any, good: list[Output], duration: float) -> dict[str, Any]:
    """The result line in the captured order of keys."""
    prompt, tokens = sum(output.prompt for output in good), sum(output.tokens for output in good)
    ends = sorted((second, change) for o in good for second, change in ((o.began, 1), (o.began + o.latency, -1)))
    running = most = 0
    for _, change in ends:
        running += change
        most = max(most, running)
    tpot = [(o.latency - o.ttft) / (o.tokens - 1) for o in good if o.tokens > 1]
    itl = [gap for output in good for gap in output.itl]
    return {
        "tag": args.tag,
        "backend": args.backend,
        "dataset_name": args.dataset_name,
        "request_rate": args.request_rate,
        "max_concurrency": args.max_concurrency,
        "sharegpt_output_len": None,
        "random_input_len": args.random_input_len,
        "random_output_len": args.random_output_len,
        "random_range_ratio": args.random_range_ratio,
        "server_info": info,
        "duration": duration,
        "completed": len(good),
        "total_input_tokens": prompt,
        "total_input_text_tokens": prompt,
        "total_input_vision_tokens": 0,
        "total_output_tokens": tokens,
        "total_output_tokens_retokenized": tokens,
        "request_throughput": len(good) / duration,
        "input_throughput": prompt / duration,
        "output_throughput": tokens / duration,
        "total_throughput": (prompt + tokens) / duration,
        **spread("e2e_latency", [output.latency for output in good], (90, 99)),
        **spread("ttft", [output.ttft for output in good], (99,)),
        **spread("tpot", tpot, (99,)),
        **spread("itl", itl, (95, 99)),
        "concurrency": sum(output.latency for output in good) / duration,
        "accept_length": None,
        "max_output_tokens_per_s": tokens / max(duration, 1.0),
        "max_concurrent_requests": most,
    }


def table(result: dict[str, Any], args: argparse.Namespace) -> str:
    """The printed result; a row is (label, key, how to write the value)."""
    plain = [
        ("Backend:", args.backend), ("Traffic request rate:", args.request_rate),
        ("Max request concurrency:", args.max_concurrency or "not set"), ("Successful requests:", result["completed"]),
        ("Benchmark duration (s):", result["duration"]), ("Total input tokens:", result["total_input_tokens"]),
        ("Total generated tokens:", result["total_output_tokens"]),
        ("Request throughput (req/s):", result["request_throughput"]),
        ("Output token throughput (tok/s):", result["output_throughput"]), ("Concurrency:", result["concurrency"]),
        ("Mean E2E Latency (ms):", result["mean_e2e_latency_ms"]), ("Mean TTFT (ms):", result["mean_ttft_ms"]),
        ("Mean TPOT (ms):", result["mean_tpot_ms"]), ("Mean ITL (ms):", result["mean_itl_ms"]),
    ]  # fmt: skip
    rows = [f"{label:<40} {f'{value:.2f}' if isinstance(value, float) else value!s:<10}" for label, value in plain]
    return "\n".join([" Serving Benchmark Result ".center(50, "="), *rows, "=" * 50])


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Warm up, send everything, return the result line."""
    url = args.base_url or f"http://{args.host}:{args.port}"
    requests = draw_requests(args)
    print(f"\n#Input tokens: {sum(len(ids) for ids, _ in requests)}")
    print(f"#Output tokens: {sum(length for _, length in requests)}")
    print(f"Starting warmup with {args.warmup_requests} sequences...", flush=True)
    for _ in range(args.warmup_requests):
        output = send(url, requests[0][0], min(requests[0][1], 32), True)
        if output.error:
            raise ValueError(
                "Warmup failed - Please make sure benchmark arguments are correctly specified. "
                f"Error: output.error={output.error!r}"
            )
    print(f"Warmup completed with {args.warmup_requests} sequences. Starting main benchmark run...", flush=True)
    if args.flush_cache:
        open_url(f"{url}/flush_cache", {}).close()
    done: list[Output] = []

    def one(request: tuple[list[int], int]) -> None:
        done.append(send(url, *request, not args.disable_ignore_eos))
        if done[-1].error:
            print(f"output.error={done[-1].error!r}", flush=True)
        if not args.disable_tqdm:
            share = len(done) * 100 // len(requests)
            sys.stderr.write(f"\r{share:3d}%|{'█' * (share // 10):<10}| {len(done)}/{len(requests)} [00:00<00:00]")

    began = time.perf_counter()
    with ThreadPoolExecutor(args.max_concurrency or len(requests)) as pool:
        list(pool.map(one, requests))
    duration = time.perf_counter() - began
    with open_url(f"{url}/server_info") as reply:
        info = json.load(reply)
    result = summarize(args, info, [output for output in done if not output.error], duration)
    print("\n\n" + table(result, args))
    return result


def main() -> int:
    """Parse, run, append the result line to the output file."""
    args = make_parser().parse_args()
    print(args)
    result = run(args)
    name = f"{args.backend}_{time.strftime('%m%d')}_{args.num_prompts}_{args.dataset_name}.jsonl"
    with Path(args.output_file or name).open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""/metrics in Prometheus text, with the names and labels of the capture that an operator looks at."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglang._standin.engine import Engine


def render(engine: Engine, seen: Counter[tuple[str, str]], answered: Counter[tuple[str, str, int]]) -> str:
    """Return the text; gauges carry the scheduler's labels, counters those of the API server."""
    name = engine.args.served_model_name
    api = f'engine_type="unified",model_name="{name}"'
    rank = f'{api},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    pools, totals = engine.loader.pools, engine.totals
    lines: list[str] = []

    def family(metric: str, kind: str, text: str, samples: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP sglang:{metric} {text}")
        lines.append(f"# TYPE sglang:{metric} {kind}")
        for labels, value in samples:
            lines.append(
                f"sglang:{metric}{{{labels}}} {value:g}"
                if value >= 1e6
                else f"sglang:{metric}{{{labels}}} {float(value)}"
            )

    def gauge(metric: str, text: str, value: float) -> None:
        family(metric, "gauge", text, [(rank, value)])

    paths = [(f'endpoint="{path}",method="{method}"', float(count)) for (path, method), count in seen.items()]
    family("http_requests_total", "counter", "Total number of HTTP requests by endpoint and method", paths)
    replies = [
        (f'endpoint="{path}",method="{method}",status_code="{status}"', float(count))
        for (path, method, status), count in answered.items()
    ]
    family("http_responses_total", "counter", "Total number of HTTP responses by endpoint and status code", replies)
    family("prompt_tokens_total", "counter", "Number of prefill tokens processed.", [(api, totals["prompt"])])
    family(
        "generation_tokens_total", "counter", "Number of generation tokens processed.", [(api, totals["generation"])]
    )
    family("num_requests_total", "counter", "Number of requests processed.", [(api, totals["requests"])])
    if totals["cached"]:
        family("cached_tokens_total", "counter", "Number of cached prompt tokens.", [(api, totals["cached"])])
    lines.append("# HELP sglang:max_total_num_tokens Maximum total number of tokens in the KV cache pool.")
    lines.append("# TYPE sglang:max_total_num_tokens gauge")
    lines.append(f"sglang:max_total_num_tokens{{{rank}}} {_go_float(pools.tokens)}")
    gauge("page_size", "KV cache page size in tokens.", engine.args.page_size)
    lines.append("# HELP sglang:num_pages Number of KV cache pages.")
    lines.append("# TYPE sglang:num_pages gauge")
    lines.append(f"sglang:num_pages{{{rank}}} {_go_float(pools.tokens // engine.args.page_size)}")
    gauge("context_len", "Maximum context length.", engine.loader.context_len)
    gauge("startup_available_gpu_memory_gb", "Available GPU memory in GB at startup.", engine.loader.free_gib)
    gauge("num_running_reqs", "The number of running requests.", engine.running)
    gauge("num_queue_reqs", "The number of requests in the waiting queue.", 0)
    gauge("gen_throughput", "The generation throughput (token/s).", 0)
    gauge("cache_hit_rate", "The prefix cache hit rate.", totals["cached"] / max(1, totals["prompt"]))
    gauge("token_usage", "The token usage.", 0)
    gauge("full_token_usage", "The token usage for full attention layers.", 0)
    gauge("mamba_usage", "The token usage for Mamba layers.", 0)
    gauge("num_used_tokens", "The number of used tokens.", 0)
    gauge("mamba_available_tokens", "Number of free state slots in the mamba SSM pool (hybrid-SSM only).", pools.slots)
    lines.append("# HELP sglang:process_cpu_seconds_total Total CPU time consumed by this process (user + system)")
    lines.append("# TYPE sglang:process_cpu_seconds_total counter")
    lines.append(f'sglang:process_cpu_seconds_total{{component="tokenizer"}} {sum(os.times()[:2])}')
    return "\n".join(lines) + "\n"


def _go_float(value: int) -> str:
    """1251491 -> 1.251491e+06, as the Prometheus client writes large numbers."""
    if value < 1_000_000:
        return str(float(value))
    digits = f"{value:.15e}"
    mantissa, exponent = digits.split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"

"""Measurements of a host as the roles that measure leave them beside the reports; figures of our own making."""

from __future__ import annotations

import json
import pathlib
import typing as t

# C and output tokens a second: the shape that published sweeps of a 397B model on such cards have.
CURVE = ((1, 70.0), (4, 230.0), (16, 660.0), (32, 1020.0), (64, 1230.0), (256, 1750.0), (512, 1790.0), (1024, 1800.0))
C_MAX = 345
BEST = "moe=cutlass fp4=flashinfer_cudnn attention=triton"
COMBINATIONS = (
    ("ok", BEST, 1020.0, ""),
    ("slow", "moe=cutlass fp4=flashinfer_cutlass attention=triton", 410.0, "40% of the fastest correct one (1020)"),
    ("wrong", "moe=triton fp4=flashinfer_cudnn attention=triton", None, "M=3072: 3 of 3 answers: <b>++++</b>"),
    ("crash", "moe=flashinfer_cutedsl fp4=flashinfer_cudnn attention=triton", None, "A kernel read outside"),
    ("hang", "moe=flashinfer_cutedsl fp4=flashinfer_cutlass attention=triton", None, "not ready after 1800 s"),
    ("refused", "moe=flashinfer_trtllm fp4=flashinfer_cudnn attention=triton", None, "no kernels for SM120"),
)


def row(concurrency: int, tok_s: float, starts: int = 3) -> dict[str, t.Any]:
    """One level."""
    prompts = max(8, 5 * concurrency)
    first = 120.0 * (1 + concurrency / 64) * (1 if concurrency <= C_MAX else 12)
    step = 1000.0 * concurrency / tok_s
    return {
        "concurrency": concurrency,
        "prompts": prompts,
        "ok": prompts,
        "errors": 0,
        "wall_s": round(prompts * 512 / tok_s, 1),
        "input_tokens": prompts * 1024,
        "output_tokens": prompts * 512,
        "tok_s": tok_s,
        "request_tok_s": round(tok_s / concurrency, 1),
        "ttft": {"mean": first * 1.1, "median": first, "p99": first * 3},
        "tpot": {"mean": step, "median": step, "p99": step * 1.3},
        "itl": {"median": step, "p99": step * 2.5},
        "e2e": {},
        "in_flight": concurrency * 0.97,
        "accept_length": None,
        "label": "compute" if concurrency <= C_MAX else "slots",
        "c_max": C_MAX,
        "why": "",
        "runs": [tok_s * share for share in (0.96, 1.0, 1.05)[:starts]],
        "spread": 0.09 if starts > 1 else 0.0,
        "client_tok_s": 11000.0,
        "client_bound": False,
    }


def sweep(at: str, factor: float = 1.0, dataset: str = "text") -> dict[str, t.Any]:
    """One sweep."""
    return {
        "version": 1,
        "host": "sglang1",
        "instance": "qwen",
        "at": at,
        "engine_version": "0.5.12.post1",
        "client": "sglang.bench_serving",
        "shape": {"input_len": 1024, "output_len": 512, "dataset": dataset},
        "text_digest": "5b1f0c7a92de" if dataset == "text" else "",
        "limits": {
            "kv_tokens": 1799546,
            "requests": C_MAX,
            "slots": 1036,
            "request_cause": "state slots",
            "context": 9,
        },
        "restarts": 2,
        "ceiling": [{"concurrency": 1024, "tok_s": 11000.0, "label": "compute"}],
        "seed": 1,
        "levels": [row(concurrency, round(tok_s * factor, 1)) for concurrency, tok_s in CURVE],
        "comparison": {"verdict": "same", "at": "2026-11-20T10:00:00Z", "why": "C=64", "levels": [], "tolerance": 0.05},
    }


def matrix() -> dict[str, t.Any]:
    """One matrix with every verdict."""
    entries = [
        {
            "id": name,
            "args": {},
            "verdict": verdict,
            "why": why,
            "start_s": None if verdict == "refused" else 92.0,
            "seconds": 200.0,
            "failed_checks": [],
            "diagnosis": None,
            "levels": [row(1, 70.0, 1), row(32, tok_s, 1)] if tok_s else [],
            "warnings": [],
            "agreement": {"probes": 140, "first_token": 0.97, "whole": 0.8, "logprob_gap": 0.03} if tok_s else None,
        }
        for verdict, name, tok_s, why in COMBINATIONS
    ]
    return {
        "version": 1,
        "host": "sglang1",
        "instance": "qwen",
        "at": "2026-11-29T19:00:00Z",
        "release": "20261129T195000Z-0a1b2c",
        "engine_version": "0.5.12.post1",
        "model_path": "/models/qwen",
        "reference": {"id": BEST, "why": "2 of 2 sound combinations agree with it"},
        "best": BEST,
        "best_args": {},
        "starts": 5,
        "restored": "",
        "combinations": entries,
    }


def write(folder: pathlib.Path) -> None:
    """Lay three sweeps of one shape, one of another, a baseline and a matrix beside the reports."""
    for name in ("benchmark", "matrix"):
        (folder / name).mkdir(parents=True)
    sweeps = [sweep("2026-11-20T10:00:00Z", 0.85), sweep("2026-11-27T10:00:00Z", 0.97), sweep("2026-11-29T20:00:00Z")]
    sweeps.append(sweep("2026-11-29T20:20:00Z", 0.7, "random"))
    for each in sweeps:
        stamp = str(each["at"]).replace("-", "").replace(":", "")
        kind = each["shape"]["dataset"]
        (folder / "benchmark" / f"sglang1-qwen-{kind}-1024-512-{stamp}.json").write_text(json.dumps(each))
    (folder / "benchmark" / "sglang1-qwen-text-1024-512.baseline.json").write_text(json.dumps(sweeps[0]))
    (folder / "matrix" / "sglang1-qwen-20261129T190000Z.json").write_text(json.dumps(matrix()))
    (folder / "matrix" / "sglang1-qwen.state.json").write_text("{}")

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive the engine's own benchmark client and read its result (private to the collection).

The collection writes no load generator: the client comes from the release that is measured. It is
``sglang.bench_serving`` up to 0.5.2x and ``sglang.benchmark.serving`` later (the old name still works there, with a
warning); which one it is, is seen from the files of the release.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_plan
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# Newest first.
CLIENTS = (("sglang.benchmark.serving", "benchmark/serving.py"), ("sglang.bench_serving", "bench_serving.py"))
# More warm-up requests than this only repeat one prompt.
WARMUP_MOST = 16
# Latencies of the result, as (key of ours, infix of the client's).
LATENCIES = (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2e_latency"))
STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")
_PROGRESS = re.compile(r"(\d+)/(\d+) \[")
_ERROR = re.compile(r"output\.error=(['\"])(.{1,4000}?)\1\s*$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Client:
    """The client of one release: its interpreter, module name and the flags that its source knows."""

    python: str
    module: str
    flags: frozenset[str]


def find(python: str) -> Client:
    """The client beside an interpreter, found by its file, since importing it takes some 20 s.

    Raises:
        SglangError: there is none.
    """
    root = pathlib.Path(python).parent.parent
    for module, file in CLIENTS:
        for path in sorted(root.glob(f"lib/python3*/site-packages/sglang/{file}")):
            source = path.read_text(encoding="utf-8", errors="replace")
            flags = frozenset(re.findall(r"['\"](--[a-z][a-z0-9-]+)['\"]", source))
            if "--max-concurrency" in flags:
                return Client(python, module, flags)
    raise SglangError(
        "the release holds no benchmark client",
        where=str(root),
        expected="sglang/benchmark/serving.py or sglang/bench_serving.py in its site-packages",
        fix="benchmark a release that was installed from SGLang's wheel",
        kind="no_client",
    )


def words(
    client: Client,
    *,
    base_url: str,
    model_path: str,
    tokenizer: str,
    level: _bench_plan.Level,
    shape: _bench_plan.Shape,
    dataset: str,
    output: str,
    seed: int,
) -> list[str]:
    """The command line of one level.

    Lengths are fixed (``--random-range-ratio 1.0``; the default draws them from 1 to N). Prompts go out as token ids
    where the client can do that, so that the server counts exactly the tokens that were asked for.
    """
    given = [
        *("--backend", "sglang", "--base-url", base_url, "--model", model_path, "--tokenizer", tokenizer),
        *("--dataset-name", _bench_plan.DATASETS[shape.dataset], "--num-prompts", str(level.prompts)),
        *("--random-input-len", str(shape.input_len), "--random-output-len", str(shape.output_len)),
        *("--random-range-ratio", "1.0", "--max-concurrency", str(level.concurrency)),
        *("--warmup-requests", str(min(level.concurrency, WARMUP_MOST)), "--seed", str(seed)),
        *("--output-file", output),
    ]
    if dataset:
        given += ["--dataset-path", dataset]
    given += [flag for flag in ("--flush-cache", "--tokenize-prompt") if flag in client.flags]
    return [client.python, "-m", client.module, *given]


def environment(key: str) -> dict[str, str]:
    """Environment of the client: nothing is looked up on a hub, and the key is no argument that everybody may read."""
    env = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "true",
        "PYTHONUNBUFFERED": "1",
    }
    return {**env, "OPENAI_API_KEY": key, "API_KEY": ""} if key else env


def progress(screen: str) -> tuple[int, int] | None:
    """(done, total) from the client's progress bar, None before it shows."""
    found = _PROGRESS.findall(screen)
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def first_error(screen: str) -> str:
    """The last line of the first error that the client printed, empty when there is none."""
    found = _ERROR.search(screen)
    if not found:
        return ""
    lines = [line for line in found[2].replace("\\n", "\n").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def read_record(text: str) -> dict[str, t.Any]:
    """The last record of the client's JSON lines.

    Raises:
        SglangError: there is none.
    """
    for line in reversed(text.splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "duration" in record:
            return record
    raise SglangError("the client wrote no result", where="its output file", expected="one JSON line", kind="no_result")


def row(record: t.Mapping[str, t.Any], level: _bench_plan.Level) -> dict[str, t.Any]:
    """One line of the sweep's table from the client's record.

    ``tok_s`` is output tokens of all requests over wall time, ramp included; ``request_tok_s`` is that per concurrent
    request; latencies are in ms as the client gives them (TPOT = (latency - TTFT) / (output tokens - 1)).
    """
    ok = int(record.get("completed") or 0)
    wall = float(record.get("duration") or 0.0)
    output = int(record.get("total_output_tokens") or 0)
    speed = output / wall if wall > 0 else 0.0
    label = level.label if ok == level.prompts else "errors"
    latencies = {}
    for ours, theirs in LATENCIES:
        latencies[ours] = {
            name: round(float(value), 3)
            for name in STATISTICS
            if isinstance(value := record.get(f"{name}_{theirs}_ms"), (int, float))
        }
    return {
        "concurrency": level.concurrency,
        "prompts": level.prompts,
        "ok": ok,
        "errors": level.prompts - ok,
        "wall_s": round(wall, 3),
        "input_tokens": int(record.get("total_input_tokens") or 0),
        "output_tokens": output,
        "tok_s": round(speed, 2),
        "request_tok_s": round(speed / level.concurrency, 2),
        **latencies,
        "in_flight": round(float(record.get("concurrency") or 0.0), 2),
        "accept_length": record.get("accept_length"),
        "label": label,
        "c_max": level.c_max,
        "why": level.why,
    }


def not_run(level: _bench_plan.Level) -> dict[str, t.Any]:
    """The line of a level that was not run, and why."""
    empty: dict[str, t.Any] = {
        **dict.fromkeys(("wall_s", "tok_s", "request_tok_s", "in_flight", "accept_length")),
        **dict.fromkeys(("ok", "errors", "input_tokens", "output_tokens"), 0),
        **{ours: {} for ours, _theirs in LATENCIES},
    }
    return {
        "concurrency": level.concurrency,
        "prompts": level.prompts,
        **empty,
        "label": level.label,
        "c_max": level.c_max,
        "why": level.why,
    }

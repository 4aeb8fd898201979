# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce between GPUs, under a time limit, with every number of the result looked at.

Runs in a release's interpreter, as the service's user and with the service's environment, before an engine starts. A
hang after `Init COMPLETE`, wrong sums of some sizes, and a transport that is not there all look like faults of the
engine otherwise. Prints one JSON object; status 0: right, 1: wrong or no end, 3: cannot run here (`skipped` says why).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing as t

SKIP = 3
# Bytes: what an engine reduces for one token up to a long prompt; odd counts meet the edges of the algorithms.
SIZES = (8, 8 * 1024 + 4, 256 * 1024, 512 * 1024, 1024 * 1024 + 12, 64 * 1024 * 1024)
GRACE_S = 5.0


def main(argv: t.Sequence[str] | None = None) -> int:
    """Start a process per rank and judge what they say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for everything")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl", help="gloo runs without a GPU")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.rank is not None:
        print(json.dumps(work(options.rank, options.ranks, options.port, options.backend)), flush=True)
        return 0
    reason = missing(options.ranks, options.backend)
    if reason:
        print(json.dumps({"ok": None, "skipped": reason}))
        return SKIP
    result = check(options.ranks, options.seconds, options.backend)
    print(json.dumps(result))
    return 0 if result["ok"] else 1


def missing(ranks: int, backend: str) -> str:
    """Why the check cannot run here; empty when it can."""
    try:
        import torch  # noqa: PLC0415 - only the ranks and this question need it
        import torch.distributed as dist  # noqa: PLC0415
    except ImportError as error:
        return f"torch.distributed is not there: {error}"
    # A module of that name alone proves nothing.
    if not getattr(dist, "is_available", bool)() or not hasattr(dist, "init_process_group"):
        return "this torch was built without torch.distributed"
    if backend == "nccl":
        if not dist.is_nccl_available():
            return "this torch was built without NCCL"
        if torch.cuda.device_count() < ranks:
            return f"{torch.cuda.device_count()} GPUs can be seen, {ranks} are needed"
    return ""


def check(ranks: int, seconds: float, backend: str) -> dict[str, t.Any]:
    """Run all ranks; ``{ok, seconds, ranks, backend, sizes: [{bytes, wrong, us}], reason, tail}``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    # NCCL writes a lot with NCCL_DEBUG=INFO, so into files rather than pipes.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        children: list[subprocess.Popen[bytes]] = []
        for rank in range(ranks):
            words = [sys.executable, str(pathlib.Path(__file__).resolve()), "--ranks", str(ranks), "--rank", str(rank)]
            words += ["--port", str(port), "--backend", backend]
            with (folder / f"{rank}.out").open("wb") as out, (folder / f"{rank}.err").open("wb") as err:
                children.append(subprocess.Popen(words, stdout=out, stderr=err, start_new_session=True))
        while any(child.poll() is None for child in children):
            failed = any(child.poll() not in (None, 0) for child in children)
            if failed or time.monotonic() - begun > seconds:
                break
            time.sleep(0.1)
        late = [rank for rank, child in enumerate(children) if child.poll() is None]
        broken = [rank for rank, child in enumerate(children) if child.poll() not in (None, 0)]
        end(children)
        took = round(time.monotonic() - begun, 1)
        result: dict[str, t.Any] = {"ok": False, "seconds": took, "ranks": ranks, "backend": backend, "sizes": []}
        if broken or late:
            word = f"rank {broken} ended with an error" if broken else f"rank {late} did not end within {seconds:g} s"
            tails = [read(folder / f"{rank}.err")[-1500:] for rank in (broken or late)[:2]]
            return {**result, "reason": word, "tail": "\n".join(tails)}
        rows = [json.loads(read(folder / f"{rank}.out").splitlines()[-1]) for rank in range(ranks)]
    for place, size in enumerate(SIZES):
        mine = [row["sizes"][place] for row in rows]
        worst = {"bytes": size, "wrong": sum(each["wrong"] for each in mine), "us": max(each["us"] for each in mine)}
        result["sizes"].append(worst)
    bad = [each["bytes"] for each in result["sizes"] if each["wrong"]]
    reason = f"wrong sums at {bad} bytes" if bad else ""
    return {**result, "ok": not bad, "reason": reason, "tail": "", "nccl": rows[0]["nccl"]}


def end(children: t.Sequence[subprocess.Popen[bytes]]) -> None:
    """TERM, then KILL, each rank with what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, number)
        deadline = time.monotonic() + GRACE_S
        while any(child.poll() is None for child in children) and time.monotonic() < deadline:
            time.sleep(0.1)


def read(path: pathlib.Path) -> str:
    """A file's text."""
    return path.read_text(encoding="utf-8", errors="replace")


def work(rank: int, ranks: int, port: int, backend: str) -> dict[str, t.Any]:
    """One rank: reduce each size, compare every element, time the best of five."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    rows = []
    for size in SIZES:
        # Whole numbers below 2**24 are exact in float32; each place has its own, and each rank adds another.
        base = torch.arange(size // 4, device=device, dtype=torch.float32) % 65521
        expected = base * ranks + sum(range(1, ranks + 1))
        wrong, best = 0, float("inf")
        for _turn in range(5):
            data = base + (rank + 1)
            if backend == "nccl":
                torch.cuda.synchronize()
            begun = time.perf_counter()
            dist.all_reduce(data)
            if backend == "nccl":
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begun)
            wrong += int((data != expected).sum().item())
        rows.append({"bytes": size, "wrong": wrong, "us": round(best * 1e6, 1)})
    dist.destroy_process_group()
    version = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else ""
    return {"rank": rank, "sizes": rows, "nccl": version}


if __name__ == "__main__":
    sys.exit(main())

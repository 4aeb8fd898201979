# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the log of a start says about KV caches, rank by rank (private to the collection)."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SEED = re.compile(r"\brandom_seed=(\d+)")
_TP = re.compile(r"\btp_size=(\d+)")
_PID = re.compile(r"Started server process \[(\d+)\]")


@dataclasses.dataclass(frozen=True)
class Pool:
    """One pool that a rank allocated: ``gib`` is its size in GiB as logged (the log says GB), ``rounding`` the most by
    which the log's two decimals may be off, in GiB."""

    rank: str
    name: str
    dtype: str | None
    tokens: int
    gib: float | None
    rounding: float
    draft: bool
    line: str

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes per token, None where the line gives no size."""
        return None if self.gib is None or not self.tokens else self.gib * 1024**3 / self.tokens


@dataclasses.dataclass
class LogFacts:
    """Everything found. ``dtypes`` are (rank, dtype, line) of lines that name a dtype and no pool."""

    dtypes: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    pools: list[Pool] = dataclasses.field(default_factory=list)
    slots: dict[str, int] = dataclasses.field(default_factory=dict)
    tokens: int | None = None
    requests: int | None = None
    load_begin: dict[str, float] = dataclasses.field(default_factory=dict)
    load_end: dict[str, float] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    tp_size: int | None = None
    pid: int | None = None
    worthless: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    @property
    def recognised(self) -> bool:
        """Whether any line about the KV cache was understood."""
        return bool(self.dtypes or self.pools)

    def ranks(self) -> list[str]:
        """Ranks that allocated a pool."""
        return sorted({pool.rank for pool in self.pools}, key=_rank_order)


def _rank_order(rank: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", rank))


@functools.lru_cache(maxsize=1)
def _patterns() -> dict[str, re.Pattern[str]]:
    # The message must follow the prefix at once, and the prefix stand at the start of the line (a little may come
    # before it, as from journalctl): text that a request quotes is never taken for the engine's.
    return {name: re.compile(rf"^[^'\"=]{{0,100}}?{kv.RANK} {row.value}") for name, row in kv.LOG_LINES.items()}


def facts(lines: t.Iterable[str]) -> LogFacts:
    """Read the lines of one start."""
    found = LogFacts()
    bounds: list[Pool] = []
    after: list[Pool] = []
    patterns = _patterns()
    for raw in lines:
        line = _ANSI.sub("", raw)
        if "server_args=ServerArgs(" in line:
            found.seed = _int(_SEED, line)
            found.tp_size = _int(_TP, line)
        if "Started server process" in line:
            found.pid = _int(_PID, line)
        if "Cache" not in line and "cache" not in line and "=" not in line and "fired up" not in line:
            continue
        for mark, why in kv.WORTHLESS_LINES:
            if mark in line and (mark, why) not in found.worthless:
                found.worthless.append((mark, why))
        for name, pattern in patterns.items():
            match = pattern.match(line)
            if match is not None:
                _take(found, name, match, line, bounds=bounds, after=after)
                break
    # Where the pool is sized after capture, the first line only reserves addresses.
    resized = {(pool.rank, pool.draft) for pool in after}
    found.pools += after
    found.pools += [pool for pool in bounds if (pool.rank, pool.draft) not in resized]
    return found


def _take(
    found: LogFacts, name: str, match: re.Match[str], line: str, *, bounds: list[Pool], after: list[Pool]
) -> None:
    rank = (match["rank"] or "").strip()
    if name == "dtype":
        found.dtypes.append((rank, _dtype(match["dtype"]), line))
    elif name in ("pool", "pool_dtype"):
        found.pools.append(_pool(rank, name, match, line))
    elif name == "bound":
        bounds.append(_pool(rank, name, match, line))
    elif name == "post_capture":
        after.append(_pool(rank, name, match, line))
    elif name == "state":
        found.slots[rank] = int(match["slots"])
    elif name == "totals":
        found.tokens, found.requests = int(match["tokens"]), int(match["requests"])
    elif name == "load_begin":
        found.load_begin[rank] = float(match["gib"])
    elif name == "load_end":
        found.load_end[rank] = float(match["gib"])


def _pool(rank: str, name: str, match: re.Match[str], line: str) -> Pool:
    groups = match.groupdict()
    sizes = [float(groups[key]) for key in ("k", "v", "kv") if groups.get(key)]
    return Pool(
        rank=rank,
        name=(groups.get("label") or "").strip() or name,
        dtype=_dtype(groups["dtype"]) if groups.get("dtype") else None,
        tokens=int(groups["tokens"]),
        gib=sum(sizes) if sizes else None,
        rounding=0.005 * len(sizes),
        draft=bool(groups.get("draft")) or "draft" in (groups.get("label") or "").lower(),
        line=line,
    )


def _dtype(word: str) -> str:
    return kv.TORCH_DTYPE.get(word, word)


def _int(pattern: re.Pattern[str], line: str) -> int | None:
    match = pattern.search(line)
    return int(match[1]) if match else None

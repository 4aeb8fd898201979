# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which combinations of backends are tried, and which came out best (private to the collection)."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# Verdicts in the order of the table. Only ``ok`` and ``slow`` computed right.
VERDICTS = {
    "ok": "computes right",
    "slow": "computes right, but slower than the best by more than allowed",
    "wrong": "wrong output",
    "crash": "the engine ended",
    "hang": "the engine did not answer in time",
    "refused": "not started: known to fail or refused by the engine's parser",
}
RIGHT = ("ok", "slow")
# A correct combination below this share of the fastest correct one is called slow.
SLOW_SHARE = 0.5
# Short names of the arguments, for ids and headings; what is not here keeps its own name.
SHORT = {
    "moe_runner_backend": "moe",
    "fp4_gemm_runner_backend": "fp4",
    "attention_backend": "attention",
    "kv_cache_dtype": "kv",
    "speculative_algorithm": "spec",
}


@dataclasses.dataclass(frozen=True)
class Combination:
    """One set of arguments over the instance's own; None takes an argument away."""

    id: str
    args: dict[str, t.Any]


def expand(axes: t.Mapping[str, t.Sequence[t.Any]], explicit: t.Sequence[t.Mapping[str, t.Any]]) -> list[Combination]:
    """Every combination once, in the order given: the explicit ones, or else the product of the axes.

    Args:
        axes: argument to the values tried. A value that is a dictionary sets several arguments at once (speculation
            needs four), and the name of its axis is only a heading.
        explicit: whole sets of arguments, which take the place of the axes.

    Raises:
        SglangError: an axis without a value, or nothing at all.
    """
    if explicit:
        sets: list[dict[str, t.Any]] = [dict(each) for each in explicit]
    else:
        empty = sorted(name for name, values in axes.items() if not isinstance(values, (list, tuple)) or not values)
        if empty or not axes:
            raise SglangError(
                f"axis {empty[0]} has no values" if empty else "there is no axis",
                where=f"backend_matrix_axes.{empty[0]}" if empty else "backend_matrix_axes",
                expected="a list of values for each argument",
                fix="write backend_matrix_axes: {attention_backend: [triton, flashinfer]}",
            )
        sets = []
        for values in itertools.product(*axes.values()):
            one: dict[str, t.Any] = {}
            for name, value in zip(axes, values, strict=True):
                one.update(value if isinstance(value, dict) else {name: value})
            sets.append(one)
    found: dict[str, Combination] = {}
    for each in sets:
        combination = Combination(name_of(each), each)
        found.setdefault(combination.id, combination)
    return list(found.values())


def name_of(args: t.Mapping[str, t.Any]) -> str:
    """A readable id: ``moe=cutlass fp4=flashinfer_cudnn attention=triton``."""
    parts = [f"{SHORT.get(key, key)}={'none' if value is None else value}" for key, value in args.items()]
    return " ".join(parts) or "as configured"


def digest(*parts: t.Any) -> str:
    """What a stored result depends on, as 12 hex digits; another digest makes it worthless."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def speed(entry: t.Mapping[str, t.Any]) -> float | None:
    """Output tokens a second at the highest concurrency that was measured without errors; None if none was."""
    rows = [row for row in entry.get("levels") or [] if row.get("tok_s") and row.get("label") != "errors"]
    return float(max(rows, key=lambda row: row["concurrency"])["tok_s"]) if rows else None


def rank(entries: list[dict[str, t.Any]], slow_share: float = SLOW_SHARE) -> str | None:
    """Turn ``ok`` into ``slow`` where due, and return the id of the best correct combination; None without one."""
    right = [entry for entry in entries if entry["verdict"] in RIGHT]
    fastest = max((speed(entry) or 0.0 for entry in right), default=0.0)
    for entry in right:
        own = speed(entry)
        entry["verdict"] = "ok"
        if own is not None and fastest > 0 and own < slow_share * fastest:
            entry["verdict"] = "slow"
            entry["why"] = f"{own:.0f} tok/s, {own / fastest:.0%} of the fastest correct one ({fastest:.0f})"
    best = max(
        (entry for entry in right if entry["verdict"] == "ok"), key=lambda each: speed(each) or 0.0, default=None
    )
    return best["id"] if best else None


def table(entries: list[dict[str, t.Any]], best: str | None) -> str:
    """The matrix for a terminal: verdict, speed, start, combination, and why."""
    lines = [["verdict", "tok/s", "start s", "combination", ""]]
    for entry in entries:
        own = speed(entry)
        lines.append(
            [
                entry["verdict"] + (" *" if entry["id"] == best else ""),
                f"{own:.0f}" if own else "-",
                f"{entry['start_s']:.0f}" if entry.get("start_s") else "-",
                entry["id"],
                entry.get("why") or "",
            ]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    text = []
    for line in lines:
        fields = [word.ljust(width) for word, width in zip(line[:4], widths, strict=True)]
        text.append("  ".join([*fields, line[4]]).rstrip())
    return "\n".join(text)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a sweep as one result, judged by the client's ceiling and an earlier result (private to the collection)."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import CLIENT_SHARE, LABELS, Shape

Row = dict[str, t.Any]

# How much slower counts as worse. One start of the engine differs from the next by 15 % (each fresh JIT cache tunes
# anew) and one host drifted by 9 % within a week, so field reporters judge at 20 %, or by the mean of three starts.
SINGLE_TOLERANCE = 0.20
MEAN_TOLERANCE = 0.05
ENOUGH_RUNS = 3


def merge(runs: list[list[Row]]) -> list[Row]:
    """One row a level from the rows of each restart.

    ``tok_s`` and ``request_tok_s`` become means over the runs in which every request completed; the other columns are
    of the run nearest to the mean. ``runs`` holds each run's tok_s, ``spread`` is (largest - smallest) / mean, 0 for a
    single run. A level with an error in any run keeps the label ``errors``.
    """
    merged = []
    for rows in zip(*runs, strict=True):
        speeds = [row["tok_s"] for row in rows if row["tok_s"] and row["label"] != "errors"]
        failed = next((row for row in rows if row["label"] == "errors"), None)
        if failed is not None or not speeds:
            merged.append({**(failed or rows[0]), "runs": speeds, "spread": None})
            continue
        mean = statistics.fmean(speeds)
        near = min(rows, key=lambda row: abs((row["tok_s"] or 0.0) - mean))
        merged.append(
            {
                **near,
                "tok_s": round(mean, 2),
                "request_tok_s": round(mean / near["concurrency"], 2),
                "runs": speeds,
                "spread": round((max(speeds) - min(speeds)) / mean, 4),
            }
        )
    return merged


def against_ceiling(rows: list[Row], ceiling: list[Row]) -> list[Row]:
    """Mark each row with the client's ceiling at the nearest concurrency measured, and whether it is too near to it."""
    points = [(point["concurrency"], point["tok_s"]) for point in ceiling if point.get("tok_s")]
    marked = []
    for row in rows:
        limit = min(points, key=lambda point: abs(point[0] - row["concurrency"]))[1] if points else None
        bound = bool(limit and row["tok_s"] and row["tok_s"] >= CLIENT_SHARE * limit)
        marked.append({**row, "client_tok_s": limit, "client_bound": bound})
    return marked


def tolerance(rows: list[Row], earlier: list[Row], given: float | None) -> float:
    """The share of throughput whose loss is no noise; 5 % when both sides are means of three runs, else 20 %."""
    if given is not None:
        return given
    fewest = min((len(row.get("runs") or []) for row in [*rows, *earlier] if row.get("tok_s")), default=1)
    return MEAN_TOLERANCE if fewest >= ENOUGH_RUNS else SINGLE_TOLERANCE


def compare(
    result: dict[str, t.Any], baseline: dict[str, t.Any] | None, given: float | None = None
) -> dict[str, t.Any]:
    """How a result stands to a stored one: ``{verdict, levels, at, why, tolerance}``.

    ``verdict`` is ``none`` (nothing to compare with), ``other`` (another shape or other text, so not comparable),
    ``worse``, ``same`` or ``better``. A level is worse when it lost more than the tolerance and more than the spread of
    either side, or when it had no errors before and has now; the worst level decides.
    """
    if not baseline:
        return {"verdict": "none", "levels": [], "at": None, "why": "there is no baseline yet", "tolerance": None}
    for key, words in (("shape", "lengths or kind of prompts"), ("text_digest", "the text of the prompts")):
        if result.get(key) != baseline.get(key):
            why = f"{words} differ: {result.get(key)} now, {baseline.get(key)} then"
            return {"verdict": "other", "levels": [], "at": baseline.get("at"), "why": why, "tolerance": None}
    allowed = tolerance(result["levels"], baseline["levels"], given)
    before = {row["concurrency"]: row for row in baseline["levels"]}
    levels = [
        _level(row, before[row["concurrency"]], allowed) for row in result["levels"] if row["concurrency"] in before
    ]
    verdicts = {level["verdict"] for level in levels}
    verdict = next((name for name in ("worse", "better", "same") if name in verdicts), "none")
    worst = [level for level in levels if level["verdict"] == verdict]
    why = "; ".join(f"C={level['concurrency']}: {level['why']}" for level in worst[:4]) or "no level in common"
    return {"verdict": verdict, "levels": levels, "at": baseline.get("at"), "why": why, "tolerance": allowed}


def _level(row: Row, old: Row, allowed: float) -> dict[str, t.Any]:
    now, then = row.get("tok_s"), old.get("tok_s")
    base = {"concurrency": row["concurrency"], "tok_s": now, "baseline_tok_s": then, "change": None}
    if row["label"] == "errors" and old["label"] != "errors":
        return {**base, "verdict": "worse", "why": f"errors, where there were none: {row['why']}"}
    if not now or not then:
        return {**base, "verdict": "same", "why": "not measured on both sides"}
    change = now / then - 1.0
    margin = max(allowed, row.get("spread") or 0.0, old.get("spread") or 0.0)
    verdict = "worse" if change < -margin else "better" if change > margin else "same"
    why = f"{now:.0f} tok/s, {change:+.1%} of {then:.0f} (margin {margin:.0%})"
    return {**base, "change": round(change, 4), "verdict": verdict, "why": why}


HEADINGS = ("C", "tok/s", "tok/s/req", "tokens", "wall s", "ok", "TTFT ms", "p99", "TPOT ms", "p99", "what limits it")


def table(rows: list[Row], shape: Shape | None = None) -> str:
    """The sweep as text for a terminal, in the order that people know: C, aggregate, per request, tokens, wall, ok."""
    lines = [[*HEADINGS]]
    lines += [cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    text = []
    for line in lines:
        fields = [value.rjust(width) for value, width in zip(line[:-1], widths[:-1], strict=True)]
        text.append("  ".join([*fields, line[-1]]))
    head = f"{shape.input_len} tokens in, {shape.output_len} out, {shape.dataset} prompts\n" if shape else ""
    return head + "\n".join(text)


def cells(row: Row) -> list[str]:
    """One row of the table as words."""
    if row["label"] == "cannot-fit":
        return [str(row["concurrency"]), *["-"] * 9, f"{LABELS['cannot-fit']}: {row['why']}"]
    label = LABELS[row["label"]]
    if row["label"] in ("kv", "slots", "requests"):
        label += f" (C_max {row['c_max']})"
    if row["label"] == "errors":
        label += f": {row['why']}"
    if row.get("client_bound"):
        label += "; near the client's own ceiling"
    return [
        str(row["concurrency"]),
        f"{row['tok_s'] or 0:.0f}",
        f"{row['request_tok_s'] or 0:.1f}",
        str(row["output_tokens"]),
        f"{row['wall_s'] or 0:.1f}",
        f"{row['ok']}/{row['prompts']}",
        *(
            f"{row[name][kind]:.1f}" if kind in row[name] else "-"
            for name in ("ttft", "tpot")
            for kind in ("median", "p99")
        ),
        label,
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"

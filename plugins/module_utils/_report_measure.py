# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements of a host in its report: the newest sweeps and matrix, and earlier sweeps beside them (private).

Measurements are files of their own beside the reports (benchmark/ and matrix/), written by the roles that measure. So a
report that site.yml writes still shows them, with their dates, and a sweep does not erase what site.yml proved.
"""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _report_redact
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import LABELS, Shape

Tree = dict[str, t.Any]

BENCHMARKS = "benchmark"
MATRICES = "matrix"
# Earlier sweeps of the same shape that are drawn beside the newest.
EARLIER = 4
_STAMP = re.compile(r"-\d{8}T\d{6}Z\.json$")


def collect(folder: pathlib.Path, host: str) -> Tree:
    """The newest sweep of each instance and shape, and the newest matrix of each instance: ``{sweeps, matrices}``."""
    sweeps: dict[tuple[str, str], Tree] = {}
    for sweep in _read(folder / BENCHMARKS, host, "levels"):
        sweeps[str(sweep["instance"]), heading(sweep)] = sweep
    matrices: dict[str, Tree] = {}
    for matrix in _read(folder / MATRICES, host, "combinations"):
        matrices[str(matrix["instance"])] = matrix
    return {"sweeps": list(sweeps.values()), "matrices": list(matrices.values())}


def history(folder: pathlib.Path, host: str) -> list[Tree]:
    """All sweeps of a host, oldest first."""
    return _read(folder / BENCHMARKS, host, "levels")


def earlier(sweep: Tree, sweeps: t.Iterable[Tree]) -> list[Tree]:
    """Those of ``sweeps`` that can be drawn beside one: same instance and shape, before it, the newest few."""
    same = [
        each
        for each in sweeps
        if each["instance"] == sweep["instance"] and each["shape"] == sweep["shape"] and each["at"] < sweep["at"]
    ]
    return sorted(same, key=lambda each: str(each["at"]))[-EARLIER:]


def heading(sweep: Tree) -> str:
    """The heading of a sweep's section, by which its figure is put in."""
    shape = Shape(**sweep["shape"])
    kind = "real text" if shape.dataset == "text" else "random tokens"
    return f"{sweep['instance']}: {shape.input_len} tokens in, {shape.output_len} out, {kind}"


def lines(measured: Tree, table: t.Callable[[t.Sequence[str], t.Iterable[t.Sequence[t.Any]]], list[str]]) -> list[str]:
    """The sections in Markdown; ``table`` makes a table of a heading and rows."""
    parts: list[str] = []
    if measured.get("matrices"):
        parts += ["## Backends tried"]
        for matrix in measured["matrices"]:
            parts += ["", *_matrix(matrix, table)]
    if measured.get("sweeps"):
        parts += ["", "## Throughput"]
        for sweep in measured["sweeps"]:
            parts += ["", *_sweep(sweep, table)]
    return parts


def _matrix(matrix: Tree, table: t.Callable[..., list[str]]) -> list[str]:
    rows = []
    for entry in matrix["combinations"]:
        speeds = [row for row in entry.get("levels") or [] if row.get("tok_s")]
        fastest = f"{speeds[-1]['tok_s']:.0f} at C={speeds[-1]['concurrency']}" if speeds else ""
        agreement = entry.get("agreement") or {}
        agrees = f"{agreement['first_token']:.0%}" if agreement.get("probes") else ""
        chosen = entry["id"] + (" (best)" if entry["id"] == matrix["best"] else "")
        rows.append([entry["verdict"], chosen, fastest, agrees, _seconds(entry.get("start_s")), entry.get("why") or ""])
    head = ["verdict", "combination", "tok/s", "agrees", "start", "why"]
    reference = matrix["reference"]
    return [
        f"### {matrix['instance']}: {matrix['at']}",
        "",
        f"Best correct combination: {matrix['best'] or 'none computed right'}. Reference:"
        f" {reference['id'] or 'none'} ({reference['why']}). Release {matrix['release']}, {matrix['starts']} starts.",
        "",
        *table(head, rows),
    ]


def _sweep(sweep: Tree, table: t.Callable[..., list[str]]) -> list[str]:
    rows = []
    for row in sweep["levels"]:
        label = LABELS[row["label"]]
        if row["label"] in ("kv", "slots", "requests"):
            label += f" (C_max {row['c_max']})"
        if row["label"] in ("errors", "cannot-fit"):
            label += f": {row['why']}"
        if row.get("client_bound"):
            label += "; near the client's ceiling"
        spread = row.get("spread")
        rows.append(
            [
                row["concurrency"],
                _number(row["tok_s"], 0),
                _number(row["request_tok_s"], 1),
                row["output_tokens"],
                _number(row["wall_s"], 1),
                f"{row['ok']}/{row['prompts']}",
                *(_pair(row[name]) for name in ("ttft", "tpot", "itl")),
                f"{spread:.0%}" if spread and len(row.get("runs") or []) > 1 else "",
                label,
            ]
        )
    head = [
        "C",
        "tok/s",
        "tok/s each",
        "tokens",
        "wall s",
        "ok",
        "TTFT ms",
        "TPOT ms",
        "ITL ms",
        "spread",
        "what limits it",
    ]
    comparison = sweep.get("comparison") or {}
    said = [f"Measured {sweep['at']} with {sweep['client']}, {sweep['restarts'] + 1} start(s)."]
    said += [f"Latencies are median and 99th percentile. {_ceiling(sweep)}"]
    if comparison.get("verdict") not in (None, "none"):
        said.append(f"Against the baseline of {comparison['at']}: {comparison['verdict']} ({comparison['why']}).")
    return [f"### {heading(sweep)}", "", " ".join(said), "", *table(head, rows)]


def _ceiling(sweep: Tree) -> str:
    points = [f"{point['tok_s']:.0f} at C={point['concurrency']}" for point in sweep["ceiling"] if point.get("tok_s")]
    return f"The client alone reaches {', '.join(points)} tok/s." if points else "The client alone was not measured."


def _pair(values: Tree) -> str:
    return f"{values['median']:.1f} / {values['p99']:.1f}" if {"median", "p99"} <= set(values) else ""


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} s"


def _read(folder: pathlib.Path, host: str, key: str) -> list[Tree]:
    """Result files of a host, oldest first; what cannot be read or is of another shape is left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        if not _STAMP.search(path.name):
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get("host") == host and content.get("version") == 1 and key in content:
            found.append(_report_redact.Redactor([], []).clean(content))
    return sorted(found, key=lambda each: str(each["at"]))

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots of sweeps as SVG text, by matplotlib on the controller (private to the collection).

matplotlib is optional: without it the report has its tables and says what to install. The SVG holds text as text, takes
its ink from the page (so it reads on light and on dark), and is the same for the same figures.
"""

from __future__ import annotations

import functools
import html
import importlib
import importlib.util
import io
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _report_measure

# Only looked for: its import takes a second or two, and most reports have no sweep to draw.
MATPLOTLIB_ERROR = "" if importlib.util.find_spec("matplotlib") else "No module named 'matplotlib'"

Tree = dict[str, t.Any]

# Stands for the page's own text colour while matplotlib draws.
INK = "#010203"
# Colours that keep a contrast of 3:1 on white and on near-black, and differ for colour-blind readers (Okabe and Ito).
NOW, OLDER, FIRST, TOKEN = "#0072b2", "#8c8c8c", "#d55e00", "#009e73"
MARKERS = {"compute": "o", "kv": "s", "slots": "D", "requests": "^", "errors": "X"}
MARKER_WORDS = {
    "compute": "computing",
    "kv": "queue: KV tokens",
    "slots": "queue: state slots",
    "requests": "queue: max_running_requests",
    "errors": "errors",
}


def figures(report: Tree, history: t.Sequence[Tree]) -> dict[str, str]:
    """HTML of a figure for each sweep of a report, by the heading that it belongs to.

    Args:
        report: with ``measured`` as :func:`_report_measure.collect` gives it.
        history: sweeps of the host, for the earlier ones beside the newest.
    """
    found = {}
    for sweep in (report.get("measured") or {}).get("sweeps", []):
        name = _report_measure.heading(sweep)
        if MATPLOTLIB_ERROR:
            found[name] = (
                '<p class="note">No plot: matplotlib is missing on the controller. Install it '
                "(pip install matplotlib) and write the report again.</p>"
            )
            continue
        before = _report_measure.earlier(sweep, history)
        caption = f"{name}, {sweep['at']}" + (f"; grey: {len(before)} earlier" if before else "")
        found[name] = (
            f'<figure role="img" aria-label="{html.escape(caption)}">{draw(sweep, before)}'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
    return found


def draw(sweep: Tree, before: t.Sequence[Tree]) -> str:
    """Throughput and latency of a sweep over concurrency, as SVG without an XML head."""
    mpl = importlib.import_module("matplotlib")
    pages = importlib.import_module("matplotlib.figure")
    style: t.Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "blackwell.sglang",
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "legend.facecolor": "none",
        "legend.framealpha": 0.0,
        "grid.alpha": 0.25,
        "grid.color": INK,
    }
    with mpl.rc_context(style):
        figure = pages.Figure(figsize=(9.6, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _throughput(left, sweep, before)
        _latency(right, sweep)
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            ticks = [row["concurrency"] for row in sweep["levels"]]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set_xlabel("concurrent requests")
            axes.grid(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(fontsize=8)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    # The page sets the size; the viewBox keeps the proportions.
    return re.sub(
        r'(<svg[^>]*?) height="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1), count=1
    )


def _throughput(axes: t.Any, sweep: Tree, before: t.Sequence[Tree]) -> None:
    for place, old in enumerate(before):
        xs, ys = _points(old["levels"], lambda row: row["tok_s"])
        axes.plot(xs, ys, color=OLDER, linewidth=1, alpha=0.4 + 0.5 * (place + 1) / len(before))
    xs, ys = _points(sweep["levels"], lambda row: row["tok_s"])
    axes.plot(xs, ys, color=NOW, linewidth=2)
    for label, marker in MARKERS.items():
        at = [row for row in sweep["levels"] if row["label"] == label and row["tok_s"]]
        if at:
            places = [row["concurrency"] for row in at]
            speeds = [row["tok_s"] for row in at]
            fill = NOW if label == "compute" else "none"
            axes.plot(places, speeds, marker, color=NOW, markerfacecolor=fill, label=MARKER_WORDS[label])
    spreads = [row for row in sweep["levels"] if len(row.get("runs") or []) > 1]
    for row in spreads:
        axes.vlines(row["concurrency"], min(row["runs"]), max(row["runs"]), color=NOW, linewidth=3, alpha=0.5)
    if any(row.get("client_bound") for row in sweep["levels"]):
        xs, ys = _points(sweep["ceiling"], lambda row: row["tok_s"])
        axes.plot(xs, ys, ":", color=INK, linewidth=1, label="the client's own ceiling")
    bounds = sorted({row["c_max"] for row in sweep["levels"] if row["c_max"]})
    if bounds and bounds[0] < max(row["concurrency"] for row in sweep["levels"]):
        axes.axvline(bounds[0], color=INK, linestyle="--", linewidth=1, label=f"C_max {bounds[0]}")
    axes.set_ylim(bottom=0)
    axes.set_title("output tokens per second", fontsize=9, loc="left")


def _percentile(name: str, kind: str, row: Tree) -> t.Any:
    return row[name].get(kind)


def _latency(axes: t.Any, sweep: Tree) -> None:
    for name, words, color in (("ttft", "time to first token", FIRST), ("tpot", "time per token after it", TOKEN)):
        for kind, line in (("median", "-"), ("p99", "--")):
            xs, ys = _points(sweep["levels"], functools.partial(_percentile, name, kind))
            if ys:
                label = f"{words}, {'median' if kind == 'median' else '99th percentile'}"
                axes.plot(xs, ys, line, color=color, marker=".", linewidth=1.5, label=label)
    axes.set_yscale("log")
    axes.set_title("latency in ms", fontsize=9, loc="left")


def _points(rows: t.Iterable[Tree], value: t.Callable[[Tree], float | None]) -> tuple[list[int], list[float]]:
    pairs = [(row["concurrency"], found) for row in rows if (found := value(row))]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

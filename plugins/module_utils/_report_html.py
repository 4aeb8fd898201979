# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Markdown page of a report as one HTML file that needs no network (private to the collection).

Knows just the Markdown that _report_markdown writes: headings, tables, lists, fenced text, bold, code and links. So
there is one source of what a report says, and no second one to keep in step.
"""

from __future__ import annotations

import html
import re
import typing as t

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #1a7f37; --bad: #b42318; --note: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; --note: #d4a72c; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .92em; }
th, td { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; } td.figure { white-space: nowrap; }
th { background: var(--soft); } pre { background: var(--soft); padding: .75rem; overflow-x: auto; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.note { color: var(--note); }
td.good, td.bad, td.note { background: color-mix(in srgb, currentColor 12%, transparent); }
figure { margin: .75rem 0; } figure svg { width: 100%; height: auto; color: inherit; }
figcaption { font-size: .85em; opacity: .75; }
@media print { figure { break-inside: avoid; } }
@media print { body { max-width: none; margin: 0; } pre { white-space: pre-wrap; } tr { break-inside: avoid; } }
"""
# Cells and headings that a reader looks for first.
_CLASSES = {
    "passed": "good",
    "proved": "good",
    "serving": "good",
    "FAILED": "bad",
    "failed": "bad",
    "refuted": "bad",
    "error": "bad",
    # verdicts of the backend matrix
    "ok": "good",
    "slow": "note",
    "refused": "note",
    "wrong": "bad",
    "crash": "bad",
    "hang": "bad",
    "warning": "note",
    "not judged": "note",
    "not proved in this run": "note",
}
# A cell of figures alone is not broken over lines.
_FIGURE = re.compile(r"[\d.,/% ]{1,24}")


def page(markdown: str, figures: t.Mapping[str, str] | None = None) -> str:
    """The whole file. Every text is escaped first, so nothing in a report becomes markup.

    ``figures`` is HTML of our own making that goes below the heading which is its key.
    """
    lines = markdown.splitlines()
    title = lines[0].lstrip("# ") if lines else "report"
    body = "\n".join(_blocks(lines, figures or {}))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _blocks(lines: t.Sequence[str], figures: t.Mapping[str, str]) -> t.Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        taken = 1
        if line.startswith("```"):
            end = next((i for i in range(place + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            yield "<pre>" + html.escape("\n".join(lines[place + 1 : end])) + "</pre>"
            taken = end + 1 - place
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            name = line.lstrip("#").strip()
            yield f"<h{level}>{_inline(name)}</h{level}>"
            if name in figures:
                yield figures[name]
        elif line.startswith("|"):
            taken = _run(lines, place, "|")
            yield _table(lines[place : place + taken])
        elif line.lstrip().startswith("- "):
            taken = _run(lines, place, "- ")
            yield _list(lines[place : place + taken])
        elif line.strip():
            yield f"<p>{_inline(line)}</p>"
        place += taken


def _run(lines: t.Sequence[str], place: int, start: str) -> int:
    """How many lines from ``place`` on begin with ``start``, indented or not."""
    count = 0
    while place + count < len(lines) and lines[place + count].lstrip().startswith(start):
        count += 1
    return count


def _table(lines: t.Sequence[str]) -> str:
    rows = [_cells(line) for line in lines]
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in rows[0])
    body = "\n".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows[2:])
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cells(line: str) -> list[str]:
    """Cells of a row; a bar behind a backslash belongs to the text."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|") + " ")]


def _cell(text: str) -> str:
    kind = _CLASSES.get(text) or ("figure" if _FIGURE.fullmatch(text) else None)
    return f'<td class="{kind}">{_inline(text)}</td>' if kind else f"<td>{_inline(text)}</td>"


def _list(lines: t.Sequence[str]) -> str:
    """A list with at most one level below it."""
    parts = ["<ul>"]
    inside = False
    for line in lines:
        nested = line.startswith("  ")
        if nested != inside:
            parts.append("<ul>" if nested else "</ul>")
            inside = nested
        parts.append(f"<li>{_inline(line.lstrip()[2:])}</li>")
    return "\n".join([*parts, "</ul>" if inside else "", "</ul>"])


def _inline(text: str) -> str:
    """Bold, code and links in one line. A link goes to a page beside this one or is left as text."""
    safe = html.escape(text)
    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    safe = re.sub(r"\[([^\]]+)\]\(([\w.\-]+)\.md\)", r'<a href="\2.html">\1</a>', safe)
    tail = re.search(r": (\S.*)$", text)
    kind = _CLASSES.get(tail.group(1)) if tail else None
    return f'<span class="{kind}">{safe}</span>' if kind else safe

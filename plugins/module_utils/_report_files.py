# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes reports into a folder of the controller (private to the collection).

Each host is reported by a process of its own, so the summary of the run is made under a lock, from what lies in the
folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _report,
    _report_html,
    _report_markdown,
    _report_measure,
    _report_plots,
    _service,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

SUMMARY = "README.md"
SUMMARY_JSON = "summary.json"


def write(folder: str, report: dict[str, t.Any], hosts: t.Collection[str]) -> dict[str, t.Any]:
    """Write the pages of one host and the summary of all.

    Args:
        folder: where; made when it is not there.
        report: of :func:`_report.build`, redacted.
        hosts: names in the inventory; reports of others in the folder are left alone and not summarised.

    Returns:
        ``{"written": bool, "path": ..., "summary": ...}``; not written when only times differ.

    Raises:
        SglangError: the folder cannot be written.
    """
    place = pathlib.Path(folder)
    name = file_name(report["host"])
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            old = read(place / f"{name}.json")
            report = {**_report.keep_richer(old, report), "measured": _report_measure.collect(place, report["host"])}
            page = place / f"{name}.md"
            written = not (page.is_file() and _report.same(old, report))
            if written:
                _host(place, report)
            if written or not (place / SUMMARY).is_file():
                _summarise(place, hosts)
    except OSError as error:
        raise SglangError(
            f"the report cannot be written: {error.strerror}",
            folder,
            "a folder that this user may write",
            "set sglang_report_dir to one",
        ) from error
    return {"written": written, "path": str(place / f"{name}.md"), "summary": str(place / SUMMARY)}


def measure(folder: str, report: dict[str, t.Any], hosts: t.Collection[str]) -> str:
    """Bring new measurements into the report of a host, and nothing else; the path of its page.

    Args:
        folder: of the reports.
        report: for a host that has none yet.
        hosts: names in the inventory.
    """
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    name = file_name(report["host"])
    with _locked(place):
        known = read(place / f"{name}.json") or report
        _host(place, {**known, "measured": _report_measure.collect(place, report["host"])})
        _summarise(place, hosts)
    return str(place / f"{name}.md")


def _host(place: pathlib.Path, report: dict[str, t.Any]) -> None:
    """The three files of a host."""
    name = file_name(report["host"])
    _replace(place / f"{name}.json", json.dumps(report, indent=2, sort_keys=True) + "\n")
    figures = _report_plots.figures(report, _report_measure.history(place, report["host"]))
    _pages(place / f"{name}.md", _report_markdown.host_page(report), figures)


def read(path: pathlib.Path) -> dict[str, t.Any] | None:
    """A report that lies there; None when there is none or it is no longer readable."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == _report.SCHEMA else None


def file_name(host: str) -> str:
    """A host's name as a file name: nothing that leaves the folder or hides the file."""
    return re.sub(r"[^\w.\-]", "_", host).lstrip(".") or "host"


def _summarise(place: pathlib.Path, hosts: t.Collection[str]) -> None:
    found = [read(place / f"{file_name(host)}.json") for host in sorted(hosts)]
    reports = [report for report in found if report]
    _pages(place / SUMMARY, _report_markdown.summary_page(reports))
    brief = [
        {
            "host": report["host"],
            "result": report["result"],
            "generated_at": report["generated_at"],
            "failure": report["failure"],
        }
        for report in reports
    ]
    _replace(
        place / SUMMARY_JSON, json.dumps({"schema": _report.SCHEMA, "hosts": brief}, indent=2, sort_keys=True) + "\n"
    )


def _pages(path: pathlib.Path, markdown: str, figures: t.Mapping[str, str] | None = None) -> None:
    """A page in Markdown and the same in HTML; the Markdown comes last, since its presence says that all is there."""
    _replace(path.with_suffix(".html"), _report_html.page(markdown, figures))
    _replace(path, markdown)


def _replace(path: pathlib.Path, text: str) -> None:
    """Write a file whole or not at all."""
    _service.write_text(path, text, 0o644)


@contextlib.contextmanager
def _locked(place: pathlib.Path) -> t.Iterator[None]:
    with (place / ".lock").open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield

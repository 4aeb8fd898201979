# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a new measurement into the report of its host (controller only)."""

from __future__ import annotations

import datetime
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _report, _report_files, _report_redact


def bring_in(folder: pathlib.Path, host: str, variables: t.Mapping[str, t.Any], group: str = "sglang_hosts") -> str:
    """Write the pages of a host again with its newest measurements; the path of the page.

    Args:
        folder: of the reports; the measurement lies in a folder below it.
        host: inventory name.
        variables: task variables; what site.yml found out is not asked again, its report is kept.
        group: hosts whose reports the summary lists.
    """
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts = {"sglang_resolved": variables.get("sglang_resolved")}
    fresh = _report.build(host, facts, {"generated_at": now})
    report = _report_redact.Redactor([], []).clean(fresh)
    return _report_files.measure(str(folder), report, variables.get("groups", {}).get(group, [host]))

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last failed start of a unit that systemd has restarted since (private to the collection)."""

from __future__ import annotations

import datetime
import json
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._service import Run

# systemd's messages about an end (sd-messages.h: SD_MESSAGE_UNIT_FAILURE_RESULT, SD_MESSAGE_UNIT_PROCESS_EXIT).
_ENDED = ("d9b373ed55a64feb8242e02dbe79a49c", "98e322203f7a4ed290d09fe03c09fe15")
_FIELDS = "INVOCATION_ID,UNIT_RESULT,EXIT_STATUS"


def last_failure(run: Run, unit: str) -> dict[str, t.Any] | None:
    """The newest failed start of a unit in this boot, from systemd's own messages; None where the journal has none.

    Returns ``{invocation_id, at, result, exit_status}``; ``at`` is in UTC.
    """
    words = ["journalctl", "--quiet", "--no-pager", "--boot", "--reverse", "--lines=4", "--output=json"]
    matches = [f"UNIT={unit}", *(f"MESSAGE_ID={each}" for each in _ENDED)]
    status, out, _err = run([*words, f"--output-fields={_FIELDS}", *matches])
    entries = [entry for entry in map(_entry, out.splitlines() if status == 0 else []) if entry.get("INVOCATION_ID")]
    failed = next((entry for entry in entries if entry.get("UNIT_RESULT")), None)
    if failed is None:
        return None
    same = [entry for entry in entries if entry["INVOCATION_ID"] == failed["INVOCATION_ID"]]
    exit_status = next((entry["EXIT_STATUS"] for entry in same if str(entry.get("EXIT_STATUS")).isdigit()), 0)
    return {
        "invocation_id": failed["INVOCATION_ID"],
        "at": _utc(failed.get("__REALTIME_TIMESTAMP")),
        "result": failed["UNIT_RESULT"],
        "exit_status": int(exit_status),
    }


def _entry(line: str) -> dict[str, t.Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _utc(microseconds: t.Any) -> str:
    """journald's time, as all state files write one; empty where there is none."""
    if not str(microseconds).isdigit():
        return ""
    moment = datetime.datetime.fromtimestamp(int(microseconds) / 1e6, tz=datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

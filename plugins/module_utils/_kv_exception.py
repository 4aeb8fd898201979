# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exceptions that lift a verdict on the KV cache (private to the collection)."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# Exceptions that lift a verdict; the first lifts each of them.
EXCEPTION = "kv_cache_dtype"
EXCEPTIONS = {
    "violated": (EXCEPTION, "kv_cache_dtype_violated", "kv_cache_dtype_auto"),
    "impossible": (EXCEPTION, "kv_cache_dtype_impossible"),
    "unproved": (EXCEPTION, "kv_cache_dtype_unproved"),
}


def granted(
    exceptions: t.Sequence[t.Mapping[str, t.Any]] | None, verdict: str, warnings: list[str]
) -> dict[str, t.Any] | None:
    """The exception that lifts a verdict, if one is in force.

    Raises:
        SglangError: an exception without a reason, or whose ``until`` is no day.
    """
    for position, entry in enumerate(exceptions or []):
        if entry.get("id") not in EXCEPTIONS.get(verdict, ()):
            continue
        where = f"exceptions[{position}]"
        if not entry.get("reason"):
            raise SglangError(
                f"the exception {entry['id']} has no reason", where=where, fix="write reason: why it is granted"
            )
        until = entry.get("until")
        if until:
            try:
                day = datetime.date.fromisoformat(str(until)[:10])
            except ValueError as exc:
                raise SglangError(
                    f"{until!r} is no day", where=f"{where}.until", expected="for instance 2027-03-31"
                ) from exc
            if day < datetime.datetime.now(tz=datetime.timezone.utc).date():
                warnings.append(f"the exception {entry['id']} ended on {day.isoformat()} and no longer counts")
                continue
        return {"id": str(entry["id"]), "reason": str(entry["reason"]), "until": str(until) if until else None}
    return None

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a run that stays on the host: a line of JSON in /var/lib/sglang/runs.jsonl (private to the collection).

docs/contracts/run_record.schema.json has the shape.
"""

from __future__ import annotations

import json
import shlex
import typing as t

PATH = "/var/lib/sglang/runs.jsonl"
# Lines kept; a record is about 1 kB.
KEEP = 1000
SCHEMA = 1


def build(report: t.Mapping[str, t.Any], who: str, controller: str) -> dict[str, t.Any]:
    """The record of a report.

    Args:
        report: of :func:`_report.build`, redacted.
        who: user who ran it on the controller.
        controller: name of the controller.
    """
    failure = report["failure"]
    return {
        "schema": SCHEMA,
        "at": report["generated_at"],
        "who": f"{who}@{controller}",
        "collection_version": report["collection_version"],
        "result": report["result"],
        "changes": list(report["changes"]),
        "run_seconds": report["timings"]["run_seconds"],
        "instances": {
            entry["name"]: {
                "release_id": entry["release_id"],
                "stack": entry["stack"],
                "kv": entry["kv"]["effective_dtype"],
                "kv_verdict": entry["kv"]["verdict"],
                "gate": entry["gate"]["passed"] if entry["gate"] else None,
                "rollback": (entry["rollback"] or {}).get("to_release"),
            }
            for entry in report["instances"]
        },
        "stacks": {name: stack["digest"] for name, stack in report["stacks"].items()},
        "exceptions": [entry["id"] for entry in report["exceptions"]],
        "failure": {"task": failure["task"], "msg": failure["msg"][:500]} if failure else None,
    }


def command(record: t.Mapping[str, t.Any], path: str = PATH, keep: int = KEEP) -> str:
    """A shell command that appends the record and keeps the last ``keep`` lines; a failure leaves the file alone."""
    line = json.dumps(record, sort_keys=True, separators=(",", ":"))
    file = shlex.quote(path)
    fresh = shlex.quote(path + ".new")
    folder = shlex.quote(path.rpartition("/")[0])
    return (
        f"umask 022; mkdir -p {folder} && "
        f"{{ tail -n {keep - 1} {file} 2>/dev/null; printf '%s\\n' {shlex.quote(line)}; }} > {fresh} && "
        f"mv -f {fresh} {file}"
    )

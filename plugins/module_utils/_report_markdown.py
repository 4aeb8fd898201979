# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown: one page per host and one for the run (private to the collection)."""

from __future__ import annotations

import json
import re
import shlex
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _report_measure

Tree = t.Mapping[str, t.Any]
MARKS = {True: "passed", False: "FAILED", None: "not judged"}


def host_page(report: Tree) -> str:
    """The page of one host, from a report of :func:`_report.build` (already redacted)."""
    parts = [
        f"# {report['host']}: {report['result']}",
        "",
        f"Written {report['generated_at']} by blackwell.sglang {report['collection_version']}.",
    ]
    for section in (_failure, _changes, _instances, _measured, _stacks, _exceptions, _findings, _machine, _timings):
        lines = section(report)
        if lines:
            parts += ["", *lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def summary_page(reports: t.Sequence[Tree]) -> str:
    """One table over all hosts of the inventory that have a report."""
    rows = []
    for report in reports:
        link = f"[{report['host']}]({report['host']}.md)"
        if not report["instances"]:
            rows.append([link, report["result"], "", "", "", "", report["generated_at"]])
        for entry in report["instances"]:
            gate = entry["gate"]
            rows.append(
                [
                    link,
                    report["result"],
                    entry["name"],
                    entry["model_path"],
                    f"{entry['kv']['effective_dtype'] or entry['kv']['ordered']} ({entry['kv']['verdict']})",
                    MARKS[gate["passed"]] if gate else "no gate",
                    report["generated_at"],
                ]
            )
    head = ["host", "result", "instance", "model", "KV cache", "gate", "written"]
    lines = ["# What serves where", "", *table(head, rows)]
    failed = [report for report in reports if report["failure"]]
    if failed:
        lines += ["", "## Failed", ""]
        lines += [
            f"- **{report['host']}**, {report['failure']['task']}: {one_line(report['failure']['msg'])}"
            for report in failed
        ]
    return "\n".join(lines) + "\n"


def table(head: t.Sequence[str], rows: t.Iterable[t.Sequence[t.Any]]) -> list[str]:
    """Lines of a Markdown table; cells are kept on one line and their bars escaped."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _name in head) + " |"]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return lines


def cell(value: t.Any) -> str:
    """A value as one cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else json.dumps(value)
    return one_line(text).replace("|", "\\|")


def one_line(text: str) -> str:
    """Line breaks as spaces."""
    return " ".join(str(text).split())


def _measured(report: Tree) -> list[str]:
    return _report_measure.lines(report.get("measured") or {}, table)


def _failure(report: Tree) -> list[str]:
    failure = report["failure"]
    if not failure:
        return []
    lines = ["## What failed", "", f"Task: {failure['task']}", "", "```text", failure["msg"].strip(), "```"]
    for name, diagnosis in failure["diagnosis"].items():
        lines += ["", f"Diagnosis of {name}:", "", *_nested(diagnosis)]
    for name, rollback in failure["rollback"].items():
        gate = rollback.get("gate")
        verdict = f"its gate: {MARKS[gate['passed']]}" if gate else "it was not gated"
        lines += ["", f"Rollback of {name} to {rollback.get('to_release') or 'nothing'}: {verdict}."]
    return lines


def _changes(report: Tree) -> list[str]:
    lines = [f"- {change}" for change in report["changes"]]
    return ["## What this run did", "", *(lines or ["Nothing: everything was in place."])]


def _instances(report: Tree) -> list[str]:
    lines: list[str] = []
    for entry in report["instances"]:
        listen = entry["listen"] or {}
        rows = [
            ["unit", entry["unit"]],
            ["ordered state", entry["state"]],
            ["model", entry["model_path"]],
            ["served as", entry["served_model_name"]],
            [
                "listens on",
                f"{listen.get('host', '')}:{listen.get('port', '')}"
                + (", API key set" if entry["api_key_set"] else ""),
            ],
            ["GPUs", entry["gpus"]],
            ["stack", entry["stack"]],
            ["release", entry["release_id"]],
        ]
        lines += [f"## Instance {entry['name']}", "", *table(["what", "value"], rows), ""]
        lines += ["Why:", "", *[f"- {reason}" for reason in entry["why"]], ""]
        lines += ["Arguments:", "", "```text", _command(entry["argv"]), "```"]
        if entry["env"]:
            lines += ["", "Environment:", "", *table(["name", "value"], sorted(entry["env"].items()))]
        lines += ["", *_kv(entry["kv"]), *_capacity(entry), *_gate(entry["gate"], "Gate")]
        if entry["diagnosis"]:
            lines += ["", "### Diagnosis", "", *_nested(entry["diagnosis"])]
        if entry["rollback"]:
            lines += [
                "",
                f"Rolled back to {entry['rollback'].get('to_release')}.",
                *_gate(entry["rollback"].get("gate"), "Gate after it"),
            ]
        lines.append("")
    return lines


def _command(words: t.Sequence[t.Any]) -> str:
    """One option a line."""
    text = "python -m sglang.launch_server"
    for word in words:
        quoted = shlex.quote(str(word))
        text += f" \\\n  {quoted}" if str(word).startswith("--") else f" {quoted}"
    return text


def _kv(kv: Tree) -> list[str]:
    lines = [
        "### KV cache",
        "",
        f"Ordered {kv['ordered']}, verdict **{kv['verdict']}**"
        + (f": it is {kv['effective_dtype']}." if kv["effective_dtype"] else "."),
    ]
    rows = [[item.get("source"), item.get("says"), item.get("weight")] for item in kv["evidence"]]
    if rows:
        lines += ["", *table(["source", "says", "weight"], rows)]
    if kv["recommendation"]:
        lines += ["", f"Recommendation: {kv['recommendation']}"]
    return lines


def _capacity(entry: Tree) -> list[str]:
    capacity = dict(entry["capacity"] or {})
    need = dict(entry["need"] or {})
    if not capacity and not need:
        return []
    rows = [[key, value] for key, value in capacity.items() if value is not None]
    rows += [[f"needed: {key}", value] for key, value in need.items()]
    return ["", "### Capacity", "", *table(["what", "value"], rows)]


def _gate(gate: Tree | None, title: str) -> list[str]:
    if not gate:
        return ["", f"### {title}", "", "No gate ran in this run."]
    rows = [
        [check["id"], MARKS[check["passed"]], check["expected"], check["seen"], f"{check['seconds'] or 0:.2f}"]
        for check in gate["checks"]
    ]
    lines = [
        "",
        f"### {title}: {MARKS[gate['passed']]}",
        "",
        *table(["check", "verdict", "expected", "seen", "seconds"], rows),
    ]
    for check in gate["checks"]:
        if check["passed"] is False and check["evidence"]:
            lines += ["", f"{check['id']}:", "", *[f"- {one_line(str(line))}" for line in check["evidence"]]]
    return lines


def _stacks(report: Tree) -> list[str]:
    lines: list[str] = []
    for name, stack in report["stacks"].items():
        release = stack["release"] or {}
        lines += [f"## Stack {name}", "", f"Channel {stack['channel']}, digest {stack['digest']}."]
        if release:
            lines[-1] += (
                f" Release {release['id']} ({release['state']}), Python {release['python']},"
                f" lock {release['lock_digest']}."
            )
        wanted = {pin["name"]: pin for pin in stack["pins"]}
        names = sorted({*wanted, *stack["versions"]})
        rows = []
        for package in names:
            pin = wanted.get(package, {})
            note = "wins against others' pins" if package in stack["overrides"] else ""
            rows.append([package, stack["versions"].get(package), pin.get("version"), pin.get("index"), note])
        if rows:
            lines += ["", *table(["package", "installed", "pinned", "index", "note"], rows)]
        others = [name for name in stack["overrides"] if name not in names]
        if others:
            lines += ["", f"Win against others' pins as well: {', '.join(others)}."]
        guard = [[entry["severity"], entry["what"], entry["lifted"]] for entry in stack["guard"]]
        if guard:
            lines += ["", "What the guard said of the plan:", "", *table(["severity", "what", "lifted because"], guard)]
        plan = [[change["action"], change["name"], change["before"], change["after"]] for change in stack["plan"]]
        if plan:
            lines += ["", "The plan that was applied:", "", *table(["action", "package", "before", "after"], plan)]
        lines += _kernel(stack["kernel"])
        lines.append("")
    return lines


def _kernel(kernel: Tree | None) -> list[str]:
    if not kernel:
        return []
    rows = [
        [key.replace("_", " "), kernel[key]]
        for key in ("distribution", "build", "repository", "commit", "cuda_arch_list", "stamp", "wheel", "reason")
    ]
    rows.append(["CMake options", " ".join(str(word) for word in kernel["cmake_args"])])
    rows.append(["architectures", kernel["architectures"]])
    lines = ["", "Kernel:", "", *table(["what", "value"], [row for row in rows if row[1]])]
    if kernel["patches"]:
        shown = [
            [patch.get("id"), patch.get("status")] if isinstance(patch, t.Mapping) else [patch, ""]
            for patch in kernel["patches"]
        ]
        lines += ["", *table(["patch", "status"], shown)]
    return lines


def _exceptions(report: Tree) -> list[str]:
    rows = [[entry["scope"], entry["id"], entry["reason"], entry["until"]] for entry in report["exceptions"]]
    return ["## Exceptions granted", "", *table(["where", "id", "reason", "until"], rows)] if rows else []


def _findings(report: Tree) -> list[str]:
    if not report["findings"]:
        return []
    rows = []
    for finding in report["findings"]:
        why = finding["why"] + (" (folklore)" if finding["folklore"] else "")
        if finding["excepted"]:
            why += f" (accepted: {finding['excepted'].get('reason')})"
        rows.append([finding["severity"], finding["id"], finding["what"], why, finding["fix"]])
    return ["## What was found on the host", "", *table(["severity", "id", "what", "why", "fix"], rows)]


def _machine(report: Tree) -> list[str]:
    hardware = report["hardware"]
    rows: list[list[t.Any]] = []
    if hardware:
        for kind in hardware["gpus"]:
            rows.append(
                [
                    "GPUs",
                    f"{kind['count']} x {kind['name']}, {kind['memory_mib']} MiB,"
                    f" compute capability {kind['compute_capability']}",
                ]
            )
        if hardware["driver"]:
            rows.append(
                [
                    "driver",
                    f"{hardware['driver']['version']}"
                    f" ({'open' if hardware['driver']['open'] else 'closed'} kernel module)",
                ]
            )
        if hardware["cuda"]:
            rows.append(["CUDA", f"{hardware['cuda']['version']} ({hardware['cuda']['nvcc']})"])
        rows += [[key, value] for key, value in hardware["os"].items()]
        rows.append(["memory GiB", hardware["memory_gib"]])
        rows.append(["farthest GPUs", hardware["topology"]["worst"]])
        if hardware["nccl"]:
            words = " ".join(f"{name}={value}" for name, value in hardware["nccl"]["env"].items())
            given = hardware["nccl"].get("installed") == hardware["nccl"]["env"]
            where = "each unit has it, unless its instance sets another" if given else "a recommendation"
            rows.append([f"NCCL profile {hardware['nccl']['profile']}", f"{words} ({where})"])
    hypervisor = report["hypervisor"]
    if hypervisor:
        rows.append(
            [
                "hypervisor",
                f"{hypervisor['name']}, guest {hypervisor['vmid']} ({hypervisor['kind']}),"
                f" {len(hypervisor['devices'] or [])} devices",
            ]
        )
    return ["## The host", "", *table(["what", "value"], rows)] if rows else []


def _timings(report: Tree) -> list[str]:
    timings = report["timings"]
    rows = [["the run", f"{timings['run_seconds']:.1f}"]] if timings["run_seconds"] is not None else []
    for key, what in (
        ("ready_seconds", "start of"),
        ("downtime_seconds", "out of service:"),
        ("gate_seconds", "gate of"),
    ):
        rows += [[f"{what} {name}", f"{seconds:.1f}"] for name, seconds in timings.get(key, {}).items()]
    return ["## Seconds", "", *table(["what", "seconds"], rows)] if rows else []


def _nested(value: t.Any) -> list[str]:
    """A diagnosis of any shape as a list: plain fields by name, the rest as JSON."""
    if not isinstance(value, t.Mapping):
        return [f"- {one_line(str(value))}"]
    lines = []
    for key, entry in value.items():
        if isinstance(entry, list) and entry and all(isinstance(item, str) for item in entry):
            lines += [f"- {key}:", *[f"  - {one_line(item)}" for item in entry]]
        elif entry not in (None, "", [], {}):
            lines.append(f"- {key}: {cell(entry)}")
    return lines

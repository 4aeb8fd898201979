# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a rule about a GPU host and how rules become findings (private to the collection).

A rule is a row of a table: what is seen, why it matters, what to do, where that is known from, and a function that
looks for it in the facts of ``gpu_host_info``. The tables are the modules _gpu_rules_*.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

Facts = t.Mapping[str, t.Any]
Hits = t.Iterable[t.Mapping[str, t.Any]]

ERROR = "error"
WARNING = "warning"
ADVICE = "advice"
SEVERITIES: tuple[str, ...] = (ERROR, WARNING, ADVICE)

# Where the rules come from, by the short name that rows use.
SOURCES: dict[str, str] = {
    "wiki": "https://github.com/local-inference-lab/rtx6kpro (community wiki, 2026-05)",
    "cuda13": "CUDA 13.0 release notes, table of driver versions (>= 580.65.06)",
    "open-modules": "NVIDIA driver README, open kernel modules: Blackwell has no other",
    "flashinfer-3633": "https://github.com/flashinfer-ai/flashinfer/issues/3633",
    "nccl-1700": "https://github.com/NVIDIA/nccl/issues/1700",
    "nccl-env": "NCCL documentation, environment variables (NCCL_P2P_LEVEL)",
    "kernel-params": "Linux kernel documentation, kernel-parameters.txt",
    "pve-docs": "https://pve.proxmox.com/pve-docs/ (pct.conf, qm PCI passthrough)",
    "pve-container": "https://github.com/proxmox/pve-container (device passthrough at start)",
    "rtx6kpro-15": "https://github.com/local-inference-lab/rtx6kpro/issues/15",
    "dynamo-1889": "https://github.com/ai-dynamo/dynamo/issues/1889",
    "llamafactory-9506": "https://github.com/hiyouga/LlamaFactory/issues/9506",
    "smi-help": "nvidia-smi(1)",
    "design": "blackwell.sglang support matrix",
    "manylinux": "PEP 600: manylinux_2_28 wheels need glibc 2.28",
    "xid": "NVIDIA Xid error catalogue, https://docs.nvidia.com/deploy/xid-errors/",
}


@dataclasses.dataclass(frozen=True)
class Rule:
    """One row. ``what`` and ``fix`` are format strings that are filled with what ``look`` yields for each hit."""

    id: str
    severity: str
    what: str
    why: str
    fix: str
    source: str
    look: t.Callable[[Facts, Facts], Hits]
    folklore: bool = False


def evaluate(
    rules: t.Iterable[Rule],
    facts: Facts,
    wants: Facts,
    exceptions: t.Iterable[t.Mapping[str, t.Any]] = (),
    today: datetime.date | None = None,
) -> list[dict[str, t.Any]]:
    """Findings of ``rules`` on ``facts``, errors first.

    Args:
        rules: rows of the tables.
        facts: what ``gpu_host_info`` read.
        wants: what the host is for (numbers of :func:`_gpu_rules.wants`).
        exceptions: ``{id, reason, until}``; a finding with that id becomes advice that carries the reason. One whose
            ``until`` is a date (YYYY-MM-DD) in the past lifts nothing and is reported as a finding itself.
        today: for the comparison with ``until``; the controller's day by default.

    Returns:
        Findings ``{id, severity, what, why, fix, source, folklore, excepted}``.
    """
    day = today or datetime.date.today()
    granted = {str(entry.get("id", "")): entry for entry in exceptions}
    findings: list[dict[str, t.Any]] = []
    for rule in rules:
        for hit in rule.look(facts, wants):
            finding: dict[str, t.Any] = {
                "id": rule.id,
                "severity": hit.get("severity", rule.severity),
                "what": rule.what.format(**hit),
                "why": rule.why,
                "fix": rule.fix.format(**hit),
                "source": SOURCES.get(rule.source, rule.source),
                "folklore": rule.folklore,
                "excepted": None,
            }
            entry = granted.get(rule.id)
            if entry is not None and not expired(entry, day):
                finding["excepted"] = {
                    "reason": entry.get("reason", ""),
                    "until": entry.get("until"),
                    "was": finding["severity"],
                }
                finding["severity"] = ADVICE
            findings.append(finding)
    findings += [_expiry(entry) for entry in granted.values() if expired(entry, day)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def expired(entry: t.Mapping[str, t.Any], today: datetime.date) -> bool:
    """True when ``until`` is a date before ``today``; any other text (a version, a ticket) never expires by itself."""
    text = str(entry.get("until") or "")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return False
    try:
        return datetime.date.fromisoformat(text) < today
    except ValueError:
        return False


def message(findings: t.Iterable[t.Mapping[str, t.Any]], host: str = "") -> str:
    """One text that names every error with its reason and fix; '' when there is none."""
    errors = [finding for finding in findings if finding["severity"] == ERROR]
    if not errors:
        return ""
    head = f"{host}: " if host else ""
    lines = [
        f"{head}{len(errors)} thing{'s' if len(errors) != 1 else ''} must be put right before anything is installed."
    ]
    for finding in errors:
        lines.append(f"- {finding['what']}. Why: {finding['why']}. Fix: {finding['fix']} [{finding['id']}]")
    return "\n".join(lines)


def at_least(version: str | None, wanted: str | None) -> bool | None:
    """Dotted versions compared by number; None when one of them is not known."""
    if not version or not wanted:
        return None
    left = [int(part) for part in re.findall(r"\d+", version)]
    right = [int(part) for part in re.findall(r"\d+", wanted)]
    return left >= right


def indices(cards: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """``GPU 0, 1 and 5`` for a sentence."""
    words = [str(card["index"]) for card in cards]
    if len(words) > 1:
        words = [", ".join(words[:-1]) + " and " + words[-1]]
    return f"GPU {words[0]}" if words else "no GPU"


def _expiry(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        "id": "exception_expired",
        "severity": WARNING,
        "what": f"the exception for {entry.get('id')} ended on {entry.get('until')}",
        "why": f"it was granted because: {entry.get('reason', 'no reason given')}",
        "fix": "remove it from gpu_host_exceptions, or give it a later date and a reason that still holds",
        "source": SOURCES["design"],
        "folklore": False,
        "excepted": None,
    }

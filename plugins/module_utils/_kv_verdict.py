# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a KV cache and what it rests on (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

# What a piece of evidence can do, strongest first. Only ``proves`` and ``refutes`` decide.
WEIGHTS = ("proves", "refutes", "risk", "intent", "nothing")
VERDICTS = ("ok", "violated", "impossible", "unproved")


@dataclasses.dataclass(frozen=True)
class Evidence:
    """One source and what it says: ``weight`` is proves, refutes, risk, intent or nothing."""

    source: str
    says: str
    weight: str

    def as_dict(self) -> dict[str, str]:
        """For a module's result."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class KvVerdict:
    """What is known about the dtype of a KV cache.

    ``verdict``: ``ok`` (it is as ordered), ``violated`` (it is not), ``impossible`` (this engine cannot do it for this
    model) or ``unproved``. ``effective_dtype``: an engine's word such as ``bfloat16`` or ``fp8_e4m3``, or ``unknown``.
    ``recommendation``: the argument to set, or an empty string. ``receipt``: what to keep under the InvocationID so
    that a later run can do without the log of the start; empty unless the verdict was reached from one.
    """

    verdict: str
    effective_dtype: str
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    recommendation: str = ""
    receipt: dict[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the cache is as ordered."""
        return self.verdict == "ok"

    def as_dict(self) -> dict[str, t.Any]:
        """For a module's result and for proof.json."""
        return {
            "verdict": self.verdict,
            "effective_dtype": self.effective_dtype,
            "evidence": [item.as_dict() for item in self.evidence],
            "recommendation": self.recommendation,
        }

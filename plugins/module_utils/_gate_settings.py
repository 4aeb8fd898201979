# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance may set under ``gate``, for the check of the inventory and for the gate itself (private)."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting: its default, what it means, and the bounds (both included) of a number.

    A default of None leaves the choice to the gate; ``example`` is then what one could write.
    """

    default: t.Any
    meaning: str
    least: float = 0
    most: float = 0
    example: t.Any = None

    @property
    def sample(self) -> t.Any:
        """A value of the right type."""
        return self.example if self.default is None else self.default


SETTINGS: dict[str, Setting] = {
    # A cold JIT cache and 233 GB of weights took field reporters 15 minutes.
    "ready_timeout": Setting(1800, "seconds until the server must answer", 1, 86400),
    # By default 900, or half of ready_timeout if that is more (_gate_limit).
    "ready_timeout_warm": Setting(None, "the same where the JIT caches are warm", 1, 86400, example=900),
    # The first completion may still compile a kernel.
    "request_timeout": Setting(120, "seconds for one short completion", 1, 3600),
    "prompt": Setting("The capital of France is", "what is completed"),
    "max_tokens": Setting(16, "length of an answer", 1, 4096),
    # By default sized by the running server: 41,000 tokens, and 64 requests or the declared need (_gate_size).
    "long_prompt_words": Setting(None, "length of the long prompt", 5, 1_000_000, example=3000),
    "concurrency": Setting(None, "requests of the burst", 2, 4096, example=64),
    # Above 1 never counts as a loop.
    "repetition": Setting(0.9, "share of one token or character from which an answer counts as a loop", 0.1, 2.0),
    "capacity_tolerance": Setting(0.02, "share by which the capacity may differ from the computed one", 0.0, 1.0),
    "skip": Setting([], "ids of checks that are not asked, each listed in the result as skipped"),
}
DEFAULTS: dict[str, t.Any] = {name: setting.default for name, setting in SETTINGS.items()}

# Checks by id, in the order in which they are asked.
CHECK_IDS = (
    "ready.unit",
    "ready.port",
    "ready.health",
    "right.logprobs",
    "right.text",
    "right.same",
    "right.long",
    "right.burst",
    "ordered.version",
    "ordered.arguments",
    "ordered.kv",
    "roomy.free",
    "roomy.capacity",
    "roomy.need",
)

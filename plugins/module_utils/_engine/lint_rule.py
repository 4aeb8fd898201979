# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lint rule is and what it may ask of an instance; the rules stand in tables of their own (private)."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.options import nearest_table, options_for
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.renames import renamed
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import in_range

REFUSE = "refuse"
WARN = "warn"
# Names of models whose layers mix full attention with gated delta nets (linear attention with a state per request).
_HYBRID = re.compile(r"qwen[-_. ]?3[-_. ]?(5|6|next)|qwen3-next", re.IGNORECASE)
# Models with DeepSeek's sparse attention, and DeepSeek-V4, whose attention is of its own kind.
_GLM5 = re.compile(r"glm[-_. ]?5(?!\d)", re.IGNORECASE)
_DEEPSEEK_V32 = re.compile(r"deepseek[-_. ]?v3[-_.]2(?!\d)", re.IGNORECASE)
_DEEPSEEK_V4 = re.compile(r"deepseek[-_. ]?v4(?!\d)", re.IGNORECASE)


class Finding(t.NamedTuple):
    """One thing that a rule found: the key below the instance, what is wrong, what would be right, what to write."""

    key: str
    what: str
    expected: str
    fix: str


class Rule(t.NamedTuple):
    """One rule. ``versions`` is a range as in ``versions.in_range``; ``liftable`` is false where nothing could work."""

    id: str
    severity: str
    versions: str
    symptom: str
    source: str
    look: t.Callable[[Facts], Finding | None]
    liftable: bool = True


class Facts:
    """What a rule may ask of a resolved instance."""

    def __init__(self, instance: t.Mapping[str, t.Any]) -> None:
        self.instance = instance
        self.env: t.Mapping[str, str] = instance["env"]
        # An unread version is judged by its stand-in, like its options.
        self.version = instance["engine_version"] or nearest_table(None)[0]

    def get(self, field: str) -> t.Any:
        """An argument by any of its names over the versions; None where it is not given."""
        args = self.instance["args"]
        for name in (field, *(row.new if row.old == field else row.old for row in renamed(field))):
            if name in args:
                return args[name]
        return None

    def matching(self, pattern: str) -> list[tuple[str, t.Any]]:
        """Name and value of the arguments whose whole name fits a pattern; names are those of the option table."""
        return [(name, value) for name, value in self.instance["args"].items() if re.fullmatch(pattern, name)]

    def name_of(self, field: str) -> str:
        """The name under which this version takes an argument, for messages."""
        known = options_for(self.version)
        for name in (field, *(row.new if row.old == field else row.old for row in renamed(field))):
            if name in known and not known[name].deprecated:
                return name
        return field

    def number(self, field: str, default: int) -> int:
        """An argument as a whole number, the default where it is absent or none."""
        value = self.get(field)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def within(self, versions: str) -> bool:
        """Whether the engine's version lies in a range."""
        return in_range(self.version, versions)

    @property
    def fp4(self) -> bool:
        """Whether the checkpoint is NVFP4, by the quantization given or else by the model's name."""
        given = self.get("quantization")
        if given is not None:
            return "fp4" in str(given) or given == "modelopt_mixed"
        return "fp4" in str(self.instance["model_path"]).lower()

    @property
    def hybrid(self) -> bool:
        """Whether the model has linear-attention states (Qwen3.5, Qwen3-Next), by the name of its path or profile."""
        return self._called(_HYBRID)

    @property
    def glm5(self) -> bool:
        """Whether the model is a GLM-5, by the same names."""
        return self._called(_GLM5)

    @property
    def sparse(self) -> bool:
        """Whether the model has DeepSeek's sparse attention (GLM-5, DeepSeek-V3.2), by the same names."""
        return self.glm5 or self._called(_DEEPSEEK_V32)

    @property
    def deepseek_v4(self) -> bool:
        """Whether the model is a DeepSeek-V4, by the same names."""
        return self._called(_DEEPSEEK_V4)

    def _called(self, pattern: re.Pattern[str]) -> bool:
        return any(
            pattern.search(str(self.instance[key] or "")) for key in ("model_path", "profile", "served_model_name")
        )

    def on(self, name: str) -> bool:
        """Whether an environment variable is set to a true value."""
        return str(self.env.get(name, "")).strip().lower() in ("1", "true", "yes", "on", "y", "t")

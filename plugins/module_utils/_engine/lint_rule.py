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
        return any(
            _HYBRID.search(str(self.instance[key] or "")) for key in ("model_path", "profile", "served_model_name")
        )

    def on(self, name: str) -> bool:
        """Whether an environment variable is set to a true value."""
        return str(self.env.get(name, "")).strip().lower() in ("1", "true", "yes", "on", "y", "t")

"""How the stand-in is told to misbehave: /etc/sglang-standin.json or the variable SGLANG_STANDIN, read at start.

    {"time_scale": 0.02, "fault": "nan"}
    {"faults": [{"fault": "crash_loading", "times": 1},
                {"fault": "nan_long", "tokens": 4000,
                 "only": {"port": 30000, "prefix": "20261129", "args": {"tp_size": 8}}}]}

`only` limits a fault to a port, to a release (a part of sys.prefix) or to arguments; `times` to the first starts that
meet it, counted in a file. The faults and their settings are listed in README.md beside the package.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FILE = "/etc/sglang-standin.json"
VARIABLE = "SGLANG_STANDIN"
DEFAULT_TIME_SCALE = 0.05  # of the captured times: about 3.5 s from start to 200

KNOWN = {
    "nan", "nan_burst", "nan_long", "nan_happened", "garbage", "bad_cache",
    "crash_loading", "crash_loop", "crash_later", "illegal_memory_access",
    "hang_loading", "hang_after_ready", "slow", "no_memory", "port_in_use",
    "ignore_sigterm", "orphan", "wrong_kv_log", "ignore_kv_flag",
}  # fmt: skip


class Settings:
    """What the file and the environment ask for; the environment wins key by key."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.time_scale = float(values.get("time_scale", DEFAULT_TIME_SCALE))
        entries = list(values.get("faults", []))
        if values.get("fault"):
            names = values["fault"] if isinstance(values["fault"], list) else [values["fault"]]
            entries += [{**values, "fault": name} for name in names]
        unknown = sorted({entry["fault"] for entry in entries} - KNOWN)
        if unknown:
            raise SystemExit(f"sglang stand-in: unknown fault {unknown[0]!r}, known are {', '.join(sorted(KNOWN))}")
        self._entries = entries
        self._active: dict[str, dict[str, Any]] = {}

    def resolve(self, server_args: Any) -> None:
        """Decide once, at start, which faults apply to this server."""
        for entry in self._entries:
            if _applies(entry.get("only", {}), server_args) and self._has_starts_left(entry):
                self._active[entry["fault"]] = entry

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the settings of an active fault, or None."""
        return self._active.get(name)

    def _has_starts_left(self, entry: dict[str, Any]) -> bool:
        if "times" not in entry:
            return True
        default = Path(tempfile.gettempdir(), f"sglang-standin-{entry['fault']}.count")
        path = Path(entry.get("counter") or default)
        try:
            done = int(path.read_text(encoding="utf-8") or 0)
        except (OSError, ValueError):
            done = 0
        if done >= int(entry["times"]):
            return False
        path.write_text(str(done + 1), encoding="utf-8")
        return True


def _applies(only: dict[str, Any], server_args: Any) -> bool:
    if "port" in only and server_args.port != only["port"]:
        return False
    if "prefix" in only and only["prefix"] not in sys.prefix:
        return False
    return all(getattr(server_args, name, None) == value for name, value in only.get("args", {}).items())


def read(path: str = FILE) -> Settings:
    """Read the settings; a missing file means a well-behaved server, a broken one is an error."""
    values: dict[str, Any] = {}
    if Path(path).exists():
        values.update(json.loads(Path(path).read_text(encoding="utf-8")))
    if os.environ.get(VARIABLE):
        values.update(json.loads(os.environ[VARIABLE]))
    return Settings(values)

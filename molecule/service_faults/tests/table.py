"""Faults of the engine that the gate must find, with what it must say; tests/lab/engine/README.md has the settings."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of the stand-in, the check that must fail, and the id of the diagnosis."""

    name: str
    check: str
    diagnosis: str
    settings: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    keys: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    holds: bool = True  # whether it gets as far as holding GPU memory

    @property
    def engine(self) -> dict[str, t.Any]:
        """Settings of the stand-in."""
        return {"fault": self.name, **self.settings}


# It ends while it loads; slow enough for what it holds by then to be seen on a busy machine.
SEEN = {"time_scale": 0.1}

FAULTS = (
    Fault("nan", "right.logprobs", "gate_nan"),
    Fault("nan_burst", "right.burst", "gate_nan", {"requests": 4}),
    Fault("nan_long", "right.long", "gate_nan", {"tokens": 1200}),
    Fault("nan_happened", "right.text", "nan_happened"),
    Fault("garbage", "right.text", "gate_garbage", {"kind": "repetition"}),
    Fault("bad_cache", "right.same", "gate_differs"),
    Fault("crash_loading", "ready.started", "no_kernel_image", SEEN),
    Fault("crash_loading", "ready.started", "unknown", {"message": "seen by nobody before", **SEEN}),
    Fault("crash_loop", "ready.started", "undefined_symbol", holds=False),
    Fault("illegal_memory_access", "right.burst", "illegal_memory_access", {"requests": 4}),
    Fault("hang_loading", "ready.started", "gate_not_ready", keys={"gate": {"ready_timeout": 12}}),
    Fault(
        "hang_after_ready",
        "ready.started",
        "gate_hangs",
        keys={"gate": {"ready_timeout": 15, "request_timeout": 3}},
    ),
    Fault("slow", "ready.started", "gate_not_ready", {"factor": 60}, {"gate": {"ready_timeout": 12}}),
    Fault("no_memory", "ready.started", "not_enough_memory", SEEN),
    Fault("wrong_kv_log", "ordered.kv", "gate_kv", {"rank": 1}),
    Fault("ignore_kv_flag", "ordered.kv", "gate_kv"),
)

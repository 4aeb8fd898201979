# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run levels of a sweep on a host from the controller, with what goes on shown on the screen.

Two action plugins use it: ``sglang_benchmark`` for whole sweeps, ``backend_matrix`` for brief ones.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_client
from ansible_collections.blackwell.sglang.plugins.module_utils._bench_plan import Level, Shape

MODULE = "blackwell.sglang.sglang_benchmark_job"
# Seconds of one look; each costs a module call of 0.35 s besides.
LOOK_S = 5.0
# Progress of one level is shown at most this often.
REPEAT_S = 20.0

Call = t.Callable[[str, dict[str, t.Any]], dict[str, t.Any]]
Show = t.Callable[[str], None]


@dataclasses.dataclass
class Bench:
    """How levels are run: ``call`` runs a module on the host, ``show`` prints a line, the rest goes to the module."""

    call: Call
    show: Show
    instance: dict[str, t.Any]
    shape: Shape
    options: dict[str, t.Any]
    limit_s: float = 7200.0
    text_digest: str = ""
    client: str = ""

    def probe(self) -> dict[str, t.Any]:
        """What the server can hold and which client there is; the module's result, ``failed`` included."""
        return self.call(MODULE, {"step": "probe", "instance": self.instance, **self._where()})

    def level(self, level: Level, instant: bool = False) -> dict[str, t.Any]:
        """Run one level; its row, labelled ``errors`` with the reason where the client failed or ran out of time."""
        if not level.run:
            return _bench_client.not_run(level)
        plain = dataclasses.asdict(level)
        begun = self.call(
            MODULE,
            {
                "step": "start",
                "instance": self.instance,
                "level": plain,
                "shape": dataclasses.asdict(self.shape),
                "instant": instant,
                **self._where(),
                **{key: self.options[key] for key in ("user", "text", "seed") if self.options.get(key) is not None},
            },
        )
        if begun.get("failed"):
            return failed_row(level, str(begun.get("msg")))
        if not instant:
            self.text_digest, self.client = str(begun["text_digest"]), str(begun["client"])
        try:
            return self._wait(level, plain, str(begun["folder"]))
        finally:
            self.call(MODULE, {"step": "remove", "folder": begun["folder"]})

    def _wait(self, level: Level, plain: dict[str, t.Any], folder: str) -> dict[str, t.Any]:
        start = time.monotonic()
        shown = start
        while True:
            state = self.call(MODULE, {"step": "look", "folder": folder, "level": plain, "seconds": LOOK_S})
            now = time.monotonic()
            if state.get("failed"):
                return failed_row(level, str(state.get("msg")))
            if state["finished"]:
                return state["row"] or failed_row(level, str(state["error"]))
            if now - start > self.limit_s:
                return failed_row(level, f"no end after {self.limit_s:.0f} s")
            if now - shown >= REPEAT_S:
                done = state["progress"]
                words = f"{done[0]} of {done[1]} requests" if done else "the client reads the tokenizer and its prompts"
                self.show(f"C={level.concurrency}, {now - start:.0f} s: {words}")
                shown = now

    def _where(self) -> dict[str, t.Any]:
        return {key: self.options[key] for key in ("root", "python") if self.options.get(key)}


def failed_row(level: Level, why: str) -> dict[str, t.Any]:
    """The row of a level whose client brought no result."""
    return {**_bench_client.not_run(level), "errors": level.prompts, "label": "errors", "why": why}

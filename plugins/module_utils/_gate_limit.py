# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a start may take: one limit with cold JIT caches, one with warm ones (private to the collection).

Published starts of a 397B model: weights 36 to 228 s, graphs 180 to 208 s, in all 7 to 8 minutes, and 5 to 10 more
where kernels have to be compiled first (facts on SM120, E). The captured server took 190 s cold and 64 to 93 s warm.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._gate import Context

# Seconds of a warm start where gate.ready_timeout_warm is not set: twice what is published, for a slower disk.
WARM_S = 900.0


@dataclasses.dataclass(frozen=True)
class Limit:
    """Seconds from the begin of the wait, the setting that gives them, and why this one counts."""

    seconds: float
    setting: str
    reason: str

    @property
    def words(self) -> str:
        """For the screen."""
        return f"limit {self.seconds:g} s: {self.reason}"


def of(context: Context) -> Limit:
    """The limit of the start that is waited for.

    Cold is what may have to compile: this release was never proved with these arguments (others use other kernels, and
    a first start that was cut off leaves half a cache), or its caches hold nothing from before this start.
    """
    cold = float(context.settings["ready_timeout"])
    reason = why_cold(context)
    if reason:
        return Limit(cold, "gate.ready_timeout", f"cold start, {reason}")
    given = context.settings["ready_timeout_warm"]
    # Who raised the cold limit has slow disks, which a warm start reads from as well.
    warm = float(given) if given is not None else max(WARM_S, cold / 2)
    reason = f"warm start, the JIT caches of {_service.linked_release(context.places)} are there"
    if cold <= warm:
        return Limit(cold, "gate.ready_timeout", f"{reason}, and gate.ready_timeout is no longer")
    return Limit(warm, "gate.ready_timeout_warm", reason)


def why_cold(context: Context) -> str:
    """Why this start may have to compile its kernels; empty when it need not."""
    places = context.places
    release = _service.linked_release(places)
    if not _service.is_good(places):
        return f"release {release or 'none'} was not proved with these arguments yet"
    begun = _service.unit_states(context.run, [places.unit])[places.unit]["begun"]
    if not has_older_file(places.cache(release), begun):
        return f"the JIT caches of {release} hold nothing from before it"
    return ""


def has_older_file(folder: pathlib.Path, moment: float) -> bool:
    """Whether a file below the folder was last written before a moment (seconds since 1970; 0 is any moment)."""
    for path, _folders, names in os.walk(folder):
        for name in names:
            if moment <= 0 or _written(pathlib.Path(path, name)) < moment:
                return True
    return False


def _written(path: pathlib.Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # compilers write under another name first
        return float("inf")


def given(seconds: float) -> dict[str, t.Any]:
    """Settings that make a task's own limit the only one."""
    return {"ready_timeout": seconds, "ready_timeout_warm": seconds}

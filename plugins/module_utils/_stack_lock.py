# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time on a host: a lock that names its owner and is known to be stale (private to the collection).

No process of a run stays on the host, so the lock is a file. It is stale when its owner is known to be dead (the
controller tells, which alone can see its own processes), or when it was not renewed for ``STALE_SECONDS`` and no job
of the collection runs on the host.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_release import write_json

LOCK = "run.lock"
STALE_SECONDS = 1800

Owner = dict[str, t.Any]


def read(root: str | pathlib.Path) -> Owner | None:
    """The owner of the lock, or None if nobody holds it."""
    path = pathlib.Path(root, LOCK)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        value = None
    if isinstance(value, dict):
        return value
    # Created a moment ago and not written yet, or cut off by a power failure: its age tells which.
    try:
        return {"name": "unknown", "token": "", "renewed": int(path.stat().st_mtime)}
    except OSError:
        return None


def is_stale(owner: Owner, jobs: t.Sequence[str], now: float | None = None) -> bool:
    """Whether a lock was not renewed for long and nothing that it started still runs."""
    renewed = owner.get("renewed")
    age = (now or time.time()) - (renewed if isinstance(renewed, (int, float)) else 0)
    return age > STALE_SECONDS and not jobs


def take(root: str | pathlib.Path, owner: Owner, jobs: t.Sequence[str] = (), dead: str | None = None) -> bool:
    """Take or renew the lock; returns whether it was not ours before.

    Args:
        owner: ``name`` for people, ``token`` that is the same for all tasks of one run.
        jobs: jobs of the collection that run on the host now.
        dead: token of an owner that the controller knows to be dead.

    Raises:
        SglangError: another run holds the lock (kind ``locked``).
    """
    path = pathlib.Path(root, LOCK)
    value = {**owner, "renewed": int(time.time())}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    try:
        # Two runs that come at the same moment: only one of them creates the file.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        held = None
    except FileExistsError:
        held = read(root)
    if held and held.get("token") not in (owner["token"], dead) and not is_stale(held, jobs):
        raise SglangError(
            f"another run works on this host: {held.get('name')}, since {held.get('since', 'an unknown time')}",
            where=str(path),
            fix=f"wait for it to end; if it is known to be dead, remove {path}",
            kind="locked",
        )
    write_json(path, value)
    return held is None or held.get("token") != owner["token"]


def release(root: str | pathlib.Path, token: str) -> bool:
    """Give the lock back if it is ours; returns whether it was."""
    held = read(root)
    if held is None or not token or held.get("token") != token:
        return False
    pathlib.Path(root, LOCK).unlink(missing_ok=True)
    return True

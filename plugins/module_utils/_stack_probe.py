# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at a host's releases, and what is left to do for each stack (private to the collection)."""

from __future__ import annotations

import json
import pathlib
import shutil
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _stack_choice,
    _stack_host,
    _stack_lock,
    _stack_release,
)


def probe(
    run: _stack_host.Run,
    root: str,
    stacks: t.Mapping[str, t.Mapping[str, t.Any]],
    cuda_homes: t.Sequence[str] = (),
    *,
    used: t.Mapping[str, str] | None = None,
    asked: t.Collection[str] = (),
    python: str = "",
) -> dict[str, t.Any]:
    """Everything that the roles nightly_stack and sgl_kernel need to know before they act.

    ``used`` maps instances to their stacks, ``asked`` are those that name one themselves, for the advice.
    ``python`` is the interpreter that the inventory names.
    """
    releases = _stack_release.read_releases(root)
    links = _stack_release.linked(root)
    jobs = _stack_host.jobs(run)
    lock = _stack_lock.read(root)
    if lock is not None:
        lock = {**lock, "stale": _stack_lock.is_stale(lock, jobs)}
    interpreters = _stack_host.interpreters(root)
    chosen = {
        name: _stack_host.choose_interpreter(stack.get("python") or [], interpreters, python, run)
        for name, stack in stacks.items()
    }
    processors, memory = _stack_host.cores(), _stack_host.memory_limit()
    return {
        "releases": releases,
        "links": links,
        "good": sorted(_stack_release.good() & {release["id"] for release in releases}),
        "stacks": {name: _stack(name, stack, releases, links, chosen[name]) for name, stack in stacks.items()},
        "advice": _stack_choice.advice(stacks, used or {}, asked),
        "wheels": wheels(root),
        "lock": lock,
        "jobs": jobs,
        "interpreters": interpreters,
        "uv": _stack_host.uv(root),
        "toolkit": _stack_host.toolkit(run, cuda_homes) if _needs_build(stacks, releases) else None,
        "ccache": shutil.which("ccache"),
        "cores": processors,
        "memory_bytes": memory,
        "build_jobs": _stack_host.build_jobs(processors, memory),
        "disk_free_bytes": _stack_host.disk_free(root),
    }


def todo(stack: t.Mapping[str, t.Any], release: t.Mapping[str, t.Any] | None) -> list[str]:
    """What is left to do until a stack has a verified release, in order: ``install``, ``kernel``, ``verify``."""
    if release is not None and release.get("state") == _stack_release.VERIFIED:
        return []
    steps = []
    if release is None or not release.get("installed"):
        steps.append("install")
    if (stack.get("kernel") or {}).get("build") == "source" and not ((release or {}).get("kernel") or {}).get("wheel"):
        steps.append("kernel")
    return [*steps, "verify"]


def wheels(root: str | pathlib.Path) -> list[dict[str, t.Any]]:
    """Kernel wheels under ``ROOT/wheels/STAMP``; one without its stamp.json was cut off while it was put there."""
    found = []
    for stamp in sorted(pathlib.Path(root).glob("wheels/*/stamp.json")):
        try:
            facts = json.loads(stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        files = sorted(stamp.parent.glob("*.whl"))
        if files:
            found.append({**facts, "stamp": stamp.parent.name, "file": str(files[0])})
    return found


def _stack(
    name: str,
    stack: t.Mapping[str, t.Any],
    releases: list[_stack_release.Release],
    links: t.Mapping[str, str],
    interpreter: dict[str, t.Any] | None,
) -> dict[str, t.Any]:
    usable = [release for release in releases if release["state"] != "broken" and _whole(release)]
    digest = str(stack.get("digest") or "")
    release = _stack_release.current_for(name, usable, digest)
    return {
        "digest": digest,
        "release": release,
        "previous": _stack_release.previous_for(name, usable, links),
        "interpreter": interpreter,
        "todo": todo(stack, release),
        "build": _stack_choice.source_build(stack, release),
    }


def _whole(release: t.Mapping[str, t.Any]) -> bool:
    # A verified release whose environment somebody removed is no release; one being built may not have it yet.
    if release["state"] != _stack_release.VERIFIED:
        return True
    return pathlib.Path(release["path"], "venv", "bin", "python").exists()


def _needs_build(stacks: t.Mapping[str, t.Mapping[str, t.Any]], releases: list[_stack_release.Release]) -> bool:
    # nvcc is a process to start; a run that changes nothing has no need to know it.
    for name, stack in stacks.items():
        release = _stack_release.current_for(name, releases, str(stack.get("digest") or ""))
        if "kernel" in todo(stack, release):
            return True
    return False

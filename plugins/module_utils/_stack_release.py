# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases on a host: where they lie, what state they are in, who uses them (private to the collection).

A release is ``ROOT/releases/ID`` with ``venv``, ``requirements.lock``, ``build.log`` and ``release.json``. It is born
``building`` and becomes ``verified`` once; every write of release.json is a rename, so a power cut leaves the old one.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import shutil
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

BUILDING = "building"
VERIFIED = "verified"
STATE_DIR = pathlib.Path("/var/lib/sglang")
LOCK_NAME = "requirements.lock"

Release = dict[str, t.Any]


def utc_now() -> str:
    """The time now as ``2026-11-29T19:45:00Z``."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def lock_digest(text: str) -> str:
    """First 12 hex digits of SHA-256 over the packages and hashes of a lock; comments and the order do not count."""
    lines = sorted(line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def new_id(digest: str, now: str | None = None) -> str:
    """An id that sorts by age: UTC time and the first 8 hex digits of the lock's digest."""
    stamp = (now or utc_now()).replace("-", "").replace(":", "")
    return f"{stamp}-{digest[:8]}"


def write_json(path: str | pathlib.Path, value: t.Any, mode: int = 0o644) -> None:
    """Write JSON so that a reader, or a host that loses power, sees the old file or the new one and nothing between."""
    target = pathlib.Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as handle:
        json.dump(value, handle, indent=2, sort_keys=True)
        handle.write("\n")
        handle.flush()
        os.fsync(handle.fileno())
    temporary.chmod(mode)
    temporary.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_release(folder: str | pathlib.Path) -> Release:
    """One release as release.json has it, with its ``path``; state ``broken`` if the file is missing or unreadable."""
    path = pathlib.Path(folder)
    try:
        value = json.loads((path / "release.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict) or value.get("state") not in (BUILDING, VERIFIED):
        value = {"state": "broken"}
    return {**value, "id": path.name, "path": str(path)}


def read_releases(root: str | pathlib.Path) -> list[Release]:
    """All releases of a host, oldest first."""
    folder = pathlib.Path(root, "releases")
    if not folder.is_dir():
        return []
    return [read_release(entry) for entry in sorted(folder.iterdir()) if entry.is_dir() and entry.name[0] != "."]


def linked(root: str | pathlib.Path) -> dict[str, str]:
    """Instance name to the id of the release that its link names."""
    found = {}
    folder = pathlib.Path(root, "instances")
    for link in sorted(folder.glob("*/release")) if folder.is_dir() else []:
        if link.is_symlink():
            found[link.parent.name] = link.readlink().name
    return found


def good(state_dir: str | pathlib.Path = STATE_DIR) -> set[str]:
    """Ids that any instance's good.json mentions, wherever in the file they stand."""
    found: set[str] = set()
    for path in sorted(pathlib.Path(state_dir).glob("*/good.json")):
        try:
            _collect(json.loads(path.read_text(encoding="utf-8")), found)
        except (OSError, ValueError):
            continue
    return found


def current_for(stack: str, releases: t.Iterable[Release], digest: str) -> Release | None:
    """The release to use for a stack: the newest verified one of this digest, else the newest that is being built."""
    mine = [release for release in releases if release.get("stack") == stack and release.get("stack_digest") == digest]
    for state in (VERIFIED, BUILDING):
        for release in reversed(mine):
            if release["state"] == state:
                return release
    return None


def previous_for(stack: str, releases: t.Iterable[Release], links: t.Mapping[str, str]) -> Release | None:
    """What a new release of a stack is compared with: its newest verified one that serves, else its newest verified."""
    mine = [release for release in releases if release.get("stack") == stack and release["state"] == VERIFIED]
    serving = [release for release in mine if release["id"] in links.values()]
    chosen = serving or mine
    return chosen[-1] if chosen else None


def begin(root: str | pathlib.Path, facts: t.Mapping[str, t.Any], lock: str, now: str | None = None) -> Release:
    """Create a release folder in state building, with its lock; the folder appears whole or not at all.

    Args:
        root: the collection's root on the host.
        facts: ``stack``, ``stack_digest``, ``python`` and what else release.json keeps.
        lock: text of the lock.
    """
    moment = now or utc_now()
    digest = lock_digest(lock)
    releases = pathlib.Path(root, "releases")
    releases.mkdir(parents=True, exist_ok=True, mode=0o755)
    target = releases / new_id(digest, moment)
    draft = releases / f".{target.name}.{os.getpid()}"
    draft.mkdir(mode=0o755)
    value = {**facts, "id": target.name, "state": BUILDING, "created": moment, "lock_digest": digest}
    (draft / LOCK_NAME).write_text(lock, encoding="utf-8")
    write_json(draft / "release.json", value)
    draft.rename(target)
    return {**value, "path": str(target)}


def update(path: str | pathlib.Path, changes: t.Mapping[str, t.Any]) -> tuple[Release, Release]:
    """Change fields of a release that is still being built; returns it (before, after).

    Raises:
        SglangError: the release is broken, or verified and thus not to be changed.
    """
    before = read_release(path)
    if before["state"] == "broken":
        raise SglangError("the release has no readable release.json", where=str(path), fix="remove the folder")
    stored = {key: value for key, value in before.items() if key != "path"}
    after = {**stored, **changes}
    if after == stored:
        return before, before
    if before["state"] == VERIFIED:
        raise SglangError("a verified release is never changed", where=str(path), fix="build a new release")
    write_json(pathlib.Path(path, "release.json"), after)
    return before, {**after, "path": str(path)}


def prunable(releases: list[Release], links: t.Mapping[str, str], kept: set[str], keep: int) -> list[Release]:
    """Releases that may go: all but the newest ``keep`` verified ones and every one that is linked or good.

    Of those still being built the newest of each stack stays, since the next run resumes it, unless a verified one of
    the stack is younger: then it is what an abandoned attempt left.
    """
    protected = {*links.values(), *kept}
    verified = [release["id"] for release in releases if release["state"] == VERIFIED]
    protected.update(verified[-keep:] if keep > 0 else [])
    newest = {str(release.get("stack")): release for release in releases if release["state"] in (BUILDING, VERIFIED)}
    protected.update(release["id"] for release in newest.values() if release["state"] == BUILDING)
    return [release for release in releases if release["id"] not in protected]


def remove(root: str | pathlib.Path, release_id: str) -> None:
    """Remove a release; it leaves the list of releases at once, before its thousands of files go.

    Raises:
        SglangError: an instance's link names it.
    """
    if release_id in linked(root).values():
        raise SglangError(f"release {release_id} is linked by an instance", fix="switch the instance first")
    folder = pathlib.Path(root, "releases", release_id)
    gone = folder.with_name(f".gone-{release_id}")
    if folder.is_dir():
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep(root: str | pathlib.Path) -> None:
    """Remove what an interrupted creation or removal left behind."""
    folder = pathlib.Path(root, "releases")
    for entry in folder.glob(".*") if folder.is_dir() else []:
        shutil.rmtree(entry, ignore_errors=True)


def _collect(value: t.Any, found: set[str]) -> None:
    if isinstance(value, str):
        found.add(pathlib.Path(value).name)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)

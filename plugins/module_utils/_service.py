# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an instance's state lies on a host, and how it is read and written safely (private to the collection)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import pathlib
import secrets
import tempfile
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _procs
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

Run = t.Callable[[list[str]], tuple[int, str, str]]

STATE_ROOT = "/var/lib/sglang"
CONFIG_ROOT = "/etc/sglang"
UNIT_ROOT = "/etc/systemd/system"
# What systemd reads beside it and a boot does not keep.
RUNTIME_ROOT = "/run/systemd/system"
CACHE_ROOT = "/var/cache/sglang"
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")
# States in which a unit's processes are there, or come back by themselves.
RUNNING = ("active", "activating", "reloading", "deactivating")
# How many good entries are kept: what serves, what served before, and one more to step back from a bad week.
GOOD_KEPT = 3
# Properties of a unit that the probe reads in one call of systemctl.
_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,Result,UnitFileState,InvocationID,MainPID,NRestarts,NeedDaemonReload,"
    "ActiveEnterTimestamp,InactiveExitTimestampMonotonic,ExecMainStatus,FragmentPath,DropInPaths"
)


@dataclasses.dataclass(frozen=True)
class Places:
    """Every path of one instance; roots can be others in tests."""

    name: str
    root: str = "/opt/sglang"
    state_root: str = STATE_ROOT
    config_root: str = CONFIG_ROOT
    unit_root: str = UNIT_ROOT
    runtime_root: str = RUNTIME_ROOT
    cache_root: str = CACHE_ROOT

    @property
    def unit(self) -> str:
        """Name of the unit."""
        return f"sglang-{self.name}.service"

    @property
    def unit_file(self) -> pathlib.Path:
        """The unit file."""
        return pathlib.Path(self.unit_root, self.unit)

    @property
    def env_file(self) -> pathlib.Path:
        """The environment file, mode 0600."""
        return pathlib.Path(self.config_root, f"{self.name}.env")

    @property
    def key_file(self) -> pathlib.Path:
        """The API key, mode 0600."""
        return pathlib.Path(self.config_root, f"{self.name}.api_key")

    @property
    def link(self) -> pathlib.Path:
        """The link to the release that the unit uses."""
        return pathlib.Path(self.root, "instances", self.name, "release")

    @property
    def proof(self) -> pathlib.Path:
        """The receipt of the last gate."""
        return pathlib.Path(self.state_root, self.name, "proof.json")

    @property
    def good(self) -> pathlib.Path:
        """Releases and unit files that passed the gate, newest first."""
        return pathlib.Path(self.state_root, self.name, "good.json")

    @property
    def pending(self) -> pathlib.Path:
        """Present from the first change of a deployment until its gate has spoken."""
        return pathlib.Path(self.state_root, self.name, "pending.json")

    @property
    def interrupted(self) -> pathlib.Path:
        """The mark of the deployment that a boot ended last, with what the boot did."""
        return pathlib.Path(self.state_root, self.name, "interrupted.json")

    def cache(self, release_id: str) -> pathlib.Path:
        """Folder of the JIT caches of this instance and a release."""
        return pathlib.Path(self.cache_root, self.name, release_id)

    def release(self, release_id: str) -> pathlib.Path:
        """Folder of a release."""
        return pathlib.Path(self.root, "releases", release_id)


def runner(module: t.Any) -> Run:
    """A command runner on top of an AnsibleModule; a program that is not installed is status 127, not a failure."""

    def run(words: list[str]) -> tuple[int, str, str]:
        try:
            status, out, err = module.run_command(words, handle_exceptions=False, errors="surrogate_or_replace")
        except OSError as exc:
            return 127, "", f"{words[0]}: {exc.strerror or exc}"
        return int(status), str(out), str(err)

    return run


def read_json(path: pathlib.Path) -> t.Any:
    """The content of a state file, or None where it is absent, unreadable or no JSON (a power cut may leave that)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(path: pathlib.Path, content: t.Any, mode: int = 0o600) -> None:
    """Replace a state file so that a power cut leaves the old or the new one, never half of it."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n", mode)


def write_text(path: pathlib.Path, text: str, mode: int) -> None:
    """Replace a file atomically and durably: write beside it, fsync, rename, fsync the folder."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        pathlib.Path(name).replace(path)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: pathlib.Path) -> None:
    """Make a rename in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: pathlib.Path) -> str:
    """Digest of a file, or an empty text where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def boot_id() -> str:
    """A mark of this boot: the kernel's boot id and the birth of process 1.

    A container has its host's boot id, and is also booted again without it; its init process is then another one.
    """
    try:
        return f"{BOOT_ID.read_text(encoding='ascii').strip()}/{_procs.describe(1)['starttime']}"
    except OSError:
        return ""


def linked_release(places: Places) -> str:
    """Id of the release that the instance's link points at, or an empty text."""
    try:
        return places.link.readlink().name
    except OSError:
        return ""


def release_state(places: Places, release_id: str) -> dict[str, t.Any]:
    """What a release says about itself: ``{id, exists, state, stack, stack_digest, versions, created}``."""
    info = read_json(places.release(release_id) / "release.json") if release_id else None
    info = info if isinstance(info, dict) else {}
    return {
        "id": release_id,
        "exists": bool(release_id) and places.release(release_id).is_dir(),
        "state": info.get("state", "missing"),
        "stack": info.get("stack"),
        "stack_digest": info.get("stack_digest"),
        "versions": info.get("versions") or {},
        "created": info.get("created"),
    }


def releases(root: str) -> list[dict[str, t.Any]]:
    """All releases of a host, newest first (an id begins with its UTC time)."""
    folder = pathlib.Path(root, "releases")
    names = sorted((entry.name for entry in folder.iterdir()), reverse=True) if folder.is_dir() else []
    return [release_state(Places("none", root=root), name) for name in names if not name.startswith(".")]


def unit_states(run: Run, units: list[str]) -> dict[str, dict[str, t.Any]]:
    """State of several units from one call: load, active, sub, result, enabled, invocation_id, main_pid and more.

    ``begun`` is when this start began, in seconds since 1970; 0 where systemd does not know.

    A host without systemd (a container image in check mode) gives every unit as not found.
    """
    empty: dict[str, t.Any] = {
        "load": "not-found",
        "active": "inactive",
        "sub": "dead",
        "result": "success",
        "enabled": False,
        "invocation_id": "",
        "main_pid": 0,
        "restarts": 0,
        "needs_reload": False,
        "since": "",
        "begun": 0.0,
        "exit_status": 0,
        "fragment": "",
        "drop_ins": [],
    }
    found = {unit: dict(empty) for unit in units}
    if not units:
        return found
    status, out, _err = run(["systemctl", "show", f"--property={_PROPERTIES}", "--", *units])
    if status != 0:
        return found
    for block in out.strip().split("\n\n"):
        shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if shown.get("Id") not in found:
            continue
        found[shown["Id"]] = {
            "load": shown.get("LoadState", "not-found"),
            "active": shown.get("ActiveState", "inactive"),
            "sub": shown.get("SubState", "dead"),
            "result": shown.get("Result", ""),
            "enabled": shown.get("UnitFileState") == "enabled",
            "invocation_id": shown.get("InvocationID", ""),
            "main_pid": int(shown.get("MainPID") or 0),
            "restarts": int(shown.get("NRestarts") or 0),
            "needs_reload": shown.get("NeedDaemonReload") == "yes",
            "since": shown.get("ActiveEnterTimestamp", ""),
            "begun": _wall(int(shown.get("InactiveExitTimestampMonotonic") or 0)),
            "exit_status": int(shown.get("ExecMainStatus") or 0),
            "fragment": shown.get("FragmentPath", ""),
            "drop_ins": shown.get("DropInPaths", "").split(),
        }
    return found


def _wall(microseconds: int) -> float:
    """A moment of the kernel's monotonic clock as seconds since 1970; 0 for 0. Free of time zones and languages."""
    passed = time.clock_gettime(time.CLOCK_MONOTONIC) - microseconds / 1e6
    return math.floor((time.time() - passed) * 10) / 10 if microseconds else 0.0


def good_entries(places: Places) -> list[dict[str, t.Any]]:
    """What passed the gate here, newest first: ``{release, unit_text, env_text, at, invocation_id}`` each."""
    content = read_json(places.good)
    entries = content.get("entries") if isinstance(content, dict) else None
    return [entry for entry in entries or [] if isinstance(entry, dict) and entry.get("release")]


def record_good(places: Places, proof: dict[str, t.Any], instance: dict[str, t.Any]) -> None:
    """Remember what runs now as good (release, unit, environment, what was asked) and end the pending deployment."""
    entry = {
        **installed(places),
        "at": proof.get("at"),
        "invocation_id": proof.get("invocation_id"),
        "instance": _asked(instance),
    }
    known = good_entries(places)
    if not is_newest_good(places, instance):
        older = [old for old in known if not same(old, entry)]
        write_json(places.good, {"version": 1, "entries": [entry, *older][:GOOD_KEPT]})
    end_pending(places)


def is_newest_good(places: Places, instance: dict[str, t.Any]) -> bool:
    """Whether what is installed is the newest good entry, recorded with what this instance asks for."""
    known = good_entries(places)
    return bool(known) and same(known[0], installed(places)) and known[0].get("instance") == _asked(instance)


def installed(places: Places) -> dict[str, t.Any]:
    """What the next start would use: ``{release, unit_text, env_text}``."""
    return {
        "release": linked_release(places),
        "unit_text": _text(places.unit_file),
        "env_text": _text(places.env_file),
    }


def _asked(instance: dict[str, t.Any]) -> dict[str, t.Any]:
    # What a later gate of an entry compares with; the environment is in the entry's text, and may hold secrets.
    return {key: value for key, value in instance.items() if key != "env"}


def same(one: dict[str, t.Any], other: dict[str, t.Any]) -> bool:
    """Whether two good entries would start the same server."""
    return all(one.get(key) == other.get(key) for key in ("release", "unit_text", "env_text"))


def is_good(places: Places) -> bool:
    """Whether exactly what is installed now (release, unit, environment) passed the gate before."""
    now = installed(places)
    return any(same(entry, now) for entry in good_entries(places))


def last_good(
    places: Places, previous: bool = False, release: str | None = None, booted: bool = False
) -> dict[str, t.Any] | None:
    """Where a failed deployment goes back to: the newest good entry, unless that is what is installed now.

    Args:
        places: of the instance.
        previous: take the newest entry that differs from what is installed, however old: an operator's step back.
        release: only entries of this release count, and the newest of them may be what is installed. With ``previous``
            it may not: the release may be a pin of the inventory, under which arguments were changed.
        booted: a boot put the newest entry back, so it may be what is installed.
    """
    entries = [entry for entry in good_entries(places) if release in (None, entry["release"])]
    if booted or (release and not previous):
        return entries[0] if entries else None
    now = installed(places)
    return next((entry for entry in (entries if previous else entries[:1]) if not same(entry, now)), None)


def begin_pending(places: Places, release_id: str, now: str) -> str:
    """Mark the start of a deployment, durably, before anything is changed; its later steps show what this returns."""
    deployment = secrets.token_hex(8)
    write_json(
        places.pending,
        {
            "deployment": deployment,
            "release": release_id,
            "from": linked_release(places),
            "boot_id": boot_id(),
            "at": now,
        },
    )
    return deployment


def interruption(places: Places, deployment: str) -> dict[str, str] | None:
    """What ended a deployment before its time: ``{by, words}``; None while it is the one at work.

    A controller that lives on takes its connection up again once the host is back, and then repeats the step that was
    cut off (Ansible's ``retries``), but on a host whose boot has put the last good release back. ``by`` is ``boot``
    then, and ``deployment`` when another run began or ended one.

    Args:
        places: the instance.
        deployment: what :func:`begin_pending` returned; empty for a caller that is no deployment.
    """
    if not deployment:
        return None
    mark = read_json(places.pending) or {}
    ended = read_json(places.interrupted) or {}
    if mark.get("deployment") == deployment:
        if mark.get("boot_id") == boot_id():
            return None
        words = f"the host was booted since this deployment of {places.name} began at {mark.get('at')}"
        return {"by": "boot", "words": words}
    if mark:
        words = f"another run began to deploy {places.name} at {mark.get('at')}, while this one was at work"
        return {"by": "deployment", "words": words}
    if ended.get("deployment") == deployment:
        words = (
            f"the host was booted since this deployment of {places.name} began at {ended.get('at')}, and the boot put "
            f"back what was good before it ({ended.get('recovered')})"
        )
        return {"by": "boot", "words": words}
    return {"by": "deployment", "words": f"another run ended this deployment of {places.name} while it was at work"}


def require_deployment(places: Places, deployment: str) -> None:
    """Raise SglangError (kind ``interrupted``) unless a deployment is the one at work, in the boot it began in."""
    found = interruption(places, deployment)
    if found:
        raise SglangError(
            found["words"],
            where=str(places.pending),
            expected="the mark that this deployment left",
            fix="run the playbook again",
            kind="interrupted",
        )


def end_pending(places: Places) -> None:
    """Take the mark away."""
    if places.pending.exists():
        places.pending.unlink()
        sync_folder(places.pending.parent)


def switch(places: Places, release_id: str) -> bool:
    """Point the instance's link at a verified release, atomically; whether it changed.

    Raises:
        SglangError: the release is absent or not verified.
    """
    require_verified(places, release_id)
    if linked_release(places) == release_id:
        return False
    folder = places.link.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    fresh = folder / f".release.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(os.path.relpath(places.release(release_id), folder))
    fresh.replace(places.link)
    sync_folder(folder)
    return True


def require_verified(places: Places, release_id: str) -> None:
    """Raise SglangError unless a release is there and verified."""
    state = release_state(places, release_id)
    if state["state"] != "verified":
        raise SglangError(
            f"release {release_id} is {state['state']}, so no instance may use it",
            where=str(places.link),
            expected="a release whose release.json says state verified",
            fix="run site.yml, which verifies the release before the service uses it",
            kind="not_verified",
        )


def restore(places: Places, entry: dict[str, t.Any], dry: bool = False) -> list[str]:
    """Put a good entry back: unit file, environment and link; what was changed, with ``dry`` only what would be.

    Raises:
        SglangError: its release is gone or not verified any more.
    """
    require_verified(places, entry["release"])  # before the files, or they would not fit the link that stays
    changed = []
    files = ((places.unit_file, entry["unit_text"], 0o644), (places.env_file, entry["env_text"], 0o600))
    for path, text, mode in files:
        if text is not None and _text(path) != text:
            if not dry:
                write_text(path, text, mode)
            changed.append(str(path))
    if linked_release(places) != entry["release"] if dry else switch(places, entry["release"]):
        changed.append(str(places.link))
    return changed


def _text(path: pathlib.Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None

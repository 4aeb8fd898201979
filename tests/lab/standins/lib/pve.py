"""Configuration and state of the lab's guests, as Proxmox VE keeps them.

Imitates the files of PVE 9: /etc/pve/{lxc,qemu-server}/VMID.conf with `key: value` lines (pct.conf(5), qm.conf(5)).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

LXC = Path("/etc/pve/lxc")
QEMU = Path("/etc/pve/qemu-server")
QEMU_STATE = Path("/run/qemu-server")
DISKS = Path("/var/lib/lxc")
PENDING = {LXC: "[pve:pending]", QEMU: "[PENDING]"}

# The lines of a configuration: a key may stand more than once (lxc.* keys), so this is no dict.
Settings = list[tuple[str, str]]


def vmids(folder: Path) -> list[int]:
    """Numbers of the guests of a kind, ascending."""
    return sorted(int(path.stem) for path in folder.glob("*.conf") if path.stem.isdigit())


def _sections(folder: Path, vmid: int) -> tuple[list[str], list[str], list[str]]:
    """Lines of the configuration, of its pending changes, and of its snapshots; ends the program without a guest."""
    try:
        lines = (folder / f"{vmid}.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        sys.exit(f"Configuration file 'nodes/{os.uname().nodename}/{folder.name}/{vmid}.conf' does not exist")
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    place = 0
    for line in lines:
        if line.startswith("["):
            place = 1 if line == PENDING[folder] else 2
        if place == 2 or (line and not line.startswith("[")):
            parts[place].append(line)
    return parts


def _settings(lines: list[str]) -> Settings:
    split = [line.partition(":") for line in lines if not line.startswith("#")]
    return [(key.strip(), text.strip()) for key, colon, text in split if colon]


def read(folder: Path, vmid: int) -> Settings:
    """Settings of a guest in file order, without pending changes and snapshots."""
    return _settings(_sections(folder, vmid)[0])


def read_pending(folder: Path, vmid: int) -> Settings:
    """Changes that wait for the guest's next start; `delete` names keys that will go."""
    return _settings(_sections(folder, vmid)[1])


def write(folder: Path, vmid: int, settings: Settings, pending: Settings | None = None) -> None:
    """Write settings sorted by key, as PVE does, and in one step; snapshots and notes are kept.

    `lxc.*` lines stand last and in their order: PVE does not sort those.
    """
    lines, _, snapshots = _sections(folder, vmid)
    notes = [line for line in lines if line.startswith("#")]
    waiting = read_pending(folder, vmid) if pending is None else pending
    plain = sorted((key, text) for key, text in settings if not key.startswith("lxc."))
    rows = [*plain, *((key, text) for key, text in settings if key.startswith("lxc."))]
    body = [*notes, *(f"{key}: {text}" for key, text in rows)]
    if waiting:
        body += ["", PENDING[folder], *(f"{key}: {text}" for key, text in sorted(waiting))]
    if snapshots:
        body += ["", *snapshots]
    tmp = folder / f"{vmid}.conf.tmp"
    tmp.write_text("\n".join(body) + "\n", encoding="utf-8")
    tmp.chmod(0o640)
    tmp.replace(folder / f"{vmid}.conf")


def apply_pending(folder: Path, vmid: int) -> Settings:
    """Make pending changes the configuration, as a start does; returns the settings."""
    settings, pending = dict(read(folder, vmid)), read_pending(folder, vmid)
    if pending:
        gone = [name for key, text in pending if key == "delete" for name in text.split(",")]
        raw = [(key, text) for key, text in read(folder, vmid) if key.startswith("lxc.")]
        kept = {key: text for key, text in settings.items() if key not in gone and not key.startswith("lxc.")}
        kept.update({key: text for key, text in pending if key != "delete"})
        write(folder, vmid, [*kept.items(), *raw], [])
    return read(folder, vmid)


def show_pending(folder: Path, vmid: int) -> list[str]:
    """Lines of `pct pending` and `qm pending` (PVE::GuestHelpers::format_pending)."""
    waiting = read_pending(folder, vmid)
    gone = [name for key, text in waiting if key == "delete" for name in text.split(",")]
    new = {key: text for key, text in waiting if key != "delete"}
    lines = []
    for key, text in sorted(read(folder, vmid)):
        lines.append(f"{'del' if key in gone else 'cur'} {key}: {text}")
        if key in new:
            lines.append(f"new {key}: {new.pop(key)}")
    return lines + [f"new {key}: {text}" for key, text in sorted(new.items())]


def value(settings: Settings, key: str, default: str = "") -> str:
    """The value of a key that stands once."""
    return dict(settings).get(key, default)


def change(settings: Settings, words: list[str], usage: str) -> tuple[Settings, dict[str, str]]:
    """Apply `--key value`, `-key value`, `--key=value` and `--delete a,b`; return the new settings and what was set."""
    new, given, rest = dict(settings), {}, list(words)
    while rest:
        match = re.fullmatch(r"--?([A-Za-z0-9_]+)(?:=(.*))?", rest.pop(0))
        if not match or (match.group(2) is None and not rest):
            sys.exit(f"400 not enough arguments\n{usage}")
        key = match.group(1)
        text = match.group(2) if match.group(2) is not None else rest.pop(0)
        if key == "delete":
            for name in text.split(","):
                new.pop(name, None)
        else:
            new[key] = given[key] = text
    kept = [(key, text) for key, text in settings if key.startswith("lxc.")]
    return kept + [(key, text) for key, text in new.items() if not key.startswith("lxc.")], given


def options(text: str) -> dict[str, str]:
    """`a=b,c=d` as a dict; a word without `=` is under the empty key."""
    result = {}
    for word in text.split(","):
        key, equals, rest = word.partition("=")
        result[key if equals else ""] = rest if equals else key
    return result


def unit(vmid: int) -> str:
    """Name of the unit that runs a container."""
    return f"pve-container@{vmid}.service"


def leader(vmid: int) -> int | None:
    """Process id, seen from here, of the init of a running container; None when it does not run."""
    shown = subprocess.run(
        ["systemctl", "show", "-P", "MainPID", unit(vmid)], capture_output=True, text=True, check=False
    )
    main = shown.stdout.strip()
    if main in ("", "0"):
        return None
    try:
        children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="utf-8").split()
        for child in children:
            status = Path(f"/proc/{child}/status").read_text(encoding="utf-8")
            if re.search(r"^NSpid:\s.*\s1$", status, re.MULTILINE):
                return int(child)
    except OSError:
        pass  # it ended meanwhile
    return None

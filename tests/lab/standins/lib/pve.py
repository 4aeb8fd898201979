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

# The lines of a configuration: a key may stand more than once (lxc.* keys), so this is no dict.
Settings = list[tuple[str, str]]


def vmids(folder: Path) -> list[int]:
    """Numbers of the guests of a kind, ascending."""
    return sorted(int(path.stem) for path in folder.glob("*.conf") if path.stem.isdigit())


def read(folder: Path, vmid: int) -> Settings:
    """Settings of a guest in file order, without its snapshots; ends the program when there is no such guest."""
    try:
        lines = (folder / f"{vmid}.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        sys.exit(f"Configuration file 'nodes/{os.uname().nodename}/{folder.name}/{vmid}.conf' does not exist")
    result = []
    for line in lines:
        if line.startswith("["):
            break  # snapshots follow
        key, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            result.append((key.strip(), value.strip()))
    return result


def write(folder: Path, vmid: int, settings: Settings) -> None:
    """Write settings sorted by key, as PVE does, and in one step."""
    tmp = folder / f"{vmid}.conf.tmp"
    tmp.write_text("".join(f"{key}: {value}\n" for key, value in sorted(settings)), encoding="utf-8")
    tmp.chmod(0o640)
    tmp.replace(folder / f"{vmid}.conf")


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

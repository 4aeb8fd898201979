# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes as the kernel shows them: who belongs to a unit, who listens on a port, who has a GPU open (private).

Everything is read from /proc, so nothing depends on tools that a small container may lack. A process that ends while
it is looked at is left out.
"""

from __future__ import annotations

import pathlib
import pwd
import re
import typing as t

PROC = pathlib.Path("/proc")
_LISTEN = "0A"  # include/net/tcp_states.h, TCP_LISTEN
_UNIT = re.compile(r"/([^/]+\.(?:service|scope))(?:/|$)")
_GPU_NODE = re.compile(r"^/dev/nvidia(\d+)$")


def pids() -> list[int]:
    """Every process id that /proc shows here."""
    return sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def unit_of(pid: int) -> str:
    """The systemd unit (service or scope) that a process belongs to, or an empty text.

    The innermost unit counts; cgroup v1 and v2 are both read.
    """
    try:
        text = (PROC / str(pid) / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = ""
    for line in text.splitlines():
        controllers, path = line.split(":", 2)[1:]
        # v1 keeps systemd's tree under name=systemd, v2 has a single line without controllers.
        if controllers in ("", "name=systemd"):
            names = _UNIT.findall(path + "/")
            found = names[-1] if names else found
    return found


def unit_pids(unit: str) -> list[int]:
    """Processes that belong to a unit."""
    return [pid for pid in pids() if unit_of(pid) == unit]


def describe(pid: int) -> dict[str, t.Any]:
    """Name, user, parent, state and unit of a process. No arguments: they may hold secrets.

    ``name`` is the first word of the command line (the engine renames its processes there), else the kernel's name.
    """
    base = PROC / str(pid)
    try:
        # "pid (comm) state ppid pgrp ...": comm may hold spaces and brackets, so split behind the last bracket.
        comm, _rest, rest = (base / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        fields = rest.split()
        title = (base / "cmdline").read_bytes().split(b"\0", 1)[0].decode("utf-8", "replace")
        uid = (base / "stat").stat().st_uid
    except (OSError, IndexError):
        return {"pid": pid, "name": "gone", "user": "", "ppid": 0, "pgrp": 0, "state": "", "unit": "", "starttime": 0}
    name = title.split(" ", 1)[0].rsplit("/", 1)[-1] or comm.split("(", 1)[-1]
    return {
        "pid": pid,
        "name": name[:64],
        "user": _user(uid),
        "ppid": int(fields[1]),
        "pgrp": int(fields[2]),
        "state": fields[0],
        "unit": unit_of(pid),
        "starttime": int(fields[19]),
    }


def listeners(port: int) -> list[dict[str, t.Any]]:
    """Processes that listen on a TCP port of this host, as :func:`describe` gives them, with ``address``.

    A socket whose owner cannot be seen (another namespace, no rights) is given with pid 0.
    """
    inodes: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _rest, hexport = fields[1].rpartition(":")
            if fields[3] == _LISTEN and int(hexport, 16) == port:
                inodes[fields[9]] = _address(address)
    if not inodes:
        return []
    found: list[dict[str, t.Any]] = []
    seen: set[str] = set()
    for pid in pids():
        owned = {inodes[inode]: inode for inode in _socket_inodes(pid) if inode in inodes}
        for address, inode in owned.items():
            seen.add(inode)
            found.append({**describe(pid), "address": address})
    for inode, address in inodes.items():
        if inode not in seen:
            found.append({**describe(0), "name": "unknown", "address": address})
    return found


def gpu_users() -> dict[int, list[int]]:
    """GPU minor number to the processes that have /dev/nvidiaN open, as far as this namespace shows them."""
    users: dict[int, list[int]] = {}
    for pid in pids():
        for minor in {int(match[1]) for match in map(_GPU_NODE.match, _links(pid)) if match}:
            users.setdefault(minor, []).append(pid)
    return users


def _links(pid: int) -> t.Iterator[str]:
    folder = PROC / str(pid) / "fd"
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            yield str(entry.readlink())
        except OSError:
            continue


def _socket_inodes(pid: int) -> t.Iterator[str]:
    for link in _links(pid):
        if link.startswith("socket:["):
            yield link[8:-1]


def _address(text: str) -> str:
    if len(text) == 8:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))
    return "::" if set(text) == {"0"} else text.lower()


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

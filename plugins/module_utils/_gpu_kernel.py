# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel and the NVIDIA kernel module tell, as data (private to the collection).

Texts in, dictionaries out: /proc/driver/nvidia/version and params, the command line, modprobe.d, /proc/devices, PCI
configuration space.
"""

from __future__ import annotations

import re
import shlex
import typing as t

_DRIVER = re.compile(
    r"NVIDIA UNIX\s+(?P<kind>Open Kernel Module for \S+|\S+ Kernel Module)\s+(?P<version>\d+(?:\.\d+)+)"
)
_LIBRARY = re.compile(r"^lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)$")

ACS_CAPABILITY = 0x000D  # PCI Express Base Specification, extended capability id of Access Control Services
_EXTENDED_START = 0x100


def driver(text: str) -> dict[str, t.Any] | None:
    """Version and kind of the kernel module from /proc/driver/nvidia/version.

    The closed module says ``NVIDIA UNIX x86_64 Kernel Module  550.54.14``, the open one
    ``NVIDIA UNIX Open Kernel Module for x86_64  580.126.09``.

    Returns:
        ``{"version": "580.126.09", "open": true}``, or None when the text names no driver.
    """
    found = _DRIVER.search(text)
    if not found:
        return None
    return {"version": found["version"], "open": found["kind"].startswith("Open")}


def library_version(names: t.Iterable[str]) -> list[str]:
    """Versions of the driver's user space, from names of files such as ``libcuda.so.580.126.09``; each one once."""
    versions: list[str] = []
    for name in names:
        found = _LIBRARY.match(name)
        if found and found.group(1) not in versions:
            versions.append(found.group(1))
    return versions


def numbers(version: str) -> tuple[int, ...]:
    """``580.126.09`` as ``(580, 126, 9)`` for comparisons; a word without digits is ``()``."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def params(text: str) -> dict[str, str]:
    """/proc/driver/nvidia/params: what the module really runs with, quotes removed."""
    found = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip():
            found[key.strip()] = value.strip().strip('"')
    return found


def cmdline(text: str) -> list[str]:
    """/proc/cmdline as words; a quoted value stays one word, an unbalanced quote does not stop the reading."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def option(words: t.Sequence[str], key: str) -> list[str]:
    """All values given for ``key=``, in order; a later one usually wins, so callers that want one take the last."""
    return [word.split("=", 1)[1] for word in words if word.startswith(key + "=")]


def modprobe(texts: t.Mapping[str, str]) -> dict[str, dict[str, str]]:
    """``options`` lines of modprobe.d files: module, then option and value.

    Args:
        texts: file name to content; read in the order of names, as modprobe does. ``-`` and ``_`` in a module's name
            are the same; a comment or a blacklist line gives nothing (see :func:`blacklisted`).
    """
    found: dict[str, dict[str, str]] = {}
    for name in sorted(texts):
        for line in _logical_lines(texts[name]):
            words = cmdline(line)
            if len(words) < 3 or words[0] != "options":
                continue
            options = found.setdefault(words[1].replace("-", "_"), {})
            for word in words[2:]:
                key, _equals, value = word.partition("=")
                options[key] = value
    return found


def blacklisted(texts: t.Mapping[str, str]) -> list[str]:
    """Modules that modprobe.d blacklists, sorted."""
    found = set()
    for text in texts.values():
        for line in _logical_lines(text):
            words = line.split()
            if len(words) == 2 and words[0] == "blacklist":
                found.add(words[1].replace("-", "_"))
    return sorted(found)


def registry_words(value: str) -> dict[str, str]:
    """``ForceP2P=0x11;RMForceP2PType=1`` as a dictionary."""
    pairs = (word.partition("=") for word in value.strip('"').split(";") if word.strip())
    return {key.strip(): word.strip() for key, _equals, word in pairs}


def majors(text: str) -> dict[str, int]:
    """Character majors of /proc/devices by driver name: ``{"nvidia": 195, "nvidia-uvm": 511, ...}``."""
    found: dict[str, int] = {}
    for line in text.partition("Block devices:")[0].splitlines():
        hit = re.match(r"\s*(\d+)\s+(\S+)\s*$", line)
        if hit:
            found[hit.group(2)] = int(hit.group(1))
    return found


def acs_control(config: bytes) -> int | None:
    """ACS control register of a PCI function from its configuration space, None when it has no ACS.

    Walks the extended capabilities from offset 0x100; each header is id (16 bits), version (4), next offset (12). The
    control register is at offset 6 of the capability. Bits: 0 SrcValid, 2 ReqRedir, 3 CmpltRedir, 4 UpstreamFwd.
    """
    offset = _EXTENDED_START
    seen: set[int] = set()
    while _EXTENDED_START <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == ACS_CAPABILITY:
            return int.from_bytes(config[offset + 6 : offset + 8], "little")
        offset = (header >> 20) & 0xFFC
    return None


def acs_redirects(control: int) -> bool:
    """True when requests between two devices are sent up to the root complex (ReqRedir), which breaks direct P2P."""
    return bool(control & 0b100)


def acs_from_lspci(text: str) -> dict[str, bool]:
    """Which functions redirect requests, from ``lspci -vvv``: address to ReqRedir+."""
    found: dict[str, bool] = {}
    device = ""
    for line in text.splitlines():
        head = re.match(r"((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s", line)
        if head:
            device = head.group(1)
        control = re.search(r"ACSCtl:.*\bReqRedir([+-])", line)
        if control and device:
            found[device] = control.group(1) == "+"
    return found


def config_is_gone(config: bytes) -> bool:
    """True when the device id reads as all ones: the device no longer answers (0xffffffff, or 0xffff0001 after a
    function reset that never returned)."""
    return config[2:4] == b"\xff\xff"


def _logical_lines(text: str) -> t.Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        bare = line.partition("#")[0].strip()
        if bare:
            yield bare


def bar_mib(resource: str, number: int) -> int:
    """Size of a BAR in MiB from sysfs ``resource`` (a line per region: first, last address, flags); 0 when unset."""
    lines = resource.splitlines()
    if number >= len(lines):
        return 0
    words = lines[number].split()
    if len(words) < 2:
        return 0
    first, last = int(words[0], 16), int(words[1], 16)
    return (last - first + 1) // (1024 * 1024) if last > first else 0

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operating system tells about packages, memory, toolkit and the kind of host (private to the collection)."""

from __future__ import annotations

import re
import typing as t

MIB = 1024 * 1024


def dpkg(text: str) -> dict[str, str]:
    """Installed packages and versions from /var/lib/dpkg/status.

    Only stanzas whose state is ``ok installed`` count (a removed package with configuration left does not). Names that
    a package provides are there too, with the version of the provider.
    """
    found: dict[str, str] = {}
    provided: dict[str, str] = {}
    for stanza in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version|Provides): *(.*)$", stanza, re.MULTILINE))
        if not fields.get("Status", "").endswith(" ok installed"):
            continue
        version = fields.get("Version", "")
        found[fields.get("Package", "")] = version
        for name in fields.get("Provides", "").split(","):
            bare = name.split("(")[0].strip()
            if bare:
                provided[bare] = version
    return {**provided, **found}


def missing(wanted: t.Iterable[str], installed: t.Mapping[str, str]) -> list[str]:
    """Wanted packages that are not installed; ``a | b`` is satisfied by either and asks for ``a`` when neither is."""
    lacking = []
    for entry in wanted:
        names = [name.strip() for name in entry.split("|")]
        if not any(name in installed for name in names):
            lacking.append(names[0])
    return lacking


def os_release(text: str) -> dict[str, str]:
    """/etc/os-release as a dictionary, quotes removed."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.startswith("#"):
            found[key.strip()] = value.strip().strip("\"'")
    return found


def meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in MiB by name (``MemTotal``, ``MemAvailable``, ...)."""
    pairs = re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
    return {key: int(value) // 1024 for key, value in pairs}


def cgroup_limit(text: str) -> int | None:
    """A memory limit in MiB from ``memory.max`` (v2) or ``memory.limit_in_bytes`` (v1); None for no limit.

    v1 has no word for "none" and prints a number near 2**63.
    """
    value = text.strip()
    if not value.isdigit() or int(value) >= 1 << 60:
        return None
    return int(value) // MIB


def own_cgroup(text: str) -> tuple[int, str]:
    """Version and path of the memory cgroup from /proc/self/cgroup: ``(2, "/system.slice/ssh.service")``."""
    unified = ""
    for line in text.splitlines():
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return 1, path
        if number == "0" and not controllers:
            unified = path
    return 2, unified or "/"


def container_of(text: str) -> str:
    """The LXC guest that a process belongs to, from its /proc/PID/cgroup: ``129`` for ``/lxc/129/...``, else ''."""
    found = re.search(r"/lxc(?:\.payload)?[./](\d+)(?:/|$)", text, re.MULTILINE)
    return found.group(1) if found else ""


def unit_of(text: str) -> str:
    """The systemd service that a process belongs to, from its /proc/PID/cgroup; '' when none."""
    found = re.findall(r"/([\w@.:\\-]+\.service)", text)
    return found[-1] if found else ""


def nvcc_version(text: str) -> str:
    """``13.0.88`` from ``nvcc --version`` ('' when it is not nvcc's output)."""
    full = re.search(r"\bV(\d+\.\d+\.\d+)\b", text)
    if full:
        return full.group(1)
    short = re.search(r"release (\d+\.\d+)", text)
    return short.group(1) if short else ""


def header_conflicts(header: str, glibc: str) -> list[str]:
    """Functions that this CUDA header declares otherwise than this glibc does, so that every nvcc compile fails.

    glibc 2.41 declares cospi and sinpi ``noexcept``, glibc 2.42 rsqrt; a CUDA that knows puts a specifier macro behind
    its own declaration (CUDA 13.0 has it for cospi). NVIDIA/nccl#1700.

    Args:
        header: text of ``crt/math_functions.h``.
        glibc: version such as ``2.41``.
    """
    have = tuple(int(part) for part in re.findall(r"\d+", glibc)[:2])
    found = []
    for name, since in (("cospi", (2, 41)), ("sinpi", (2, 41)), ("rsqrt", (2, 42))):
        if not have or have < since:
            continue
        declared = re.search(rf"^extern\b[^;]*\bdouble\s+{name}\(double x\)([^;]*);", header, re.MULTILINE)
        if declared and not declared.group(1).strip():
            found.append(name)
    return found


def virtualization(container: str, environ: str, vendor: str) -> str:
    """Kind of host: ``lxc``, another container's name, ``vm`` or ``none``.

    Args:
        container: content of /run/systemd/container.
        environ: environment of process 1, NUL separated (readable for root).
        vendor: /sys/class/dmi/id/sys_vendor with the product name.
    """
    named = container.strip()
    if not named:
        found = re.search(r"(?:^|\0)container=([\w-]+)", environ)
        named = found.group(1) if found else ""
    if named:
        return named
    virtual = (
        "qemu",
        "kvm",
        "vmware",
        "virtualbox",
        "xen",
        "microsoft corporation virtual",
        "amazon ec2",
        "google compute",
    )
    return "vm" if any(word in vendor.lower() for word in virtual) else "none"

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards in sysfs and the change of their driver (private).

Linux, Documentation/ABI/testing/sysfs-bus-pci: ``driver_override`` names the only driver that may take a function,
``drivers_probe`` lets the kernel look for one again. A write to ``unbind`` does not return while the NVIDIA driver
still has a client, and cannot be interrupted; so writes are made by a process of their own that nobody waits for.
"""

from __future__ import annotations

import os
import select
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_kernel as kernel
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

VFIO = "vfio-pci"
NVIDIA = "nvidia"
_DEVICES = "/sys/bus/pci/devices"
_PAUSE_S = 0.1


class Function(t.TypedDict):
    """A PCI function: address, driver ('' without one), override, class (``0x030200``), reset methods."""

    address: str
    driver: str
    override: str
    kind: str
    reset: str


class Card(t.TypedDict):
    """A card: address without function (``0000:c1:00``), functions, IOMMU group ('' without) and strangers in it."""

    address: str
    functions: list[Function]
    group: str
    strangers: list[str]


def read(host: Host, address: str) -> Card:
    """A card as the kernel sees it.

    Raises:
        SglangError: there is no NVIDIA card at that address.
    """
    functions = [function(host, path.rpartition("/")[2]) for path in host.glob(f"{_DEVICES}/{address}.*")]
    vendor = host.text(f"{_DEVICES}/{address}.0/vendor").strip()
    if not functions or vendor != "0x10de" or not functions[0]["kind"].startswith("0x03"):
        raise SglangError(
            f"no NVIDIA card at {address}",
            where=_DEVICES,
            fix="take the address from lspci -D -d 10de:",
            kind="no_card",
        )
    group = base(host.real(f"{_DEVICES}/{address}.0/iommu_group")) if _has_group(host, address) else ""
    strangers = []
    for path in host.glob(f"/sys/kernel/iommu_groups/{group}/devices/*") if group else []:
        other = base(path)
        # Bridges of a group stay with the host (Documentation/driver-api/vfio.rst).
        bridge = host.text(f"{_DEVICES}/{other}/class").startswith("0x0604")
        if other.partition(".")[0] != address and not bridge:
            strangers.append(other)
    return {"address": address, "functions": functions, "group": group, "strangers": strangers}


def function(host: Host, address: str) -> Function:
    """A function as the kernel sees it."""
    place = f"{_DEVICES}/{address}"
    override = host.text(f"{place}/driver_override").strip()
    return {
        "address": address,
        "driver": driver(host, address),
        "override": "" if override == "(null)" else override,
        "kind": host.text(f"{place}/class").strip(),
        "reset": host.text(f"{place}/reset_method").strip(),
    }


def driver(host: Host, address: str) -> str:
    """Name of the driver that has a function; '' when none has."""
    return base(host.link(f"{_DEVICES}/{address}/driver"))


def addresses(host: Host) -> list[str]:
    """Addresses, without function, of all NVIDIA cards, whatever their driver."""
    found = []
    for path in host.glob(f"{_DEVICES}/*.0"):
        if host.text(path + "/vendor").strip() == "0x10de" and host.text(path + "/class").startswith("0x03"):
            found.append(base(path).partition(".")[0])
    return found


def gone(host: Host, address: str) -> bool:
    """Whether a function does not answer: its configuration space reads all ones."""
    return kernel.config_is_gone(host.data(f"{_DEVICES}/{address}/config"))


def bind(host: Host, address: str, want: str, override: str, seconds: float = 30.0) -> None:
    """Give a function to a driver.

    Args:
        host: the hypervisor.
        address: the function.
        want: the driver; '' for none, ``*`` for whichever takes it.
        override: what ``driver_override`` shall hold afterwards; '' clears it.
        seconds: limit for each of release and binding.

    Raises:
        SglangError: the driver does not let it go, or the other does not take it.
    """
    place = f"{_DEVICES}/{address}"
    _write(host, f"{place}/driver_override", override + "\n", seconds)
    now = driver(host, address)
    if now and now == want:
        return
    if now and want == "*" and now != VFIO:
        return
    if now:
        _write(host, f"/sys/bus/pci/drivers/{now}/unbind", address, seconds)
        if not _until(lambda: not driver(host, address), seconds):
            raise SglangError(
                f"{now} does not let {address} go within {seconds:g} s: something still holds it",
                fix="find it with fuser -v /dev/nvidia*; do not try again before it is gone",
                kind="unbind",
            )
    if not want:
        return
    _write(host, "/sys/bus/pci/drivers_probe", address, seconds)
    taken = _until(lambda: driver(host, address) == want if want != "*" else bool(driver(host, address)), seconds)
    if not taken and want != "*":
        raise SglangError(
            f"{want} did not take {address}; it has {driver(host, address) or 'no driver'}",
            fix=f"look at dmesg; modprobe {want}",
            kind="bind",
        )


def base(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def _has_group(host: Host, address: str) -> bool:
    return bool(host.link(f"{_DEVICES}/{address}.0/iommu_group"))


def _until(done: t.Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _write(host: Host, path: str, text: str, seconds: float) -> None:
    """Write to a file of sysfs from a process that is left behind when the kernel does not answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _child(str(host.at(path)), text, writer)
    os.waitpid(child, 0)
    os.close(writer)
    try:
        ready, _w, _x = select.select([reader], [], [], seconds)
        said = os.read(reader, 500).decode("utf-8", "replace") if ready else ""
    finally:
        os.close(reader)
    if not ready:
        raise SglangError(
            f"the kernel did not answer a write of {text.strip() or 'nothing'} within {seconds:g} s",
            where=path,
            fix="something still holds the card (fuser -v /dev/nvidia*); do not try again before it is gone",
            kind="unbind",
        )
    if said != "ok":
        raise SglangError(f"the kernel refused {text.strip()!r}: {said}", where=path, fix="look at dmesg", kind="sysfs")


def _child(path: str, text: str, writer: int) -> None:
    """Detach, write, tell the result; never returns."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        # Whoever waits for the end of our output must not wait for the kernel.
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
        os.write(handle, text.encode())
        os.write(writer, b"ok")
    except OSError as error:
        os.write(writer, (error.strerror or str(error)).encode())
    finally:
        os._exit(0)

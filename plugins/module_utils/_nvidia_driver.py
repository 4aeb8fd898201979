# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of NVIDIA's driver is installed from packages, what is wanted, and what forbids it (private).

In a container only the user space, of exactly the version of the kernel module that the hypervisor has loaded.
Elsewhere the open kernel modules too, which Blackwell needs and DKMS builds.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_kernel as kernel
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

# Variable of UEFI (UEFI 2.10, 3.3): four bytes of attributes, then 1 when it is on.
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_VERSION = re.compile(r"^(?:\d+:)?(\d+\.\d+(?:\.\d+)?)")


def read(host: Host, version: str, packages: t.Sequence[str]) -> dict[str, t.Any]:
    """State of the driver's packages.

    Args:
        host: the host.
        version: wanted, ``580.126.09``; '' takes that of the kernel module loaded.
        packages: names.

    Returns:
        ``{container, version, loaded, open, installed, held, install, hold, unavailable, secure_boot, nouveau, kernel,
        headers, dkms}``; ``install`` has ``name=version`` for apt, ``unavailable`` names that no source has so.
    """
    module = kernel.driver(host.text("/proc/driver/nvidia/version"))
    loaded = module["version"] if module else ""
    wanted = version or loaded
    installed, held = _packages(host, packages)
    due = [name for name in packages if upstream(installed.get(name, "")) != wanted]
    offered = {name: [row for row in _offered(host, name) if upstream(row) == wanted] for name in due}
    container = host.text("/run/systemd/container").strip() != "" or "container=lxc" in host.text("/proc/1/environ")
    release = host.text("/proc/sys/kernel/osrelease").strip()
    return {
        "container": container,
        "version": wanted,
        "loaded": loaded,
        "open": bool(module and module["open"]),
        "installed": installed,
        "held": held,
        "install": [f"{name}={offered[name][0]}" for name in due if offered[name]],
        "unavailable": [name for name in due if not offered[name]],
        "hold": [name for name in packages if name not in held],
        "secure_boot": host.data(_SECURE_BOOT)[4:5] == b"\x01",
        "nouveau": bool(re.search(r"^nouveau\b", host.text("/proc/modules"), re.MULTILINE)),
        "kernel": release,
        "headers": bool(host.glob(f"/lib/modules/{release}/build/Makefile")),
        "dkms": bool(host.which("dkms", probe.SMI_SEARCH)),
    }


def problems(facts: t.Mapping[str, t.Any]) -> list[str]:
    """What forbids the installation; a sentence with its fix each."""
    found = []
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", facts["version"]):
        return [
            f"{facts['version'] or 'no version'} is no driver version. Fix: write it whole, for instance 580.126.09"
        ]
    if facts["container"]:
        if not facts["loaded"]:
            found.append("the hypervisor's driver is not loaded. Fix: install and load it there first")
        elif facts["loaded"] != facts["version"]:
            found.append(
                f"the hypervisor has {facts['loaded']} loaded and this container shall have {facts['version']},"
                " which gives 'Driver/library version mismatch'."
                f" Fix: take {facts['loaded']} here, or change the hypervisor first"
            )
        return found
    if not facts["install"]:
        return found
    if not facts["headers"]:
        found.append(
            f"the headers of the running kernel {facts['kernel']} are missing, so DKMS would build nothing."
            " Fix: apt install proxmox-default-headers (Debian: linux-headers-amd64), and boot the newest kernel"
        )
    if facts["secure_boot"]:
        found.append(
            "Secure Boot is on, and the kernel refuses modules that DKMS signs with a key it does not know."
            " Fix: mokutil --import /var/lib/dkms/mok.pub, reboot and enrol it; or switch Secure Boot off in the"
            " firmware. Then set gpu_host_driver_secure_boot to true"
        )
    if facts["nouveau"]:
        found.append(
            "nouveau is loaded and holds the cards. Fix: echo blacklist nouveau > /etc/modprobe.d/nouveau.conf,"
            " update-initramfs -u -k all, reboot"
        )
    return found


def upstream(version: str) -> str:
    """``580.126.09`` of a package's version such as ``580.126.09-1``."""
    hit = _VERSION.match(version)
    return hit.group(1) if hit else ""


def _packages(host: Host, names: t.Sequence[str]) -> tuple[dict[str, str], list[str]]:
    installed, held = {}, []
    program = host.which("dpkg-query", probe.SMI_SEARCH)
    _rc, out, _err = host.run(
        program, "-W", "-f", "${binary:Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n", *names
    )
    for line in out.splitlines():
        words = line.split()
        if len(words) == 4 and words[3] == "installed":
            name = words[0].partition(":")[0]
            installed[name] = words[1]
            if words[2] == "hold":
                held.append(name)
    return installed, held


def _offered(host: Host, name: str) -> list[str]:
    """Versions that the package lists have, newest first."""
    _rc, out, _err = host.run(host.which("apt-cache", probe.SMI_SEARCH), "madison", name)
    rows = [line.split("|") for line in out.splitlines()]
    return [cells[1].strip() for cells in rows if len(cells) > 2 and cells[2].strip().endswith("Packages")]

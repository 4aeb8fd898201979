"""qm(1) of Proxmox VE: list, status, config, start, stop, shutdown, set. Its virtual machines run nothing.

Imitates PVE 9's output and messages (qm(1), qm.conf(5)). Whether a machine runs is a file under /run/qemu-server, like
the pid file of a real one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pve


def _pid_file(vmid: int) -> Path:
    return pve.QEMU_STATE / f"{vmid}.pid"


def do_list(_args: list[str]) -> None:
    rows = pve.vmids(pve.QEMU)
    if rows:
        print(f"{'VMID':>10} {'NAME':<20} {'STATUS':<10} {'MEM(MB)':<10} {'BOOTDISK(GB)':>12} {'PID':<10}")
    for vmid in rows:
        settings = pve.read(pve.QEMU, vmid)
        name, memory = pve.value(settings, "name", f"VM {vmid}"), pve.value(settings, "memory", "512")
        state = "running" if _pid_file(vmid).exists() else "stopped"
        print(f"{vmid:>10} {name:<20} {state:<10} {memory:<10} {32:>12.2f} {int(state == 'running'):<10}")


def do_status(args: list[str]) -> None:
    pve.read(pve.QEMU, int(args[0]))
    print(f"status: {'running' if _pid_file(int(args[0])).exists() else 'stopped'}")


def do_config(args: list[str]) -> None:
    for key, text in sorted(pve.read(pve.QEMU, int(args[0]))):
        print(f"{key}: {text}")


def do_start(args: list[str]) -> None:
    vmid = int(args[0])
    settings = pve.read(pve.QEMU, vmid)
    if _pid_file(vmid).exists():
        sys.exit(f"VM {vmid} already running")
    for key, text in settings:
        match = re.match(r"(?:host=)?(?:0000:)?([0-9a-f]{2}:[0-9a-f]{2})", text) if key[:7] == "hostpci" else None
        if match and Path(f"/proc/driver/nvidia/gpus/0000:{match.group(1)}.0").exists():
            # Proxmox VE would bind it by itself; whoever hands cards over must have done so before.
            print(
                f"cannot bind 0000:{match.group(1)}.0 to vfio-pci: it is in use by the nvidia driver", file=sys.stderr
            )
            sys.exit("start failed: QEMU exited with code 1")
    pve.QEMU_STATE.mkdir(parents=True, exist_ok=True)
    if (pve.QEMU_STATE / f"{vmid}.broken").exists():  # a test's wish
        sys.exit("start failed: QEMU exited with code 1")
    _pid_file(vmid).write_text("1\n", encoding="utf-8")


def do_stop(args: list[str]) -> None:
    vmid = int(args[0])
    pve.read(pve.QEMU, vmid)
    if not _pid_file(vmid).exists():
        sys.exit(f"VM {vmid} not running")
    _pid_file(vmid).unlink()


do_shutdown = do_stop


def do_set(args: list[str]) -> None:
    vmid = int(args[0])
    settings, given = pve.change(pve.read(pve.QEMU, vmid), args[1:], "qm set <vmid> [OPTIONS]")
    pve.write(pve.QEMU, vmid, settings)
    for key, text in given.items():
        print(f"update VM {vmid}: -{key} {text}")


def main(argv: list[str]) -> None:
    """Run one command."""
    command = globals().get(f"do_{argv[0]}") if argv else None
    if command is None:
        sys.exit(f"ERROR: unknown command 'qm {' '.join(argv[:1])}'")
    if argv[0] != "list" and not (len(argv) > 1 and argv[1].isdigit()):
        got = "".join(argv[1:2])
        sys.exit(f"400 Parameter verification failed.\nvmid: type check ('integer') failed - got '{got}'")
    command(argv[1:])

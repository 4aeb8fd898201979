"""pct(1) of Proxmox VE: list, status, config, pending, exec, start, stop, shutdown, reboot, set, push, pull.

Imitates PVE 9's output and messages (pct(1), pct.conf(5)). `exec` runs in the guest, by nsenter, as lxc-attach does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pve


def _systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False).stdout.strip()


def _running(vmid: int) -> int:
    """Leader of a container that must run."""
    pve.read(pve.LXC, vmid)
    pid = pve.leader(vmid)
    if pid is None:
        sys.exit(f"CT {vmid} not running")
    return pid


def do_list(_args: list[str]) -> None:
    rows = [(vmid, pve.read(pve.LXC, vmid)) for vmid in pve.vmids(pve.LXC)]
    if rows:
        print(f"{'VMID':<10} {'Status':<10} {'Lock':<12} {'Name':<20}")
    for vmid, settings in rows:
        state = "running" if pve.leader(vmid) else "stopped"
        print(f"{vmid:<10} {state:<10} {pve.value(settings, 'lock'):<12} {pve.value(settings, 'hostname'):<20}")


def do_status(args: list[str]) -> None:
    pve.read(pve.LXC, int(args[0]))
    print(f"status: {'running' if pve.leader(int(args[0])) else 'stopped'}")


def do_config(args: list[str]) -> None:
    for key, text in sorted(pve.read(pve.LXC, int(args[0]))):
        print(f"{key}: {text}")


def do_pending(args: list[str]) -> None:
    for line in pve.show_pending(pve.LXC, int(args[0])):
        print(line)


def _enter(vmid: int, argv: list[str]) -> int:
    pid = pve.leader(vmid)
    if pid is None:
        pve.read(pve.LXC, vmid)
        sys.exit(f"container '{vmid}' not running!")
    path = "/sbin:/bin:/usr/sbin:/usr/bin"
    environment = {"PATH": path, "container": "lxc", "TERM": os.environ.get("TERM", "linux")}
    words = ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-C", "--"]
    return subprocess.run([*words, *argv], env=environment, check=False).returncode


def do_exec(args: list[str]) -> None:
    rest = args[1:]
    while rest and rest[0].startswith("-") and rest[0] != "--":
        rest = rest[1:] if "=" in rest[0] else rest[2:]  # --keep-env 0 and the like
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest:
        sys.exit("400 not enough arguments\npct exec <vmid> [<extra-args>] [OPTIONS]")
    sys.exit(_enter(int(args[0]), rest))


def do_start(args: list[str]) -> None:
    vmid = int(args[0])
    pve.read(pve.LXC, vmid)
    if pve.leader(vmid):
        sys.exit(f"CT {vmid} already running")
    _systemctl("reset-failed", pve.unit(vmid))
    _systemctl("start", pve.unit(vmid))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _systemctl("is-active", pve.unit(vmid)) != "failed":
        if pve.leader(vmid):
            return
        time.sleep(0.05)
    journal = ["journalctl", "-u", pve.unit(vmid), "-n", "5", "-o", "cat"]
    tail = subprocess.run(journal, capture_output=True, text=True, check=False).stdout
    sys.exit(f"startup for container '{vmid}' failed\n{tail}")


def do_stop(args: list[str]) -> None:
    """The hard way, without the guest's shutdown."""
    vmid = int(args[0])
    init = _running(vmid)
    _systemctl("kill", "-s", "KILL", pve.unit(vmid))
    # Without its nspawn the guest would live on and hold its GPUs; with its init every process of the guest ends.
    with contextlib.suppress(ProcessLookupError):
        os.kill(init, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{init}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    _systemctl("stop", pve.unit(vmid))
    _systemctl("reset-failed", pve.unit(vmid))


def do_shutdown(args: list[str]) -> None:
    _running(int(args[0]))
    _systemctl("stop", pve.unit(int(args[0])))


def do_reboot(args: list[str]) -> None:
    """A shutdown and a start, as PVE does it."""
    do_shutdown(args)
    do_start(args)


def do_set(args: list[str]) -> None:
    vmid = int(args[0])
    before = pve.read(pve.LXC, vmid)
    after, _ = pve.change(before, args[1:], "pct set <vmid> [OPTIONS]")
    leader = pve.leader(vmid)
    if leader is None:
        pve.write(pve.LXC, vmid, after)
        pve.apply_pending(pve.LXC, vmid)
        return
    _set_running(vmid, leader, before, after)


def _set_running(vmid: int, leader: int, before: pve.Settings, after: pve.Settings) -> None:
    """What of a change reaches a running container: a new devN at once, a changed or removed one at its next start.

    PVE::LXC::Config, vmconfig_hotplug_pending and device_passthrough_hotplug.
    """
    old, new = dict(before), dict(after)
    pending = dict(pve.read_pending(pve.LXC, vmid))
    gone = set(filter(None, pending.pop("delete", "").split(",")))
    now = [(key, text) for key, text in before if not key.startswith("dev")]
    now = [(key, new.get(key, text)) if not key.startswith("lxc.") else (key, text) for key, text in now]
    now += [(key, text) for key, text in after if key not in old and not key.startswith("dev")]
    devices = {key: text for key, text in old.items() if key.startswith("dev")}
    for key, text in new.items():
        if not key.startswith("dev"):
            continue
        gone.discard(key)
        if key not in old:
            hot_add(leader, pve.options(text))
            devices[key] = text
            pending.pop(key, None)
        elif old[key] != text:
            pending[key] = text
        else:
            pending.pop(key, None)
    for key in set(devices) - set(new):
        gone.add(key)
        pending.pop(key, None)
    waiting = list(pending.items()) + ([("delete", ",".join(sorted(gone)))] if gone else [])
    pve.write(pve.LXC, vmid, now + list(devices.items()), waiting)


def hot_add(leader: int, given: dict[str, str]) -> None:
    """Make a device node in a running container."""
    source = Path(given.get("path", given.get("", "")))
    if not source.exists():
        sys.exit(f"Device {source} does not exist")
    target = Path(f"/proc/{leader}/root{source}")
    if target.exists():
        sys.exit(f"Could not create device node {source}: File exists")
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = int(given.get("mode", "0660"), 8)
    os.mknod(target, mode | stat.S_IFCHR, source.stat().st_rdev)
    os.chown(target, int(given.get("uid", "0")), int(given.get("gid", "0")))
    target.chmod(mode)


def do_push(args: list[str]) -> None:
    target = Path(f"/proc/{_running(int(args[0]))}/root{args[2]}")
    target.write_bytes(Path(args[1]).read_bytes())


def do_pull(args: list[str]) -> None:
    Path(args[2]).write_bytes(Path(f"/proc/{_running(int(args[0]))}/root{args[1]}").read_bytes())


def main(argv: list[str]) -> None:
    """Run one command."""
    command = globals().get(f"do_{argv[0]}") if argv else None
    if command is None:
        sys.exit(f"ERROR: unknown command 'pct {' '.join(argv[:1])}'")
    if argv[0] != "list" and not (len(argv) > 1 and argv[1].isdigit()):
        got = "".join(argv[1:2])
        sys.exit(f"400 Parameter verification failed.\nvmid: type check ('integer') failed - got '{got}'")
    command(argv[1:])

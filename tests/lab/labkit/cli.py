"""The lab's commands."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import content, hosts, http, network, rootfs, server
from .names import GUESTS, HYPERVISOR, INDEX_PORT, STATE_ROOT, Lab, cache_root, claim, lab, release
from .shell import LabError, fail, locked, say

_NEEDED = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "ip": "iproute2",
    "git": "git",
    "ssh": "openssh-client",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="lab.py", description="Boot and remove the hosts of the lab (as root).")
    parser.add_argument(
        "--lab", default="demo", metavar="NAME", help="name of the lab; each has hosts and a network of its own"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="boot the lab; nothing to do when it is up")
    up.add_argument("--hosts", default=f"{HYPERVISOR},sglang1", help="which hosts, by comma (default: pve1,sglang1)")
    up.add_argument("--prepared", action="store_true", help="guests have the packages of a GPU host already")
    up.add_argument("--suite", default="bookworm", choices=("bookworm", "trixie"), help="Debian release of the hosts")
    commands.add_parser("down", help="remove the lab and every trace of it; also after an interrupted up")
    commands.add_parser("status", help="print what is there as JSON; status 0 when the lab is up, 3 when it is not")
    ssh = commands.add_parser("ssh", help="run a command on a host, or open a shell")
    ssh.add_argument("host", choices=(HYPERVISOR, *GUESTS))
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    commands.add_parser("serve", help="run the lab's HTTP server in the foreground (up starts it by itself)")
    fault = commands.add_parser("fault", help="make the HTTP server misbehave; without a kind, make it well again")
    fault.add_argument("prefix", nargs="?", help="beginning of the paths that it is about")
    fault.add_argument("kind", nargs="?", help="a status such as 404, or reset, truncate, slow, corrupt")
    fault.add_argument("--seconds", type=float, default=5.0, help="how long `slow` waits")
    fault.add_argument("--times", type=int, help="for how many requests (default: until it is taken back)")
    commands.add_parser(
        "content", help="build what all labs share (index, kernel repository, checkpoint) and boot nothing"
    )
    commands.add_parser("clean", help="remove the cache of all labs; refused while one is up")
    options = parser.parse_args(argv)
    try:
        return _dispatch(options)
    except (LabError, ValueError) as error:
        fail(str(error))
        return 1


def _dispatch(options: argparse.Namespace) -> int:
    the_lab = lab(options.lab)
    if options.command == "ssh":
        command = hosts.ssh_command(the_lab, options.host) + [
            word for word in options.words if word != "--" or options.words[0] != "--"
        ]
        os.execvp(command[0], command)
    if options.command == "status":
        return _status(the_lab)
    if options.command == "serve":
        http.serve(the_lab.gateway, INDEX_PORT, the_lab.state)
    if options.command == "fault":
        return _fault(the_lab, options)
    if os.geteuid() != 0:
        raise LabError("the lab makes namespaces, links and mounts: run it as root")
    _check_tools()
    if options.command == "content":
        content.build()
        return 0
    if options.command == "clean":
        return _clean()
    with locked(cache_root() / "locks" / f"lab-{the_lab.name}"):
        if options.command == "up":
            return _up(the_lab, options)
        return _down(the_lab)


def _check_tools() -> None:
    missing = {package for tool, package in _NEEDED.items() if not shutil.which(tool)}
    if missing:
        raise LabError(
            f"missing on this machine: {' '.join(sorted(missing))}. Install them by `make setup` or by apt-get"
        )


def _record(the_lab: Lab) -> dict[str, Any]:
    path = the_lab.state / "lab.json"
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _write_record(the_lab: Lab, **values: Any) -> None:
    the_lab.state.mkdir(parents=True, exist_ok=True)
    tmp = the_lab.state / "lab.json.tmp"
    tmp.write_text(json.dumps(values, indent=2) + "\n")
    tmp.replace(the_lab.state / "lab.json")


def _up(the_lab: Lab, options: argparse.Namespace) -> int:
    began = time.monotonic()
    wanted = [word for word in options.hosts.split(",") if word]
    unknown = set(wanted) - {HYPERVISOR, *GUESTS}
    if unknown:
        raise LabError(
            f"--hosts: {', '.join(sorted(unknown))} is no host of the lab; there are {', '.join((HYPERVISOR, *GUESTS))}"
        )
    wanted = [HYPERVISOR, *(guest for guest in GUESTS if guest in wanted)]
    record = _record(the_lab)
    shape = {"hosts": wanted, "prepared": options.prepared, "suite": options.suite}
    if record.get("state") == "up" and all(hosts.answers(the_lab, host) for host in record["hosts"]):
        if {key: record[key] for key in shape} != shape:
            raise LabError(
                f"lab {the_lab.name} is up in another shape ({', '.join(record['hosts'])}; {record['suite']}; "
                f"prepared: {record['prepared']}): take it down first"
            )
        server.start(the_lab, content.build())
        say(f"lab {the_lab.name} is up already")
        return 0
    if record or _leftovers(the_lab):
        say("removing what an earlier run left")
        _down(the_lab)
    with ThreadPoolExecutor(1) as pool:
        # Downloading and unpacking are slow for different reasons: together they take as long as one.
        pending = pool.submit(content.build)
        layers = rootfs.build(options.suite, options.prepared)
        shared = pending.result()
    booted = time.monotonic()
    if not claim(the_lab):
        raise LabError(f"network {the_lab.subnet} was taken by another lab just now; try again")
    _write_record(the_lab, state="starting", **shape)
    network.create(the_lab)
    server.start(the_lab, shared)
    hosts.make_disks(the_lab, wanted, layers, shared, options.prepared)
    hosts.boot(the_lab, layers, shared)
    hosts.wait_for_ssh(the_lab, wanted)
    _write_record(
        the_lab,
        state="up",
        index=the_lab.index_url,
        addresses={host: the_lab.address(host) for host in wanted},
        **shape,
    )
    say(f"lab {the_lab.name} is up: boot {time.monotonic() - booted:.1f} s, in all {time.monotonic() - began:.1f} s")
    return 0


def _fault(the_lab: Lab, options: argparse.Namespace) -> int:
    if options.kind is None:
        server.set_faults(the_lab, [])
        return 0
    rule = {
        "prefix": options.prefix,
        "kind": int(options.kind) if options.kind.isdigit() else options.kind,
        "seconds": options.seconds,
    }
    if options.times is not None:
        rule["times"] = options.times
    server.set_faults(the_lab, [*server.faults(the_lab), rule])
    return 0


def _leftovers(the_lab: Lab) -> list[str]:
    found = network.leftovers(the_lab)
    found += [f"process {pid}" for pid in [*hosts.hypervisor_processes(the_lab), *server.processes(the_lab)]]
    found += [str(path) for path in (the_lab.disks, the_lab.state, *hosts.cgroups(the_lab)) if path.exists()]
    return found


def _down(the_lab: Lab) -> int:
    """Every step takes what is there by name, so an interruption at any point is mended by the next run."""
    server.stop(the_lab)
    hosts.close_connections(the_lab)
    hosts.power_off(the_lab)
    network.remove(the_lab)
    for folder in (the_lab.disks, the_lab.state):
        if folder.exists():
            shutil.rmtree(folder)
    release(the_lab)
    for folder in (the_lab.disks.parent, STATE_ROOT / "nets", STATE_ROOT):
        _remove_empty(folder)
    left = _leftovers(the_lab)
    if left:
        raise LabError(f"lab {the_lab.name} could not be removed in full; left: {', '.join(left)}")
    say(f"lab {the_lab.name} is down")
    return 0


def _clean() -> int:
    up = sorted(path.name for path in STATE_ROOT.glob("*") if (path / "lab.json").exists())
    if up:
        raise LabError(f"the cache is in use by {', '.join(up)}: take these labs down first")
    content.clean()
    say(f"removed {cache_root()}")
    return 0


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _status(the_lab: Lab) -> int:
    record = _record(the_lab)
    answering = {host: hosts.answers(the_lab, host) for host in record.get("hosts", [])}
    shown = {
        "lab": the_lab.name,
        "state": record.get("state", "down"),
        "subnet": the_lab.subnet,
        "index": the_lab.index_url,
        "answering": answering,
        "leftovers": _leftovers(the_lab) if not record else [],
    }
    print(json.dumps(shown, indent=2))
    return 0 if record.get("state") == "up" and all(answering.values()) else 3

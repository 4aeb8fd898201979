"""A lab's network: one namespace for the hypervisor with a bridge in it, joined to this machine by a veth pair.

    this machine  sglabN 10.213.N.1 ===== eth0 in vmbr0 10.213.N.2 (pve1), guests' veths in vmbr0 as well

So this machine reaches the guests directly, as a controller in the same network would, and they reach the world through
NAT. All that is made here bears the lab's id, and `remove` takes away exactly that.
"""

from __future__ import annotations

import json
from pathlib import Path

from .names import HYPERVISOR, STATE_ROOT, Lab, cache_root
from .shell import LabError, locked, run

_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_FORWARD_USERS = STATE_ROOT / "ip_forward.json"


def uplink() -> str:
    """Name of the link that has this machine's default route."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "default"]).stdout or "[]")
    if not routes:
        raise LabError("this machine has no default route: the lab's guests could not reach Debian's mirrors")
    return str(routes[0]["dev"])


def create(lab: Lab) -> None:
    """Make namespace, links, addresses, routes and NAT; expects that nothing of them is there."""
    ns, host = lab.id, lab.address(HYPERVISOR)
    _foreign_use(lab)
    run(["ip", "netns", "add", ns])
    run(["ip", "link", "add", ns, "type", "veth", "peer", "name", "eth0", "netns", ns])
    batch = "\n".join(
        (
            "link set lo up",
            "link add vmbr0 type bridge forward_delay 0",
            "link set eth0 master vmbr0",
            "link set eth0 up",
            "link set vmbr0 up",
            f"addr add {host}/24 dev vmbr0",
            f"route add default via {lab.gateway}",
        )
    )
    run(["ip", "-n", ns, "-batch", "-"], data=batch + "\n")
    run(["ip", "-batch", "-"], data=f"addr add {lab.gateway}/24 dev {ns}\nlink set {ns} up\n")
    rules = f"""
        table ip {ns} {{
            chain nat {{
                type nat hook postrouting priority srcnat;
                ip saddr {lab.subnet} oifname "{uplink()}" masquerade
            }}
        }}
    """
    run(["nft", "-f", "-"], data=rules)
    _forwarding(lab, wanted=True)


def remove(lab: Lab) -> None:
    """Take away what `create` made, wherever it was interrupted; nothing to take away is fine."""
    if _exists("link", lab.id):
        run(["ip", "link", "del", lab.id])
    if (Path("/run/netns") / lab.id).exists():
        # A namespace file without a namespace is what an interrupted `ip netns add` leaves; `del` removes that too.
        run(["ip", "netns", "del", lab.id])
    if run(["nft", "list", "table", "ip", lab.id], check=False).returncode == 0:
        run(["nft", "delete", "table", "ip", lab.id])
    _forwarding(lab, wanted=False)


def leftovers(lab: Lab) -> list[str]:
    """What of the lab's network is there, in words."""
    found = []
    if _exists("link", lab.id):
        found.append(f"link {lab.id}")
    if (Path("/run/netns") / lab.id).exists():
        found.append(f"network namespace {lab.id}")
    if run(["nft", "list", "table", "ip", lab.id], check=False).returncode == 0:
        found.append(f"nft table {lab.id}")
    return found


def _foreign_use(lab: Lab) -> None:
    """Refuse a network that something else on this machine uses."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "root", lab.subnet]).stdout or "[]")
    if routes:
        raise LabError(
            f"network {lab.subnet} of lab {lab.name} is in use on {routes[0].get('dev')}: choose another lab name, "
            "its number follows from it"
        )


def _exists(kind: str, name: str) -> bool:
    return run(["ip", kind, "show", "dev", name], check=False).returncode == 0


def _forwarding(lab: Lab, wanted: bool) -> None:
    """Switch IPv4 forwarding on for the first lab and back to what it was after the last one."""
    with locked(cache_root() / "locks/ip_forward"):
        known = {"before": _FORWARD.read_text().strip(), "labs": []}
        if _FORWARD_USERS.exists():
            known = json.loads(_FORWARD_USERS.read_text())
        labs = set(known["labs"]) | {lab.name} if wanted else set(known["labs"]) - {lab.name}
        if labs:
            # Written before the switch: an interruption between the two must not lose the old value.
            tmp = _FORWARD_USERS.with_suffix(".tmp")
            tmp.write_text(json.dumps({"before": known["before"], "labs": sorted(labs)}))
            tmp.replace(_FORWARD_USERS)
            try:
                _FORWARD.write_text("1\n")
            except OSError as exc:
                raise LabError(
                    f"{_FORWARD} cannot be written ({exc.strerror}): guests reach apt's mirrors through this machine. "
                    "In a container, give it a writable /proc/sys, or run the lab on the host."
                ) from exc
        elif _FORWARD_USERS.exists():
            _FORWARD.write_text(f"{known['before']}\n")
            _FORWARD_USERS.unlink()

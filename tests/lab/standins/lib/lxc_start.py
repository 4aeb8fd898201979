"""Run container VMID in the foreground, as lxc-start does for Proxmox VE; systemd-nspawn does the work.

From the container's configuration it takes hostname, net0, mpN, devN and lxc.mount.entry (pct.conf(5)); like LXC it
refuses to start when a device of the hypervisor is missing. The container's control group is /lxc/VMID, as with LXC: by
that the hypervisor tells whose a process is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gpus
import pve


def _ip(words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words.split()], check=check, capture_output=not check)


def _network(vmid: int, net: dict[str, str]) -> str:
    """A network namespace with an interface that is a port of the bridge, named as PVE names it; returns its path."""
    namespace, port, name = f"ct{vmid}", f"veth{vmid}i0", net["name"]
    _ip(f"link del {port}", check=False)
    _ip(f"netns del {namespace}", check=False)
    _ip(f"netns add {namespace}")
    _ip(f"link add {port} type veth peer name {name} netns {namespace}")
    _ip(f"link set {port} master {net['bridge']} up")
    _ip(f"-n {namespace} link set lo up")
    if "hwaddr" in net:
        _ip(f"-n {namespace} link set {name} address {net['hwaddr']}")
    _ip(f"-n {namespace} addr add {net['ip']} dev {name}")
    _ip(f"-n {namespace} link set {name} up")
    _ip(f"-n {namespace} route add default via {net['gw']}")
    return f"/run/netns/{namespace}"


def _binds(settings: pve.Settings) -> list[str]:
    binds = []
    for key, text in settings:
        if key.startswith("dev") and key[3:].isdigit():
            given = pve.options(text)
            node = given.get("path", given.get("", ""))
            if not Path(node).exists():
                sys.exit(f"Device {node} does not exist")
            binds.append(f"--bind={node}")
        elif key.startswith("mp") and key[2:].isdigit():
            mount = pve.options(text)
            kind = "--bind-ro" if mount.get("ro") == "1" else "--bind"
            binds.append(f"{kind}={mount['']}:{mount['mp']}")
        elif key == "lxc.mount.entry":
            source, target, _, flags, *_ = [*text.split(), "", "", ""]
            if Path(source).exists():
                binds.append(f"--bind={source}:/{target}")
            elif "optional" not in flags:
                sys.exit(f"Failed to mount {source}: No such file or directory")
    if gpus.SOCKET.exists():
        binds.append(f"--bind={gpus.SOCKET.parent}")
    return binds


def _enter_group(vmid: int) -> None:
    root = Path("/sys/fs/cgroup")
    for top in [root] if (root / "cgroup.controllers").exists() else [root / "systemd", root / "unified"]:
        if top.is_dir():
            group = top / "lxc" / str(vmid)
            group.mkdir(parents=True, exist_ok=True)
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")


def main(vmid: int) -> None:
    """Mount the disk, make the network and become systemd-nspawn."""
    settings = pve.apply_pending(pve.LXC, vmid)
    binds = _binds(settings)
    disk = pve.DISKS / str(vmid)
    lower = Path(f"/var/lib/sglang-lab/lower.{vmid}").read_text(encoding="utf-8").strip()
    # volatile: what a guest syncs (dpkg does at every step) may stay in memory, which outlives the guest. The mark that
    # overlayfs leaves against a second mount is meant for a crash of the machine, and the lab does not outlive one.
    shutil.rmtree(disk / "work" / "work" / "incompat", ignore_errors=True)
    layers = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work,volatile"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, disk / "root"], check=True)
    namespace = _network(vmid, pve.options(pve.value(settings, "net0")))
    argv = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={disk}/root",
        f"--machine=ct{vmid}",
        f"--hostname={pve.value(settings, 'hostname')}",
        "--register=no",
        "--keep-unit",
        "--boot",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--tmpfs=/dev/shm:mode=1777,size=64g",  # nspawn's own limit is 10 % of the memory, LXC's is half of it
        f"--network-namespace-path={namespace}",
        *binds,
    ]
    _enter_group(vmid)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(int(sys.argv[1]))

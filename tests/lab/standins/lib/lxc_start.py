"""Run container VMID in the foreground, as lxc-start does for Proxmox VE; systemd-nspawn does the work.

From the container's configuration it takes hostname, net0, mpN and devN (pct.conf(5)); like LXC it refuses to start when a
device of the hypervisor is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys

import gpus
import pve


def _run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True).returncode


def _network(vmid, net):
    """A network namespace with an interface that is a port of the bridge; names as PVE gives them."""
    namespace, port = "ct%d" % vmid, "veth%di0" % vmid
    _run("ip", "link", "del", port, check=False)
    _run("ip", "netns", "del", namespace, check=False)
    _run("ip", "netns", "add", namespace)
    _run("ip", "link", "add", port, "type", "veth", "peer", "name", net["name"], "netns", namespace)
    _run("ip", "link", "set", port, "master", net["bridge"], "up")
    _run("ip", "-n", namespace, "link", "set", "lo", "up")
    if "hwaddr" in net:
        _run("ip", "-n", namespace, "link", "set", net["name"], "address", net["hwaddr"])
    _run("ip", "-n", namespace, "addr", "add", net["ip"], "dev", net["name"])
    _run("ip", "-n", namespace, "link", "set", net["name"], "up")
    _run("ip", "-n", namespace, "route", "add", "default", "via", net["gw"])
    return "/run/netns/" + namespace


def main(vmid):
    settings = pve.read(pve.LXC, vmid)
    if settings is None:
        sys.exit("Configuration file 'nodes/%s/lxc/%d.conf' does not exist" % (os.uname().nodename, vmid))
    binds = []
    for key in sorted(key for key in settings if key.startswith("dev")):
        node = settings[key].split(",")[0]
        node = pve.options(settings[key]).get("path", node)
        if not os.path.exists(node):
            sys.exit(f"Device {node} does not exist")
        binds.append("--bind=" + node)
    for key in sorted(key for key in settings if key.startswith("mp")):
        mount = pve.options(settings[key])
        kind = "--bind-ro" if mount.get("ro") == "1" else "--bind"
        binds.append("{}={}:{}".format(kind, mount[""], mount["mp"]))
    if os.path.exists(gpus.SOCKET):
        binds.append("--bind=" + os.path.dirname(gpus.SOCKET))
    disk = "%s/%d" % (pve.DISKS, vmid)
    with open("/var/lib/sglang-lab/lower.%d" % vmid, encoding="utf-8") as handle:
        lower = handle.read().strip()
    layers = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, disk + "/root"], check=True)
    namespace = _network(vmid, pve.options(settings["net0"]))
    argv = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={disk}/root",
        "--machine=ct%d" % vmid,
        "--hostname=" + settings["hostname"],
        "--register=no",
        "--keep-unit",
        "--boot",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--tmpfs=/dev/shm:mode=1777,size=64g",  # nspawn's own limit is 10 % of the memory, LXC's is half of it
        "--network-namespace-path=" + namespace,
        *binds,
    ]
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""The lab's hosts: their disks, the hypervisor's boot, the wait for ssh."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from . import machine
from .content import Content
from .cuda import Toolkit
from .layer import Layer
from .names import GUESTS, HYPERVISOR, Lab, cache_root
from .rootfs import Layers
from .shell import LabError, command_line, detach, having_words, kill_and_wait, locked, run, say

STANDINS = Path(__file__).resolve().parents[1] / "standins"
_LIB = "/usr/lib/sglang-lab"
_GPU_NODES = (
    *(f"/dev/nvidia{index}" for index in range(8)),
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
)
# Debian's timers that change files or take apt's lock at certain hours.
_BY_THE_CLOCK = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer")

# Loops because systemd-nspawn ends with 133 when the machine inside asks for a reboot.
_LAUNCH = """
lower=$1 disk=$2 groups=$3; shift 3
for group in $groups; do
    mkdir -p "$group"
    echo $$ > "$group/cgroup.procs"
done
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$disk/upper,workdir=$disk/work" "$disk/root"
while :; do
    status=0
    "$@" || status=$?
    [ "$status" -eq 133 ] || exit "$status"
done
"""


def ssh_key() -> Path:
    """The lab's private key, made once; all labs of a cache share it."""
    key = cache_root() / "id_ed25519"
    if not key.exists():
        with locked(cache_root() / "locks/key"):
            if not key.exists():
                tmp = key.with_name("key.tmp")
                tmp.unlink(missing_ok=True)
                run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sglang-lab", "-f", tmp])
                tmp.with_suffix(".tmp.pub").rename(key.with_suffix(".pub"))
                tmp.rename(key)
    return key


def ssh_command(lab: Lab, host: str) -> list[str]:
    """ssh to a host of the lab; its host key is of no interest, since the lab is made anew each time."""
    return [
        "ssh",
        "-i",
        str(ssh_key()),
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        "-o",
        "BatchMode=yes",
        f"root@{lab.address(host)}",
    ]


def make_disks(lab: Lab, hosts: Sequence[str], layers: Layers, content: Content, prepared: bool) -> None:
    """Write the layers of all hosts; nothing is mounted or booted here."""
    guests = [host for host in hosts if host in GUESTS]
    _make_hypervisor(lab, guests, layers, content.toolkit, prepared)
    for guest in guests:
        _make_guest(lab, guest, layers, content.toolkit, prepared)


def _common(layer: Layer, lab: Lab, host: str, hosts: Sequence[str]) -> None:
    layer.write("/etc/hostname", f"{host}\n")
    names = "".join(f"{lab.address(name)} {name}\n" for name in hosts)
    layer.write("/etc/hosts", f"127.0.0.1 localhost\n{names}")
    layer.write(
        "/etc/machine-id", hashlib.sha256(f"{lab.name}/{host}/{time.time_ns()}".encode()).hexdigest()[:32] + "\n", 0o444
    )
    layer.write("/root/.ssh/authorized_keys", ssh_key().with_suffix(".pub").read_text(), 0o600)
    layer.folder("/root/.ssh", 0o700)
    machine.give(layer)
    # What a host of the lab has beside a fresh Debian: the stand-in for the driver.
    for source in sorted((STANDINS / "lib").glob("*.py")):
        layer.copy(source, f"{_LIB}/{source.name}")
    layer.copy(STANDINS / "bin/nvidia-smi", "/usr/bin/nvidia-smi", 0o755)
    layer.copy(STANDINS / "units/lab-nvidia.service", "/etc/systemd/system/lab-nvidia.service")
    layer.enable("lab-nvidia.service", "sysinit.target")
    # What a test sees must not depend on the time of day at which it runs.
    for timer in _BY_THE_CLOCK:
        layer.link(f"/etc/systemd/system/{timer}", "/dev/null")


def _make_hypervisor(lab: Lab, guests: Sequence[str], layers: Layers, toolkit: Toolkit, prepared: bool) -> None:
    disk = lab.disks / HYPERVISOR
    for name in ("upper", "work", "root"):
        (disk / name).mkdir(parents=True)
    layer = Layer(disk / "upper", [layers.base])
    _common(layer, lab, HYPERVISOR, [HYPERVISOR, *guests])
    for tool in ("pct", "qm", "pveversion"):
        layer.copy(STANDINS / "bin" / tool, f"/usr/sbin/{tool}", 0o755)
    for unit in ("pve-container@.service", "lab-gpud.service", "lab-pci.service"):
        layer.copy(STANDINS / "units" / unit, f"/etc/systemd/system/{unit}")
    layer.enable("lab-pci.service", "sysinit.target")
    layer.write(f"{_LIB}/hypervisor", "This host loads the driver; guests see its devices.\n")
    layer.folder("/etc/pve/nodes/pve1/lxc")
    layer.folder("/etc/pve/nodes/pve1/qemu-server")
    layer.link("/etc/pve/local", "nodes/pve1")
    layer.link("/etc/pve/lxc", "nodes/pve1/lxc")
    layer.link("/etc/pve/qemu-server", "nodes/pve1/qemu-server")
    for guest in guests:
        vmid = GUESTS[guest][0]
        layer.write(f"/etc/pve/nodes/pve1/lxc/{vmid}.conf", _guest_config(lab, guest, toolkit), 0o640)
        stack = ":".join(f"/var/lib/sglang-lab/rootfs/{path.name}" for path in layers.stack(prepared))
        layer.write(f"/var/lib/sglang-lab/lower.{vmid}", stack + "\n")
        layer.enable(f"pve-container@{vmid}.service", template="pve-container@.service")


def _guest_config(lab: Lab, guest: str, toolkit: Toolkit) -> str:
    """A container's configuration as Proxmox VE 9 writes it (keys in order, comments of its own left out)."""
    vmid, last = GUESTS[guest]
    lines = ["arch: amd64", "cores: 64"]
    lines += [f"dev{index}: {node},mode=0666" for index, node in enumerate(_GPU_NODES)]
    lines += ["features: nesting=1", f"hostname: {guest}", "memory: 786432"]
    mounts = ["/models,mp=/models,ro=1", f"{toolkit.target},mp={toolkit.target},ro=1"]
    lines += [f"mp{index}: {mount}" for index, mount in enumerate(mounts)]
    lines += [
        f"net0: name=eth0,bridge=vmbr0,gw={lab.gateway},hwaddr=BC:24:11:00:{lab.net:02X}:{last:02X},"
        f"ip={lab.address(guest)}/24,type=veth",
        "onboot: 1",
        "ostype: debian",
        f"rootfs: local-zfs:subvol-{vmid}-disk-0,size=2000G",
        "swap: 0",
    ]
    return "\n".join(lines) + "\n"


def _make_guest(lab: Lab, guest: str, layers: Layers, toolkit: Toolkit, prepared: bool) -> None:
    disk = lab.disks / "guests" / str(GUESTS[guest][0])
    for name in ("upper", "work", "root"):
        (disk / name).mkdir(parents=True)
    layer = Layer(disk / "upper", layers.stack(prepared))
    _common(layer, lab, guest, [HYPERVISOR, guest])
    layer.folder("/models")
    # As on a host whose apt-daily.timer ran: package lists and .deb files are of one time, so apt need not look again.
    layer.write("/var/lib/apt/periodic/update-success-stamp", "")
    layer.folder(str(toolkit.target))
    layer.link("/usr/local/cuda", str(toolkit.target))


def boot(lab: Lab, layers: Layers, content: Content) -> None:
    """Start the hypervisor; it starts its guests."""
    disk = lab.disks / HYPERVISOR
    binds = [
        f"--bind-ro={layers.base.parent}:/var/lib/sglang-lab/rootfs",
        f"--bind={lab.disks / 'guests'}:/var/lib/lxc",
        f"--bind-ro={content.models}:/models",
        f"--bind-ro={content.toolkit.source}:{content.toolkit.target}",
    ]
    (lab.disks / "guests").mkdir(exist_ok=True)
    nspawn = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={disk / 'root'}",
        f"--machine={lab.hypervisor_machine}",
        f"--hostname={HYPERVISOR}",
        "--register=no",
        "--keep-unit",
        "--boot",
        "--console=pipe",
        "--capability=all",
        "--resolv-conf=off",
        "--timezone=off",
        f"--network-namespace-path=/run/netns/{lab.id}",
        *binds,
    ]
    env = ["env", "SYSTEMD_NSPAWN_TMPFS_TMP=0"]
    detach(
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-euc",
            _LAUNCH,
            lab.hypervisor_machine,
            layers.base,
            disk,
            " ".join(map(str, cgroups(lab))),
            *env,
            *nspawn,
        ],
        lab.state / "pve1.log",
    )


def wait_for_ssh(lab: Lab, hosts: Sequence[str], seconds: float = 60.0) -> None:
    """Wait until sshd of every host sends its banner; else raise LabError with the console's last lines."""
    deadline = time.monotonic() + seconds
    for host in hosts:
        while not answers(lab, host):
            if not hypervisor_processes(lab) or time.monotonic() > deadline:
                log = lab.state / "pve1.log"
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
                raise LabError(
                    f"{host} ({lab.address(host)}) does not answer on port 22. Console of {HYPERVISOR}:\n{tail}"
                )
            time.sleep(0.02)
        say(f"{host} is up: {lab.address(host)}")


def answers(lab: Lab, host: str) -> bool:
    """Whether sshd of a host sends its banner."""
    try:
        with socket.create_connection((lab.address(host), 22), timeout=1.0) as connection:
            connection.settimeout(5.0)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def hypervisor_processes(lab: Lab) -> list[int]:
    """The launcher and systemd-nspawn of the lab's hypervisor."""
    return having_words(f"--machine={lab.hypervisor_machine}")


def power_off(lab: Lab) -> None:
    """End the hypervisor and all that runs in it, at once: its disks are thrown away with it."""
    mine = hypervisor_processes(lab)
    launchers = [pid for pid in mine if command_line(pid)[:1] == ["sh"]]
    inside = [int(word) for word in run(["ip", "netns", "pids", lab.id], check=False).stdout.split()]
    # Launchers first, else one could take the end of its machine for a reboot.
    kill_and_wait(launchers)
    kill_and_wait([*mine, *inside])
    propagate = Path("/run/systemd/nspawn/propagate") / lab.hypervisor_machine
    if propagate.is_dir():
        shutil.rmtree(propagate)
    _remove_cgroups(lab)


def cgroups(lab: Lab) -> list[Path]:
    """Control groups of the lab, one per hierarchy that systemd uses (v2 alone, or v1 with a v2 beside it).

    Each lab needs its own: systemd-nspawn makes `payload` in the group that it is started in, and two hypervisors in
    one `payload` would take each other's services for their own.
    """
    root = Path("/sys/fs/cgroup")
    roots = [root] if (root / "cgroup.controllers").exists() else [root / "systemd", root / "unified"]
    return [path / lab.id for path in roots if path.is_dir()]


def close_connections(lab: Lab) -> None:
    """End ssh connections that ansible keeps for later (inventories/lab puts their sockets into the state folder)."""
    for control in lab.state.glob("*") if lab.state.is_dir() else []:
        if control.is_socket():
            run(["timeout", "5", "ssh", "-S", control, "-O", "exit", "lab"], check=False)


def _remove_cgroups(lab: Lab, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    for top in cgroups(lab):
        while top.is_dir():
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # busy while the kernel still takes processes down
                    Path(folder).rmdir()
            if time.monotonic() > deadline:
                raise LabError(f"control group {top} cannot be removed: a process of the lab is still in it")
            time.sleep(0.01)

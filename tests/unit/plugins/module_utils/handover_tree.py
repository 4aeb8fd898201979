"""A hypervisor as a folder: the lab's stand-ins for pct, qm, nvidia-smi and sysfs, each led into that folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

STANDINS = pathlib.Path(__file__).resolve().parents[3] / "lab/standins/lib"
# Whether a guest runs is a file here: there is no guest, and its start does nothing.
PROGRAM = """
import os, sys
from pathlib import Path
sys.path.insert(0, {standins!r})
root = Path({root!r})
import gpus, pve
gpus.ROOT, gpus.HOLDERS, gpus.STUCK = root / "run", root / "run/holders", root / "run/stuck.json"
gpus.SOCKET, gpus.HYPERVISOR_MARK = root / "run/socket", root / "hypervisor"
gpus.PROC_VERSION = root / "proc/driver/nvidia/version"
gpus.Gpu.node = property(lambda self: root / f"dev/nvidia{{self.index}}")
pve.LXC, pve.QEMU, pve.QEMU_STATE = root / "etc/pve/lxc", root / "etc/pve/qemu-server", root / "run/qemu"
pve.PENDING = {{pve.LXC: "[pve:pending]", pve.QEMU: "[PENDING]"}}
state = lambda vmid: root / f"run/ct{{vmid}}"
pve.leader = lambda vmid: 7 if state(vmid).exists() else None
name, argv = sys.argv[1], sys.argv[2:]
if name in ("pct", "qm") and (root / f"run/fail-{{name}}-{{argv[0]}}").exists():
    sys.exit(f"{{name}} {{argv[0]}} fails, as the test wants it")
if name == "pct":
    import pct
    def start(args):
        for key, text in pve.apply_pending(pve.LXC, int(args[0])):
            if key.startswith("dev") and not (root / pve.options(text).get("", "").lstrip("/")).exists():
                sys.exit(f"Device {{text}} does not exist")
        state(int(args[0])).touch()
    pct.do_start = start
    pct.do_shutdown = lambda args: state(int(args[0])).unlink()
    pct.hot_add = lambda leader, given: None
    pct.main(argv)
elif name == "qm":
    import qm
    qm.main(argv)
elif name == "nvidia-smi":
    import smi
    smi.CONTROL = root / "dev/nvidiactl"
    sys.exit(smi.main(argv))
elif name == "systemctl":
    active = root / "run/active" / argv[-1]
    if argv[0] == "is-active":
        sys.exit(0 if active.exists() else 3)
    active.touch() if argv[0] in ("start", "restart") else active.unlink()
elif name == "pci":
    import driver, pci
    driver.PROC, pci.FAULTS = root / "proc/driver", root / "run/faults.json"
    real, os.mknod = os.mknod, lambda path, mode, device: Path(path).touch()
    pci.Bus(root / "tree").serve()
"""


class Hypervisor:
    """Eight cards, container 101 with all of them, stopped VM 900; ``run_command`` finds the stand-ins."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.host = Host(self.run_command, str(root))
        for folder in ("etc/pve/lxc", "etc/pve/qemu-server", "run/holders", "run/active", "run/qemu", "dev", "tree"):
            (root / folder).mkdir(parents=True)
        (root / "program.py").write_text(PROGRAM.format(standins=str(STANDINS), root=str(root)))
        for name in ("usr/sbin/pct", "usr/sbin/qm", "usr/bin/nvidia-smi", "usr/bin/systemctl"):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {root}/program.py {path.name} "$@"\n')
            path.chmod(0o755)
        self._devices()
        entries = [*(f"dev{n}: /dev/nvidia{n},mode=0666" for n in range(8)), "dev8: /dev/nvidiactl,mode=0666"]
        self.container(101, "sglang1", [*entries, "dev9: /dev/nvidia-uvm,mode=0666"], running=True)
        (root / "etc/pve/qemu-server/900.conf").write_text("memory: 65536\nname: train\n")
        (root / "run/active/nvidia-persistenced.service").touch()
        self._bus = subprocess.Popen([sys.executable, "-I", "-S", str(root / "program.py"), "pci"])
        self._until_served()

    def _devices(self) -> None:
        root = self.root
        code = (
            f"import sys; sys.path.insert(0, {str(STANDINS)!r}); from pathlib import Path; import driver, gpus, pci;"
            f"root = Path({str(root)!r}); pci.build(root / 'tree'); driver.PROC = root / 'proc/driver';"
            "driver.write(driver.PROC / 'nvidia/version', driver.VERSION);"
            "[driver.write(driver.PROC / f'nvidia/gpus/0000:{g.bus:02x}:00.0/information', driver.information(g))"
            " for g in gpus.GPUS]"
        )
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
        for path, target in (("sys/bus/pci", "tree/bus"), ("sys/kernel/iommu_groups", "tree/groups")):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(root / target)
        for name in (*(f"nvidia{n}" for n in range(8)), "nvidiactl", "nvidia-uvm"):
            (root / "dev" / name).touch()
        (root / "hypervisor").touch()

    def _until_served(self) -> None:
        pipe = self.root / "tree/bus/drivers_probe"
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError("the PCI stand-in does not run")

    def close(self) -> None:
        """End the PCI stand-in."""
        self._bus.kill()
        self._bus.wait()

    def container(self, vmid: int, name: str, lines: list[str], *, running: bool = False) -> None:
        """Write a container's configuration."""
        text = "\n".join(["arch: amd64", *lines, f"hostname: {name}", "onboot: 1"]) + "\n"
        (self.root / f"etc/pve/lxc/{vmid}.conf").write_text(text)
        if running:
            (self.root / f"run/ct{vmid}").touch()

    def run_command(self, words: list[str]) -> tuple[int, str, str]:
        """Like AnsibleModule.run_command, with the folder's programs first."""
        path = f"{self.root}/usr/sbin:{self.root}/usr/bin:{os.environ['PATH']}"
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
        return done.returncode, done.stdout, done.stderr

    def snapshot(self) -> dict[str, str]:
        """Everything that a hand-over may change."""
        root = self.root
        found = {str(path.relative_to(root)): path.read_text() for path in sorted(root.glob("etc/pve/*/*.conf"))}
        found.update({str(path.relative_to(root)): "" for path in sorted(root.glob("run/ct*"))})
        found.update({str(path.relative_to(root)): "" for path in sorted(root.glob("run/active/*"))})
        found.update({str(path.relative_to(root)): "" for path in sorted(root.glob("run/qemu/*.pid"))})
        found.update({str(path.relative_to(root)): "" for path in sorted(root.glob("dev/*"))})
        for path in sorted((root / "tree/bus/devices").iterdir()):
            link = path / "driver"
            override = (path / "driver_override").read_text().strip().replace("(null)", "")
            found[path.name] = f"{link.readlink().name if link.is_symlink() else '-'} {override}"
        return found

"""Stand-in for the kernel's PCI and IOMMU trees in sysfs: cards, their drivers, binding by hand.

Imitates Documentation/ABI/testing/sysfs-bus-pci and -kernel-iommu_groups: two functions a card (3D controller and
audio), driver_override, drivers/NAME/{bind,unbind}, drivers_probe, reset_method, one IOMMU group for card and root
port. The files that act when written are pipes that this program reads; the tree is mounted over the real one, so
nothing that looks at it knows. A card that a process holds is not let go, as with the NVIDIA driver: the writer waits.

Faults: `/run/lab-gpus/pci-faults.json`, a list of "bind DRIVER FUNCTION" or "unbind DRIVER FUNCTION" that do nothing.
"""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
from pathlib import Path

import driver
import gpus

TREE = gpus.ROOT / "pci"
BUS = Path("/sys/bus/pci")
GROUPS = Path("/sys/kernel/iommu_groups")
FAULTS = gpus.ROOT / "pci-faults.json"
DRIVERS = ("nvidia", "snd_hda_intel", "vfio-pci", "pcieport")
DEFAULT = {"0x030200": "nvidia", "0x040300": "snd_hda_intel", "0x060400": "pcieport"}
# GB202 of the PRO 6000 Blackwell Server Edition, its audio function, a root port.
KINDS = (("0", "0x030200", "0x2bb5"), ("1", "0x040300", "0x22e8"))


def build(tree: Path) -> None:
    """Write the tree anew."""
    for name in DRIVERS:
        folder = tree / "bus/drivers" / name
        folder.mkdir(parents=True, exist_ok=True)
        for pipe in ("bind", "unbind"):
            _pipe(folder / pipe)
    _pipe(tree / "bus/drivers_probe")
    for gpu in gpus.GPUS:
        group = tree / f"groups/{20 + gpu.index}/devices"
        group.mkdir(parents=True, exist_ok=True)
        for function, kind, device in KINDS:
            _device(tree, f"0000:{gpu.bus:02x}:00.{function}", kind, device, group)
        _device(tree, f"0000:{gpu.bus - 1:02x}:01.1", "0x060400", "0x14ab", group)


def _device(tree: Path, address: str, kind: str, device: str, group: Path) -> None:
    folder = tree / "bus/devices" / address
    folder.mkdir(parents=True, exist_ok=True)
    vendor = "0x1022" if kind == "0x060400" else "0x10de"
    rows = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 13
    if kind == "0x030200":
        rows[0] = "0x00000000b0000000 0x00000000b3ffffff 0x0000000000040200"
        rows[1] = "0x0000200000000000 0x0000201fffffffff 0x000000000014220c"
    texts = {
        "vendor": vendor,
        "device": device,
        "class": kind,
        "driver_override": "(null)",
        "reset_method": "bus" if kind != "0x060400" else "",
        "d3cold_allowed": "0",
        "resource": "\n".join(rows),
    }
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (folder / "config").write_bytes(bytes.fromhex(vendor[4:] + vendor[2:4] + device[4:] + device[2:4]) + bytes(252))
    _link(folder / "iommu_group", GROUPS / group.parent.name)
    _link(group / address, BUS / "devices" / address)
    _link(folder / "driver", BUS / "drivers" / DEFAULT[kind])


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    if not path.exists():
        os.mkfifo(path, 0o200)


def _faulty(*words: str) -> bool:
    try:
        return " ".join(words) in json.loads(FAULTS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


class Bus:
    """Acts on what is written into the pipes of a tree."""

    def __init__(self, tree: Path) -> None:
        self.devices = tree / "bus/devices"
        self.pipes: dict[int, tuple[str, str]] = {}
        paths = [(path, path.parent.name, path.name) for path in tree.glob("bus/drivers/*/*bind")]
        for path, name, verb in [*paths, (tree / "bus/drivers_probe", "", "probe")]:
            # Open for both, so that a writer never finds nobody and the end of one is no end.
            self.pipes[os.open(path, os.O_RDWR | os.O_NONBLOCK)] = (verb, name)
        self.waiting: list[tuple[str, str]] = []

    def serve(self) -> None:
        """For ever."""
        while True:
            ready, _, _ = select.select(list(self.pipes), [], [], 0.2 if self.waiting else None)
            for handle in ready:
                verb, name = self.pipes[handle]
                for address in os.read(handle, 4096).decode().split():
                    self.act(verb, name, address)
            for name, address in list(self.waiting):
                self.act("unbind", name, address)

    def act(self, verb: str, name: str, address: str) -> None:
        """One address written into one file."""
        folder = self.devices / address
        now = (folder / "driver").readlink().name if (folder / "driver").is_symlink() else ""
        if verb == "unbind":
            if now == name and not _faulty("unbind", name, address):
                self._unbind(folder, name, address)
            return
        override = (folder / "driver_override").read_text(encoding="utf-8").strip().replace("(null)", "")
        want = name or override or DEFAULT[(folder / "class").read_text(encoding="utf-8").strip()]
        if not now and not _faulty("bind", want, address) and (not name or name in (override, "")):
            (folder / "driver").symlink_to(BUS / "drivers" / want)
            _card(address, present=want == "nvidia")

    def _unbind(self, folder: Path, name: str, address: str) -> None:
        index = next((gpu.index for gpu in gpus.GPUS if address == f"0000:{gpu.bus:02x}:00.0"), None)
        held = name == "nvidia" and any(index in row["gpus"] for row in gpus.local_holders())
        if held:
            if (name, address) not in self.waiting:
                self.waiting.append((name, address))
            return
        self.waiting = [row for row in self.waiting if row != (name, address)]
        (folder / "driver").unlink()
        if name == "nvidia":
            _card(address, present=False)


def _card(address: str, *, present: bool) -> None:
    """Let the NVIDIA driver have a card, or not: its folder in /proc and its node."""
    gpu = next((gpu for gpu in gpus.GPUS if address == f"0000:{gpu.bus:02x}:00.0"), None)
    if gpu is None:
        return
    information = driver.PROC / f"nvidia/gpus/{address}/information"
    if present:
        driver.write(information, driver.information(gpu))
        if not gpu.node.exists():
            os.mknod(gpu.node, 0o666 | stat.S_IFCHR, os.makedev(195, gpu.index))
            gpu.node.chmod(0o666)
        return
    information.unlink(missing_ok=True)
    if information.parent.exists():
        information.parent.rmdir()
    gpu.node.unlink(missing_ok=True)


def main() -> None:
    """Build the tree, mount it over the real one, serve it."""
    if not TREE.exists():
        build(TREE)
    for source, target in ((TREE / "bus", BUS), (TREE / "groups", GROUPS)):
        if not target.samefile(source):
            subprocess.run(["mount", "--bind", source, target], check=True)
    Bus(TREE).serve()


if __name__ == "__main__":
    main()

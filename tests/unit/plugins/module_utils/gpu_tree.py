"""A GPU host as a tree of files, with a nvidia-smi and a nvcc that print what lies beside them.

The values are of our own making; the formats are those of driver 580 and of Linux 6.8 on Proxmox VE 9.
"""

from __future__ import annotations

import pathlib
import subprocess
import typing as t

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
QUERY_HEAD = (
    "index, name, uuid, pci.bus_id, compute_cap, memory.total [MiB], memory.used [MiB], memory.free [MiB], "
    "utilization.gpu [%], driver_version, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, "
    "pcie.link.width.max, persistence_mode, compute_mode, mig.mode.current"
)
APPS_HEAD = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
SMI = """#!/bin/sh
here=$(dirname "$0")/../share/smi
[ -f "$here/refuse" ] && { cat "$here/refuse"; exit 9; }
case "$1" in
  --query-gpu=*) cat "$here/gpus" ;;
  --query-compute-apps=*) cat "$here/apps" ;;
  topo) cat "$here/topo" ;;
  -q) cat "$here/q" ;;
  *) exit 2 ;;
esac
"""


def run_command(words: list[str]) -> tuple[int, str, str]:
    """Like AnsibleModule.run_command."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def uuid(index: int) -> str:
    """An identity that no card has."""
    return f"GPU-00000000-aaaa-bbbb-cccc-{index:012d}"


def bus(index: int) -> str:
    """Address of the card of that index, as nvidia-smi writes it."""
    return f"00000000:{index + 1:02X}:00.0"


def gpu_row(index: int, **changes: str) -> str:
    """A line of --query-gpu; ``changes`` by a short name."""
    cells = {
        "index": str(index),
        "name": CARD,
        "uuid": uuid(index),
        "bus": bus(index),
        "cc": "12.0",
        "total": "97887 MiB",
        "used": "0 MiB",
        "free": "97251 MiB",
        "util": "0 %",
        "driver": "580.126.09",
        "gen": "5",
        "gen_max": "5",
        "width": "16",
        "width_max": "16",
        "persistence": "Enabled",
        "mode": "Default",
        "mig": "Disabled",
    }
    return ", ".join({**cells, **changes}.values())


def topo(links: t.Sequence[t.Sequence[str]], numa: t.Sequence[int]) -> str:
    """``nvidia-smi topo -m`` with the underlined header that it prints on a terminal and off it."""
    names = [f"GPU{i}" for i in range(len(links))]
    lines = ["\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"]
    for name, row, node in zip(names, links, numa, strict=True):
        lines.append(
            "\t".join([name, *(f" {link} " for link in row), f"{node * 32}-{node * 32 + 31}", str(node), "", "N/A"])
        )
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  SYS  = Connection traversing PCIe", ""])


def square(count: int, link: str) -> list[list[str]]:
    """Every pair at the same distance."""
    return [["X" if i == j else link for j in range(count)] for i in range(count)]


class Tree:
    """A healthy bare-metal host with ``count`` cards behind one switch; tests change what they are about."""

    def __init__(self, root: pathlib.Path, count: int = 2) -> None:
        self.root = root
        self.count = count
        self.write("/usr/bin/nvidia-smi", SMI, 0o755)
        self.cards(*(gpu_row(i) for i in range(count)))
        self.apps()
        self.write("/usr/share/smi/topo", topo(square(count, "PIX"), [0] * count))
        self.write("/usr/share/smi/q", "".join(self._bar1(i, 131072) for i in range(count)))
        self.driver("Open Kernel Module for x86_64", "580.126.09")
        self.write("/usr/lib/x86_64-linux-gnu/libcuda.so.580.126.09", "")
        self.write("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09", "")
        self.write("/proc/driver/nvidia/params", 'ModifyDeviceFiles: 1\nRegistryDwords: ""\n')
        self.write("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "Y\n")
        for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(count))]:
            self.write(f"/dev/{name}", "", 0o666)
        self.write("/dev/shm/.keep", "")
        self.nvcc("13.0.88")
        self.write("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
        self.write("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.8.12-9-pve root=/dev/sda1 ro quiet iommu=pt\n")
        self.write("/proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 2 nvidia_uvm, Live 0x0\next4 1 1 - Live 0x0\n")
        self.write("/proc/meminfo", "MemTotal:       528482304 kB\nMemAvailable:   500000000 kB\n")
        self.write("/proc/self/cgroup", "0::/system.slice/ssh.service\n")
        self.write("/proc/sys/kernel/numa_balancing", "0\n")
        self.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
        self.write("/sys/kernel/iommu_groups/0/type", "identity\n")
        self.write("/usr/bin/python3.12", "", 0o755)
        self.write("/var/lib/dpkg/status", package("gcc", "4:12.2.0-3"))
        self.dmesg("[    0.000000] Linux version 6.8.12-9-pve")

    def write(self, path: str, text: str | bytes, mode: int = 0o644) -> None:
        """A file of the host."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        place.chmod(mode)

    def remove(self, path: str) -> None:
        """Take a file away."""
        (self.root / path.lstrip("/")).unlink()

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def cards(self, *rows: str) -> None:
        """What --query-gpu prints."""
        self.write("/usr/share/smi/gpus", "\n".join([QUERY_HEAD, *rows]) + "\n")

    def apps(self, *rows: str) -> None:
        """What --query-compute-apps prints."""
        self.write("/usr/share/smi/apps", "\n".join([APPS_HEAD, *rows]) + "\n")

    def refuse(self, text: str) -> None:
        """Make nvidia-smi fail with this text."""
        self.write("/usr/share/smi/refuse", text)

    def driver(self, kind: str, version: str) -> None:
        """The loaded kernel module."""
        self.write(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build\nGCC version: 12\n",
        )

    def nvcc(self, version: str, home: str = "/usr/local/cuda") -> None:
        """A CUDA toolkit."""
        short = version.rsplit(".", 1)[0]
        text = f"Cuda compilation tools, release {short}, V{version}"
        self.write(
            f"{home}/bin/nvcc", f"#!/bin/sh\necho 'nvcc: NVIDIA (R) Cuda compiler driver'\necho '{text}'\n", 0o755
        )

    def dmesg(self, *lines: str) -> None:
        """The kernel log."""
        body = "\n".join(lines)
        self.write("/usr/bin/dmesg", f"#!/bin/sh\ncat <<'LOG'\n{body}\nLOG\n", 0o755)

    def cmdline(self, words: str) -> None:
        """The kernel command line."""
        self.write("/proc/cmdline", f"root=/dev/sda1 ro quiet {words}\n")

    def process(self, pid: int, ppid: int, state: str = "S", cgroup: str = "0::/user.slice\n") -> None:
        """A process in /proc."""
        self.write(f"/proc/{pid}/status", f"Name:\tpython\nState:\t{state} (sleeping)\nPPid:\t{ppid}\n")
        self.write(f"/proc/{pid}/cgroup", cgroup)

    def container(self) -> None:
        """Make it an LXC guest."""
        self.write("/run/systemd/container", "lxc")

    def machine(self) -> None:
        """Make it a VM."""
        self.write("/sys/class/dmi/id/sys_vendor", "QEMU\n")

    def bridge(self, address: str, control: int) -> None:
        """A PCI bridge with ACS; ``control`` is its control register."""
        config = bytearray(4096)
        config[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
        config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        config[0x14E:0x150] = control.to_bytes(2, "little")
        self.write(f"/sys/bus/pci/devices/{address}/class", "0x060400\n")
        self.write(f"/sys/bus/pci/devices/{address}/vendor", "0x1022\n")
        self.write(f"/sys/bus/pci/devices/{address}/config", bytes(config))

    def card(self, address: str, config: bytes = b"\xde\x10\xb5\x2b") -> None:
        """A GPU in sysfs with a BAR1 of 128 GiB."""
        base = f"/sys/bus/pci/devices/{address}"
        self.write(f"{base}/class", "0x030200\n")
        self.write(f"{base}/vendor", "0x10de\n")
        self.write(f"{base}/config", config)
        lines = ["0x00000000d0000000 0x00000000d3ffffff 0x0000000000040200"]
        lines.append("0x0000020000000000 0x0000021fffffffff 0x000000000014220c")
        self.write(f"{base}/resource", "\n".join(lines) + "\n")

    @staticmethod
    def _bar1(index: int, mib: int) -> str:
        return (
            f"GPU {bus(index)}\n    Product Name                          : {CARD}\n"
            "    FB Memory Usage\n        Total                             : 97887 MiB\n"
            f"    BAR1 Memory Usage\n        Total                             : {mib} MiB\n"
            "        Used                              : 1 MiB\n\n"
        )

    def bar1(self, mib: int) -> None:
        """The size that -q tells for every card."""
        self.write("/usr/share/smi/q", "".join(self._bar1(i, mib) for i in range(self.count)))


def package(name: str, version: str, state: str = "install ok installed", provides: str = "") -> str:
    """A stanza of /var/lib/dpkg/status."""
    extra = f"Provides: {provides}\n" if provides else ""
    return f"Package: {name}\nStatus: {state}\nPriority: optional\nVersion: {version}\n{extra}Description: x\n more\n\n"

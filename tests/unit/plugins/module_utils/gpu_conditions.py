"""Conditions of a GPU host, and wishes of its operator, each with the finding that must come of it."""

from __future__ import annotations

import typing as t

from gpu_tree import Tree, gpu_row, uuid


def _no_driver(tree: Tree) -> None:
    tree.remove("/usr/bin/nvidia-smi")
    tree.remove("/proc/driver/nvidia/version")


def _registry(tree: Tree, live: str) -> None:
    tree.write("/proc/driver/nvidia/params", f'RegistryDwords: "{live}"\n')


def _vm_conf(tree: Tree, name: str, text: str) -> None:
    tree.write(f"/etc/pve/qemu-server/{name}.conf", text)


def _two_toolkits(tree: Tree) -> None:
    tree.nvcc("12.8.93")
    tree.nvcc("13.0.88", "/usr/local/cuda-13.0")


def _xid(tree: Tree, number: int, text: str) -> None:
    tree.dmesg(f"[  901.1] NVRM: Xid (PCI:0000:c1:00): {number}, pid='<unknown>', name=<unknown>, {text}")


# name: what is done to a healthy host, the finding that must be there, its severity, a word that its text must have
CASES: dict[str, tuple[t.Callable[[Tree], object], str, str, str]] = {
    "no driver": (_no_driver, "driver_absent", "error", "580.65.06"),
    "no user space": (lambda h: h.remove("/usr/bin/nvidia-smi"), "driver_absent", "error", "580.126.09"),
    "module not loaded": (
        lambda h: h.refuse("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"),
        "driver_not_loaded",
        "error",
        "modprobe nvidia",
    ),
    "library newer than module": (
        lambda h: h.refuse("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159"),
        "driver_mismatch",
        "error",
        "580.126.09",
    ),
    "same major, other patch": (
        lambda h: h.driver("Open Kernel Module for x86_64", "580.126.18"),
        "driver_mismatch",
        "error",
        "580.126.18",
    ),
    "two user spaces": (
        lambda h: h.write("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", ""),
        "driver_mismatch",
        "warning",
        "580.95.05",
    ),
    "closed module": (
        lambda h: h.driver("x86_64 Kernel Module", "580.126.09"),
        "driver_closed_module",
        "error",
        "open",
    ),
    "driver too old for CUDA 13": (
        lambda h: h.driver("Open Kernel Module for x86_64", "575.64.05"),
        "driver_old",
        "error",
        "580.65.06",
    ),
    "nouveau": (lambda h: h.write("/proc/modules", "nouveau 1 0 - Live 0x0\n"), "nouveau_loaded", "error", "blacklist"),
    "no devices": (lambda h: h.refuse("No devices were found"), "gpus_none", "error", "nvidia0"),
    "one card of two": (lambda h: h.cards(gpu_row(0)), "gpus_too_few", "error", "2"),
    "a Hopper card": (
        lambda h: h.cards(gpu_row(0), gpu_row(1, name="NVIDIA H200", cc="9.0")),
        "gpu_not_sm120",
        "error",
        "H200",
    ),
    "capability not told": (
        lambda h: h.cards(gpu_row(0), gpu_row(1, cc="[N/A]")),
        "gpu_capability_unknown",
        "warning",
        "GPU 1",
    ),
    "mixed memory": (
        lambda h: h.cards(gpu_row(0), gpu_row(1, name="NVIDIA GeForce RTX 5090", total="32607 MiB")),
        "gpus_mixed",
        "warning",
        "32607",
    ),
    "BAR1 of 256 MiB": (lambda h: h.bar1(256), "gpu_bar1_small", "warning", "256 MiB"),
    "x8 in a x16 slot": (lambda h: h.cards(gpu_row(0), gpu_row(1, width="8")), "gpu_pcie_width", "warning", "x8"),
    "generation 1 under load": (
        lambda h: h.cards(gpu_row(0), gpu_row(1, gen="1", util="97 %")),
        "gpu_pcie_generation",
        "warning",
        "generation 1",
    ),
    "persistence off": (
        lambda h: h.cards(gpu_row(0, persistence="Disabled"), gpu_row(1)),
        "gpu_persistence_off",
        "advice",
        "GPU 0",
    ),
    "MIG on": (lambda h: h.cards(gpu_row(0, mig="Enabled"), gpu_row(1)), "gpu_mig_on", "error", "-mig 0"),
    "compute prohibited": (
        lambda h: h.cards(gpu_row(0, mode="Prohibited"), gpu_row(1)),
        "gpu_compute_prohibited",
        "error",
        "DEFAULT",
    ),
    "a card fell off": (
        lambda h: h.refuse("Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"),
        "gpu_lost",
        "error",
        "power",
    ),
    "config space all ones": (lambda h: h.card("0000:01:00.0", b"\xff" * 64), "gpu_lost", "error", "0000:01:00.0"),
    "config space after a reset that never returned": (
        lambda h: h.card("0000:01:00.0", b"\x01\x00\xff\xff" + b"\xff" * 60),
        "gpu_lost",
        "error",
        "0000:01:00.0",
    ),
    "memory held by nobody": (
        lambda h: h.cards(gpu_row(0, used="624 MiB", util="100 %"), gpu_row(1)),
        "gpu_wedged",
        "warning",
        "624",
    ),
    "memory held by another guest": (
        lambda h: (h.container(), h.cards(gpu_row(0, used="71000 MiB"), gpu_row(1))),
        "gpu_held_elsewhere",
        "warning",
        "hypervisor",
    ),
    "an orphan": (
        lambda h: (
            h.cards(gpu_row(0, used="71000 MiB"), gpu_row(1)),
            h.apps(f"{uuid(0)}, 4242, sglang::scheduler_TP0, 70990 MiB"),
            h.process(4242, 1),
        ),
        "gpu_orphan",
        "warning",
        "kill 4242",
    ),
    "memory being given back": (
        lambda h: (
            h.cards(gpu_row(0, used="71000 MiB"), gpu_row(1)),
            h.apps(f"{uuid(0)}, 4242, python, 70990 MiB"),
            h.process(4242, 1, "D"),
        ),
        "gpu_releasing",
        "warning",
        "4242",
    ),
    "no nvidia-uvm": (lambda h: h.remove("/dev/nvidia-uvm"), "device_node_missing", "error", "nvidia-modprobe"),
    "no nvidia-uvm in a container": (
        lambda h: (h.container(), h.remove("/dev/nvidia-uvm")),
        "device_node_missing",
        "error",
        "pct set",
    ),
    "major moved": (
        lambda h: h.write(
            "/proc/devices", "Character devices:\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  8 sd\n"
        ),
        "device_major_stale",
        "error",
        "511",
    ),
    "nodes for root alone": (lambda h: h.write("/dev/nvidia0", "", 0o660), "device_node_mode", "error", "mode=0666"),
    "no nvcc": (lambda h: h.remove("/usr/local/cuda/bin/nvcc"), "nvcc_absent", "error", "cuda-toolkit"),
    "nvcc off the path": (
        lambda h: (h.remove("/usr/local/cuda/bin/nvcc"), h.nvcc("13.0.88", "/usr/local/cuda-13.0")),
        "nvcc_absent",
        "error",
        "/usr/local/cuda-13.0/bin",
    ),
    "nvcc 12.8": (lambda h: h.nvcc("12.8.93"), "nvcc_old", "error", "12.9"),
    "nvcc 12.8 first, 13.0 behind it": (_two_toolkits, "nvcc_old", "error", "cuda-13.0/bin"),
    "nvcc 13.2": (lambda h: h.nvcc("13.2.51"), "cuda_13_2", "warning", "13.0"),
    "another distribution": (
        lambda h: h.write("/etc/os-release", 'ID=fedora\nVERSION_ID=43\nPRETTY_NAME="Fedora 43"\n'),
        "os_unsupported",
        "warning",
        "Fedora 43",
    ),
    "no suitable python": (lambda h: h.remove("/usr/bin/python3.12"), "python_absent", "advice", "uv"),
    "container limited to 8 GiB": (
        lambda h: h.write("/sys/fs/cgroup/memory.max", str(8 << 30)),
        "memory_low",
        "error",
        "8.0 GiB",
    ),
    "8 GiB of main memory": (
        lambda h: h.write("/proc/meminfo", "MemTotal: 8388608 kB\n"),
        "memory_low",
        "error",
        "main memory",
    ),
    "governor": (
        lambda h: h.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
        "governor",
        "advice",
        "powersave on 1",
    ),
    "NUMA balancing": (
        lambda h: h.write("/proc/sys/kernel/numa_balancing", "1\n"),
        "numa_balancing",
        "advice",
        "sysctl",
    ),
    "cgroup version 1": (
        lambda h: h.write("/proc/self/cgroup", "9:memory:/user.slice\n1:name=systemd:/\n"),
        "cgroup_v1",
        "advice",
        "unified",
    ),
    "ZFS cache without a limit": (
        lambda h: h.write("/proc/modules", "zfs 1 0 - Live 0x0\n"),
        "zfs_arc_uncapped",
        "advice",
        "zfs_arc_max",
    ),
    "iommu off": (lambda h: h.cmdline("iommu=off amd_iommu=off"), "iommu_off", "advice", "iommu=pt"),
    "iommu off and a VM with a card": (
        lambda h: (h.cmdline("iommu=pt amd_iommu=off"), _vm_conf(h, "140", "name: win\nhostpci0: 0000:c1:00,pcie=1\n")),
        "iommu_off_with_vms",
        "error",
        "140",
    ),
    "iommu translates": (lambda h: h.cmdline(""), "iommu_not_passthrough", "advice", "iommu=pt"),
    "amd_iommu=pt": (lambda h: h.cmdline("iommu=pt amd_iommu=pt"), "amd_iommu_folklore", "advice", "amd_iommu=pt"),
    "pci=noacs": (lambda h: h.cmdline("iommu=pt pci=realloc,noacs"), "pci_noacs_folklore", "advice", "setpci"),
    "acs override": (
        lambda h: h.cmdline("iommu=pt pcie_acs_override=downstream,multifunction"),
        "acs_override",
        "warning",
        "downstream",
    ),
    "ACS redirects": (lambda h: h.bridge("0000:00:01.1", 0b11101), "acs_redirect", "warning", "0000:00:01.1"),
    "vfio by model": (
        lambda h: h.cmdline("iommu=pt vfio-pci.ids=10de:2bb5,10de:22e8"),
        "vfio_ids",
        "warning",
        "driver_override",
    ),
    "vfio by model in modprobe.d": (
        lambda h: h.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:2bb5 disable_vga=1\n"),
        "vfio_ids",
        "warning",
        "driver_override",
    ),
    "mitigations off": (lambda h: h.cmdline("iommu=pt mitigations=off"), "mitigations_off", "advice", "guests"),
    "initcall blacklist": (
        lambda h: h.cmdline("iommu=pt initcall_blacklist=sysfb_init"),
        "initcall_blacklist",
        "advice",
        "sysfb_init",
    ),
    "half of the ASPM remedy": (
        lambda h: h.cmdline("iommu=pt pcie_aspm=off"),
        "aspm_half",
        "advice",
        "pcie_port_pm=off",
    ),
    "HMM on": (
        lambda h: h.write("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n"),
        "uvm_hmm",
        "warning",
        "uvm_disable_hmm=1",
    ),
    "HMM off in modprobe.d only": (
        lambda h: (
            h.write("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n"),
            h.write("/etc/modprobe.d/nvidia.conf", "options nvidia_uvm uvm_disable_hmm=1\n"),
        ),
        "uvm_hmm",
        "warning",
        "not in force",
    ),
    "ForceP2P behind a switch": (
        lambda h: _registry(h, "ForceP2P=0x11;RMForceP2PType=1"),
        "force_p2p_on_switch",
        "warning",
        "PIX",
    ),
    "registry words not in force": (
        lambda h: h.write(
            "/etc/modprobe.d/nvidia.conf", 'options nvidia NVreg_RegistryDwords="ForceP2P=0x11;RMPcieP2PType=2"\n'
        ),
        "registry_not_in_force",
        "warning",
        "initramfs",
    ),
    "D3cold allowed for a vfio card": (
        lambda h: (
            h.card("0000:c1:00.0"),
            h.link("/sys/bus/pci/devices/0000:c1:00.0/driver", "../../drivers/vfio-pci"),
            h.write("/sys/bus/pci/devices/0000:c1:00.0/d3cold_allowed", "1\n"),
        ),
        "d3cold",
        "warning",
        "0000:c1:00.0",
    ),
    "Xid 8": (lambda h: _xid(h, 8, "Channel 00000008"), "xid_reset", "warning", "Xid 8"),
    "Xid 13": (lambda h: _xid(h, 13, "Graphics Exception"), "xid_application", "advice", "Xid 13"),
    "Xid 31": (lambda h: _xid(h, 31, "MMU Fault"), "xid_application", "advice", "Xid 31"),
    "Xid 62": (lambda h: _xid(h, 62, "halt"), "xid_reset", "warning", "Xid 62"),
    "Xid 63": (lambda h: _xid(h, 63, "Row remapper"), "xid_watch", "advice", "Xid 63"),
    "Xid 79": (lambda h: _xid(h, 79, "GPU has fallen off the bus."), "xid_power", "error", "fallen off the bus"),
    "Xid 109": (lambda h: _xid(h, 109, "CTX SWITCH TIMEOUT"), "xid_reset", "warning", "Xid 109"),
    "Xid 119": (lambda h: _xid(h, 119, "Timeout waiting for RPC from GSP!"), "xid_reset", "warning", "GSP"),
    "Xid 154": (lambda h: _xid(h, 154, "GPU recovery action changed"), "xid_reset", "warning", "Xid 154"),
    "a Xid that no table knows": (lambda h: _xid(h, 999, "?"), "xid_watch", "advice", "not in the table"),
    "RC watchdog": (
        lambda h: h.dmesg("NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7"),
        "event_rc_watchdog",
        "warning",
        "locked",
    ),
    "API mismatch": (
        lambda h: h.dmesg("NVRM: API mismatch: the client has the version 570.148.08, but", "NVRM: this kernel module"),
        "event_api_mismatch",
        "warning",
        "570.148.08",
    ),
    "invalid BAR": (
        lambda h: h.dmesg("NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", "NVRM: BAR1 is 0M"),
        "event_bar_invalid",
        "error",
        "X-PciMmio64Mb",
    ),
    "FLR timeout": (
        lambda h: h.dmesg("vfio-pci 0000:c1:00.0: not ready 65535ms after FLR; giving up"),
        "event_flr_timeout",
        "error",
        "65535ms",
    ),
    "WPR2": (
        lambda h: h.dmesg("NVRM: unexpected WPR2 already up, cannot proceed with booting GSP"),
        "event_wpr2",
        "error",
        "power",
    ),
    "surprise link down": (
        lambda h: h.dmesg("pcieport 0000:40:01.1: AER: aer_uncor_status: 0x00000020"),
        "event_surprise_down",
        "warning",
        "pcie_port_pm=off",
    ),
    "fatal PCIe error": (
        lambda h: h.dmesg(
            "pcieport 0000:40:01.1: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer"
        ),
        "event_aer_fatal",
        "warning",
        "risers",
    ),
    "unknown pci= option": (
        lambda h: h.dmesg("PCI: Unknown option `noacs'"),
        "event_unknown_pci_option",
        "advice",
        "noacs",
    ),
    "vfio cannot bind": (
        lambda h: h.dmesg("can't unbind PCI group from VFIO"),
        "event_vfio_bind",
        "warning",
        "nvidia-persistenced",
    ),
    "OOM kill": (
        lambda h: h.dmesg("Memory cgroup out of memory: Killed process 3122 (cicc) total-vm:8000000kB"),
        "event_oom_kill",
        "warning",
        "cicc",
    ),
    "adapter did not initialise": (
        lambda h: h.dmesg("NVRM: GPU 0000:c1:00.0: RmInitAdapter failed! (0x62:0x40:2477)"),
        "event_nvrm_init_failed",
        "error",
        "c1:00.0",
    ),
    "Secure Boot": (
        lambda h: h.dmesg("Loading of unsigned module nvidia is rejected"),
        "event_module_refused",
        "error",
        "mokutil",
    ),
}


# What the environment of the instances and the wishes of the operator bring.
WISHES: dict[str, tuple[dict[str, t.Any], str, str, str]] = {
    "NCCL level as a number": ({"env": {"NCCL_P2P_LEVEL": "4"}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=SYS"),
    "NCCL level 2": ({"env": {"NCCL_P2P_LEVEL": 2}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=PXB"),
    "NCCL level NODE": ({"env": {"NCCL_P2P_LEVEL": "NODE"}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=PHB"),
    "NCCL level too short": ({"env": {"NCCL_P2P_LEVEL": "LOC"}}, "nccl_level_short", "advice", "PIX"),
    "small /dev/shm": ({"shm_mib": 1 << 40}, "shm_small", "warning", "remount"),
    "full disk": ({"disks": [{"path": "/opt/sglang", "need_gib": 1e9}]}, "disk_low", "error", "/opt/sglang"),
}

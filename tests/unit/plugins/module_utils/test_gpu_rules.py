"""Conditions of a host as trees of files, each with the finding that must come of it."""

from __future__ import annotations

import datetime
import pathlib
import string
import typing as t

import jinja2
import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe, _gpu_rule, _gpu_rules
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from gpu_tree import CARD, Tree, bus, gpu_row, run_command, square, topo, uuid

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles/gpu_host"
WANTS: dict[str, t.Any] = {
    "gpus": 2,
    "compute_capabilities": ["12.0"],
    "nvcc": "12.9",
    "driver": "580.65.06",
    "pythons": ["3.12", "3.13", "3.11"],
    "memory_gib": 16,
    "shm_mib": 1,
    "user": "sglang",
    "env": {},
    "vms_with_gpus": [],
}


def judge(tree: Tree, **wants: t.Any) -> list[dict[str, t.Any]]:
    """Findings on a tree, all rules."""
    host = Host(run_command, str(tree.root))
    packages, disks = wants.pop("packages", []), wants.pop("disks", [])
    facts = _gpu_probe.read(host, packages=packages, disks=disks)
    merged = {**WANTS, "vms_with_gpus": _gpu_probe.vms_with_gpus(host), **wants}
    return _gpu_rules.findings(facts, merged)


def test_healthy_host_has_no_finding(tmp_path: pathlib.Path) -> None:
    assert judge(Tree(tmp_path)) == []


def test_healthy_container_has_no_finding(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path, 8)
    tree.container()
    assert judge(tree, gpus=8) == []


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


@pytest.mark.parametrize("name", CASES)
def test_condition_gives_its_finding(tmp_path: pathlib.Path, name: str) -> None:
    change, wanted, severity, word = CASES[name]
    tree = Tree(tmp_path)
    change(tree)
    found = [finding for finding in judge(tree) if finding["id"] == wanted]
    assert found, f"no finding {wanted}: {[finding['id'] for finding in judge(tree)]}"
    assert found[0]["severity"] == severity
    assert word in f"{found[0]['what']} {found[0]['why']} {found[0]['fix']}"
    assert found[0]["source"]


# What the environment of the instances and the wishes of the operator bring.
WISHES: dict[str, tuple[dict[str, t.Any], str, str, str]] = {
    "NCCL level as a number": ({"env": {"NCCL_P2P_LEVEL": "4"}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=SYS"),
    "NCCL level 2": ({"env": {"NCCL_P2P_LEVEL": 2}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=PXB"),
    "NCCL level NODE": ({"env": {"NCCL_P2P_LEVEL": "NODE"}}, "nccl_level_number", "warning", "NCCL_P2P_LEVEL=PHB"),
    "NCCL level too short": ({"env": {"NCCL_P2P_LEVEL": "LOC"}}, "nccl_level_short", "advice", "PIX"),
    "small /dev/shm": ({"shm_mib": 1 << 40}, "shm_small", "warning", "remount"),
    "full disk": ({"disks": [{"path": "/opt/sglang", "need_gib": 1e9}]}, "disk_low", "error", "/opt/sglang"),
}


@pytest.mark.parametrize("name", WISHES)
def test_wish_gives_its_finding(tmp_path: pathlib.Path, name: str) -> None:
    wants, wanted, severity, word = WISHES[name]
    found = [finding for finding in judge(Tree(tmp_path), **wants) if finding["id"] == wanted]
    assert [finding["severity"] for finding in found] == [severity]
    assert word in f"{found[0]['what']} {found[0]['why']} {found[0]['fix']}"


def test_every_rule_has_a_condition_that_meets_it() -> None:
    """Rules that no tree can bring about on this machine are named here, with the test that covers them."""
    covered = {case[1] for case in (*CASES.values(), *WISHES.values())}
    elsewhere = {
        "driver_timeout",  # test_facts_of_another_machine
        "driver_error",  # test_unknown_failure_is_told
        "nvcc_shadowed",  # test_newer_toolkit_beside_the_used_one
        "cuda_header_conflict",  # test_facts_of_another_machine, as the next three
        "glibc_old",
        "machine_unsupported",
        "inodes_low",
        "device_order",  # test_mixed_cards_need_an_order
        "nccl_p2p_in_vm",  # test_p2p_in_a_vm
        "event_no_iommu_passthrough",  # test_hypervisor_log
    }
    assert {rule.id for rule in _gpu_rules.RULES} - covered == elsewhere


def test_ids_are_unique_and_templates_complete() -> None:
    ids = [rule.id for rule in _gpu_rules.RULES]
    assert len(ids) == len(set(ids))
    for rule in _gpu_rules.RULES:
        assert rule.severity in _gpu_rule.SEVERITIES
        assert rule.why and rule.fix and rule.source
        list(string.Formatter().parse(rule.what + rule.fix))
        assert rule.source in _gpu_rule.SOURCES or rule.source.startswith("https://"), rule.id
    assert set(_gpu_rules.HYPERVISOR_RULES) <= set(ids)


def test_unknown_failure_is_told(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.refuse("something that nobody has seen before")
    assert [finding["what"] for finding in judge(tree) if finding["id"] == "driver_error"] == [
        "nvidia-smi fails: something that nobody has seen before"
    ]


@pytest.mark.parametrize(
    ("part", "values", "wanted", "severity"),
    [
        ("os", {"glibc": "2.27"}, "glibc_old", "error"),
        ("os", {"machine": "riscv64"}, "machine_unsupported", "error"),
        ("cuda", {"header_conflicts": ["cospi"]}, "cuda_header_conflict", "error"),
        ("smi", {"state": "timeout"}, "driver_timeout", "error"),
    ],
)
def test_facts_of_another_machine(
    tmp_path: pathlib.Path, part: str, values: dict[str, t.Any], wanted: str, severity: str
) -> None:
    facts = _gpu_probe.read(Host(run_command, str(Tree(tmp_path).root)))
    facts[part] = {**facts[part], **values}
    assert [(f["id"], f["severity"]) for f in _gpu_rules.findings(facts, WANTS)] == [(wanted, severity)]


def test_few_inodes(tmp_path: pathlib.Path) -> None:
    facts = _gpu_probe.read(
        Host(run_command, str(Tree(tmp_path).root)), disks=[{"path": "/opt/sglang", "need_gib": 0.001}]
    )
    assert _gpu_rules.findings(facts, WANTS) == []
    facts["disks"][0]["free_inodes"] = 900
    assert [f["id"] for f in _gpu_rules.findings(facts, WANTS)] == ["inodes_low"]


def test_newer_toolkit_beside_the_used_one(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.nvcc("12.9.86")
    tree.nvcc("13.0.88", "/usr/local/cuda-13.0")
    assert [finding["id"] for finding in judge(tree)] == ["nvcc_shadowed"]


def test_mixed_cards_need_an_order(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.cards(gpu_row(0), gpu_row(1, name=f"{CARD} Max-Q"))
    ids = {finding["id"] for finding in judge(tree)}
    assert {"device_order", "gpus_mixed"} <= ids
    assert "device_order" not in {f["id"] for f in judge(tree, env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})}


def test_p2p_in_a_vm(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.machine()
    assert "nccl_p2p_in_vm" in {f["id"] for f in judge(tree, env={"NCCL_P2P_LEVEL": "SYS"})}
    assert "nccl_p2p_in_vm" not in {
        f["id"] for f in judge(tree, env={"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1"})
    }


def test_hypervisor_log(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.dmesg("kvm: cannot prepare PCI pass-through, IOMMU not present")
    assert [finding["id"] for finding in judge(tree)] == ["event_no_iommu_passthrough"]


def test_idle_card_at_generation_1_says_nothing(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.cards(gpu_row(0, gen="1"), gpu_row(1, gen="1"))
    assert judge(tree) == []


def test_worker_of_a_service_is_no_orphan(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.cards(gpu_row(0, used="71000 MiB"), gpu_row(1))
    tree.apps(f"{uuid(0)}, 4242, sglang::scheduler_TP0, 70990 MiB")
    tree.process(4242, 1, cgroup="0::/system.slice/sglang-qwen.service\n")
    assert judge(tree) == []


def test_memory_of_an_own_process_that_nvidia_smi_does_not_list(tmp_path: pathlib.Path) -> None:
    """In a container nvidia-smi may list no process at all; an open device node tells that it is ours."""
    tree = Tree(tmp_path)
    tree.container()
    tree.cards(gpu_row(0, used="71000 MiB"), gpu_row(1))
    assert [finding["id"] for finding in judge(tree)] == ["gpu_held_elsewhere"]
    tree.link("/proc/4242/fd/7", "/dev/nvidia0")
    assert judge(tree) == []
    tree.write("/proc/4242/comm", "nvidia-persiste\n")
    assert [finding["id"] for finding in judge(tree)] == ["gpu_held_elsewhere"]


def test_single_card_has_no_fabric(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path, 1)
    tree.cmdline("")
    tree.write("/sys/module/nvidia_uvm/parameters/uvm_disable_hmm", "N\n")
    assert judge(tree, gpus=1) == []


def test_disk_with_a_release_is_only_a_warning(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.write("/opt/sglang/releases/20260101T000000Z-abc/release.json", "{}")
    found = judge(tree, disks=[{"path": "/opt/sglang", "need_gib": 1e9}])
    assert [(finding["id"], finding["severity"]) for finding in found] == [("disk_low", "warning")]


def test_exception_turns_an_error_into_advice(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.driver("x86_64 Kernel Module", "580.126.09")
    facts = _gpu_probe.read(Host(run_command, str(tmp_path)))
    entry = {"id": "driver_closed_module", "reason": "trial of the vendor", "until": "2026-12-31"}
    before = _gpu_rules.findings(facts, WANTS, [entry], today=datetime.date(2026, 12, 31))
    assert [(f["severity"], f["excepted"]) for f in before] == [
        ("advice", {"reason": "trial of the vendor", "until": "2026-12-31", "was": "error"})
    ]
    assert _gpu_rule.message(before) == ""
    after = _gpu_rules.findings(facts, WANTS, [entry], today=datetime.date(2027, 1, 1))
    assert [f["id"] for f in after] == ["driver_closed_module", "exception_expired"]
    assert "driver_closed_module" in _gpu_rule.message(after)


def test_message_names_every_error_with_its_fix(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.cards(gpu_row(0, cc="9.0"), gpu_row(1, cc="9.0"))
    tree.nvcc("12.8.93")
    tree.write("/proc/meminfo", "MemTotal: 8388608 kB\n")
    text = _gpu_rule.message(judge(tree), "sglang1")
    assert text.startswith("sglang1: 3 things must be put right")
    assert [line.split("[")[-1] for line in text.splitlines()[1:]] == ["gpu_not_sm120]", "nvcc_old]", "memory_low]"]
    assert all("Fix: " in line for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("links", "numa", "profile", "level"),
    [
        (square(2, "PIX"), [0, 0], "pix", "PIX"),
        (square(4, "PXB"), [0, 0, 0, 0], "pxb", "PXB"),
        (square(2, "NODE"), [0, 0], "node", "PHB"),
        ([["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]], [0, 0, 1], "sys-2s", "SYS"),
        (square(2, "NV18"), [0, 0], "nv18", "NVL"),
    ],
)
def test_nccl_environment_follows_the_farthest_pair(
    tmp_path: pathlib.Path, links: list[list[str]], numa: list[int], profile: str, level: str
) -> None:
    tree = Tree(tmp_path, len(links))
    tree.write("/usr/share/smi/topo", topo(links, numa))
    chosen = _gpu_probe.read(Host(run_command, str(tmp_path)))["nccl"]
    assert (chosen["profile"], chosen["env"]["NCCL_P2P_LEVEL"]) == (profile, level)
    assert set(chosen["why"]) == set(chosen["env"])


def test_nccl_environment_of_a_vm_turns_p2p_off(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path)
    tree.machine()
    chosen = _gpu_probe.read(Host(run_command, str(tmp_path)))["nccl"]
    assert chosen["env"]["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_LEVEL" not in chosen["env"]


def test_the_drop_in_is_read_as_it_is_written(tmp_path: pathlib.Path) -> None:
    template = (ROLE / "templates/nccl.conf.j2").read_text()
    chosen: dict[str, dict[str, str]] = {"env": {"NCCL_P2P_LEVEL": "SYS", "NCCL_IB_DISABLE": "1"}, "why": {}}
    chosen["why"] = {"NCCL_P2P_LEVEL": "far apart", "NCCL_IB_DISABLE": "one host"}
    text = jinja2.Template(template, trim_blocks=True).render(
        __gpu_host_nccl_wanted=chosen["env"], gpu_host_result={"nccl": chosen}
    )
    tree = Tree(tmp_path)
    assert _gpu_probe.read(Host(run_command, str(tmp_path)))["nccl"]["installed"] == {}
    tree.write("/etc/systemd/system/sglang-.service.d/10-nccl.conf", text)
    assert _gpu_probe.read(Host(run_command, str(tmp_path)))["nccl"]["installed"] == chosen["env"]
    assert "# far apart\n" in text


def test_probe_reads_sizes_from_sysfs_before_asking_nvidia_smi(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path, 1)
    tree.bar1(256)
    tree.card("0000:01:00.0")
    facts = _gpu_probe.read(Host(run_command, str(tmp_path)))
    assert facts["gpus"][0]["bus_id"] == "0000:01:00.0"
    assert bus(0).endswith("01:00.0")
    assert facts["gpus"][0]["bar1_mib"] == 131072

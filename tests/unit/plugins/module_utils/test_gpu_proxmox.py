"""Guests of a Proxmox VE host: their configurations, and the line that gives them what they lack."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_guest as guest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_hypervisor as hypervisor
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from gpu_tree import Tree, run_command
from hypothesis import given
from hypothesis import strategies as st

NODES = {
    "/dev/nvidia0": (195, 0),
    "/dev/nvidia1": (195, 1),
    "/dev/nvidiactl": (195, 255),
    "/dev/nvidia-uvm": (511, 0),
    "/dev/nvidia-uvm-tools": (511, 1),
}
HEAD = "arch: amd64\ncores: 32\nhostname: sglang1\nmemory: 262144\nunprivileged: 1\n"
DEV = (
    HEAD + "dev0: /dev/nvidia0,mode=0666\ndev1: path=/dev/nvidia1,gid=44,mode=0660\n"
    "dev2: /dev/nvidiactl,mode=0666\ndev3: /dev/nvidia-uvm,mode=0666\n"
)
OLD = (
    HEAD + "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c {uvm}:* rwm\n"
    "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidiactl dev/nvidiactl none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file\n"
)


def test_devices_of_the_new_style() -> None:
    found = guest.container(129, DEV, NODES, 2)
    assert (found["missing"], found["fix"], found["style"], found["warnings"]) == ([], "", "dev", [])
    assert found["devices"] == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]


def test_devices_of_the_old_style() -> None:
    found = guest.container(129, OLD.format(uvm=511), NODES, 2)
    assert (found["missing"], found["style"]) == ([], "mount")


def test_bare_container_gets_the_whole_line() -> None:
    found = guest.container(129, HEAD, NODES, 2)
    assert found["missing"] == [
        "/dev/nvidiactl is not given to the guest",
        "/dev/nvidia-uvm is not given to the guest",
        "0 of the 2 GPUs that it needs are given to it",
    ]
    assert found["fix"] == (
        "pct set 129 --dev0 /dev/nvidiactl,mode=0666 --dev1 /dev/nvidia-uvm,mode=0666 --dev2 /dev/nvidia0,mode=0666"
        " --dev3 /dev/nvidia1,mode=0666 --dev4 /dev/nvidia-uvm-tools,mode=0666"
    )


def test_free_numbers_are_used() -> None:
    found = guest.container(129, DEV.replace("dev1: path=/dev/nvidia1,gid=44,mode=0660\n", ""), NODES, 2)
    assert found["missing"] == ["1 of the 2 GPUs that it needs are given to it"]
    assert found["fix"] == "pct set 129 --dev1 /dev/nvidia1,mode=0666 --dev4 /dev/nvidia-uvm-tools,mode=0666"


def test_stale_major_of_the_old_style() -> None:
    found = guest.container(129, OLD.format(uvm=508), NODES, 2)
    assert found["missing"] == [
        "/dev/nvidia-uvm is mounted, but its device number 511:0 is not allowed (allowed majors: 195, 508)"
    ]
    lines = found["fix"].splitlines()
    assert lines[0].startswith("pct set 129 --dev0 /dev/nvidia-uvm,mode=0666")
    assert "/etc/pve/lxc/129.conf" in lines[1]
    assert lines[2] == "pct reboot 129"


def test_node_that_is_missing_on_the_hypervisor() -> None:
    nodes = {path: number for path, number in NODES.items() if "uvm" not in path}
    found = guest.container(129, DEV, nodes, 2)
    assert found["missing"] == ["/dev/nvidia-uvm is configured (dev3) but is not there on the hypervisor"]
    assert found["fix"].startswith("nvidia-smi; nvidia-modprobe")


def test_more_gpus_wanted_than_there_are() -> None:
    found = guest.container(129, DEV, NODES, 8)
    assert found["missing"][-1] == "the hypervisor has only 2 GPU nodes"


def test_mode_for_root_alone_warns_with_the_line() -> None:
    text = DEV.replace("dev0: /dev/nvidia0,mode=0666", "dev0: /dev/nvidia0")
    warned = guest.container(129, text, NODES, 2)["warnings"]
    assert len(warned) == 1
    assert warned[0].endswith("pct set 129 --dev0 /dev/nvidia0,mode=0666")
    assert guest.container(129, text, NODES, 2, user="root")["warnings"] == []


def test_snapshots_do_not_hold_and_pending_changes_wait() -> None:
    text = HEAD + "[pve:pending]\ndev0: /dev/nvidia0,mode=0666\n[before]\ndev1: /dev/nvidia1\n"
    current, pending = pve.config(text)
    assert pve.entries(current) == []
    assert pending == [("dev0", "/dev/nvidia0,mode=0666")]
    assert any("stopped and started" in word for word in guest.container(1, text, NODES, 1)["warnings"])


@pytest.mark.parametrize(
    ("rule", "major", "minor", "allowed"),
    [
        ("c 195:* rwm", 195, 7, True),
        ("c 195:7 rw", 195, 7, True),
        ("c 195:6 rwm", 195, 7, False),
        ("c *:* rwm", 511, 0, True),
        ("c 195:* r", 195, 0, False),
        ("b 195:* rwm", 195, 0, False),
        ("a", 1, 1, True),
        ("nonsense", 1, 1, False),
    ],
)
def test_device_rules(rule: str, major: int, minor: int, allowed: bool) -> None:
    assert pve.allows([("lxc.cgroup2.devices.allow", rule)], major, minor) is allowed


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 15), max_size=12))
def test_dev_entries_round_trip(drawn: dict[int, int]) -> None:
    text = "".join(f"dev{key}: /dev/nvidia{number},mode=0666\n" for key, number in drawn.items())
    found = pve.entries(pve.config(text)[0])
    assert [(entry.key, entry.path, entry.mode) for entry in found] == [
        (f"dev{key}", f"/dev/nvidia{number}", "0666") for key, number in drawn.items()
    ]
    free = next(iter(pve.free_keys(pve.config(text)[0])))
    assert free not in {entry.key for entry in found}


@given(st.text(max_size=300))
def test_any_configuration_can_be_judged(text: str) -> None:
    found = guest.container(1, text, NODES, 1)
    assert bool(found["missing"]) == bool(found["fix"])
    assert isinstance(guest.machine(1, text, 1, {})["missing"], list)


def test_hostpci_of_a_vm() -> None:
    text = (
        "name: win\nhostpci0: 0000:c1:00,pcie=1\nhostpci1: mapping=rtx,pcie=1\nhostpci2: host=41:00.0;42:00,x-vga=1\n"
    )
    assert [(card["key"], card["address"], card["mapping"]) for card in pve.hostpci(pve.config(text)[0])] == [
        ("hostpci0", "0000:c1:00", None),
        ("hostpci1", "", "rtx"),
        ("hostpci2", "0000:41:00", None),
        ("hostpci2", "0000:42:00", None),
    ]
    assert guest.machine(140, text, 4, {})["missing"] == []
    lacking = guest.machine(140, "name: win\n", 1, {"0000:c1:00": "/dev/nvidia0"})
    assert lacking["fix"].startswith("qm set 140 --hostpci0 0000:c1:00,pcie=1")


def test_states_of_both_lists() -> None:
    lxc = (
        "VMID       Status     Lock         Name                \n"
        "129        running                 sglang1\n"
        "130        stopped    backup       b\n"
    )
    assert pve.listing(lxc) == {129: "running", 130: "stopped"}
    qemu = (
        "      VMID NAME                 STATUS     MEM(MB)    BOOTDISK(GB) PID       \n"
        "       140 my win               running    8192              32.00 812       \n"
    )
    assert pve.listing(qemu) == {140: "running"}


def _hypervisor(root: pathlib.Path, conf: str, running: str = "running") -> Tree:
    tree = Tree(root)
    tree.write("/etc/pve/lxc/129.conf", conf)
    listing = f"VMID       Status     Lock         Name\n129        {running}                 sglang1"
    tree.write("/usr/sbin/pct", f"#!/bin/sh\ncat <<'END'\n{listing}\nEND\n", 0o755)
    for index in range(2):
        tree.write(
            f"/proc/driver/nvidia/gpus/0000:0{index + 1}:00.0/information", f"Model: x\nDevice Minor: \t {index}\n"
        )
    return tree


def _entry(**changes: t.Any) -> dict[str, t.Any]:
    return {"vmid": 129, "kind": "lxc", "host": "sglang1", "gpus": 2, "user": "sglang", **changes}


def test_hypervisor_with_a_good_guest(tmp_path: pathlib.Path) -> None:
    _hypervisor(tmp_path, DEV)
    result = hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])
    assert (result["ok"], result["message"]) == (True, "")
    assert result["guests"][0]["running"] is True


def test_stopped_guest_and_missing_device_are_one_message(tmp_path: pathlib.Path) -> None:
    _hypervisor(tmp_path, DEV.replace("dev3: /dev/nvidia-uvm,mode=0666\n", ""), "stopped")
    result = hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])
    assert result["ok"] is False
    assert result["message"].splitlines() == [
        "sglang1 (guest 129, lxc): /dev/nvidia-uvm is not given to the guest; the guest is stopped.",
        "  On the hypervisor, as root:",
        "    pct set 129 --dev3 /dev/nvidia-uvm,mode=0666",
        "    pct start 129",
    ]


def test_guest_of_another_node(tmp_path: pathlib.Path) -> None:
    tree = _hypervisor(tmp_path, DEV)
    tree.write("/etc/pve/nodes/pve2/lxc/131.conf", DEV)
    result = hypervisor.read(Host(run_command, str(tmp_path)), [_entry(vmid=131)])
    assert result["guests"][0]["missing"] == ["no guest 131 of kind lxc on this node, it is on pve2"]


def test_host_without_proxmox(tmp_path: pathlib.Path) -> None:
    Tree(tmp_path)
    result = hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])
    assert "no Proxmox VE host" in result["message"]


def test_vm_that_would_take_the_card_away(tmp_path: pathlib.Path) -> None:
    tree = _hypervisor(tmp_path, DEV)
    tree.write("/etc/pve/qemu-server/140.conf", "name: win\nonboot: 1\nhostpci0: 0000:02:00,pcie=1\n")
    warnings = hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])["guests"][0]["warnings"]
    assert warnings == ["VM 140 starts at boot and takes /dev/nvidia1 away (hostpci): remove it there, or set onboot 0"]


def test_iommu_off_blocks_a_hypervisor_with_vms(tmp_path: pathlib.Path) -> None:
    tree = _hypervisor(tmp_path, DEV)
    tree.cmdline("iommu=off")
    assert hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])["ok"] is True
    tree.write("/etc/pve/qemu-server/140.conf", "hostpci0: 0000:0a:00,pcie=1\n")
    result = hypervisor.read(Host(run_command, str(tmp_path)), [_entry()])
    assert result["ok"] is False
    assert "iommu_off_with_vms" in result["message"]

"""Parsers of what nvidia-smi, the kernel and the system print."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_events as events
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_kernel as kernel
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_smi as smi
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_system as system
from gpu_tree import APPS_HEAD, QUERY_HEAD, gpu_row, package, square, topo, uuid
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(max_size=400)


def test_gpu_of_a_line() -> None:
    cards = smi.gpus("\n".join([QUERY_HEAD, gpu_row(0), gpu_row(3, used="71234 MiB", persistence="[N/A]")]))
    assert [card["index"] for card in cards] == [0, 3]
    assert cards[1]["used_mib"] == 71234
    assert cards[1]["bus_id"] == "0000:04:00.0"
    assert cards[1]["persistence"] is None
    assert cards[0]["pcie"] == {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16}


def test_line_of_a_lost_card_is_left_out() -> None:
    text = "\n".join([QUERY_HEAD, gpu_row(0), "[GPU is lost], [GPU is lost]"])
    assert len(smi.gpus(text)) == 1
    assert smi.state(0, text) == "lost"


def test_process_name_with_commas() -> None:
    rows = f"{APPS_HEAD}\n{uuid(1)}, 77, python -c a,b,c, 512 MiB\n{uuid(0)}, 78, x, [N/A]\n"
    cards = [{"uuid": uuid(0), "index": 0}, {"uuid": uuid(1), "index": 1}]
    found = smi.processes(rows, cards)
    assert [(p["gpu"], p["pid"], p["name"], p["used_mib"]) for p in found] == [
        (1, 77, "python -c a, b, c", 512),
        (0, 78, "x", None),
    ]


@pytest.mark.parametrize(
    ("rc", "text", "state"),
    [
        (None, "", "absent"),
        (0, "index, name", "ok"),
        (124, "", "timeout"),
        (18, "Failed to initialize NVML: Driver/library version mismatch", "mismatch"),
        (9, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "no_library"),
        (6, "No devices were found", "no_devices"),
        (4, "Failed to initialize NVML: Insufficient Permissions", "no_permission"),
        (1, "Segmentation fault", "error"),
    ],
)
def test_states_of_nvidia_smi(rc: int | None, text: str, state: str) -> None:
    assert smi.state(rc, text) == state


def test_topology_with_network_cards_between() -> None:
    text = (
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNODE\tPHB\t0-31\t0\t\tN/A\nGPU1\tNODE\t X \tPIX\t0-31\t0\t\tN/A\nNIC0\tPHB\tPIX\t X \t\t\t\t\n"
    )
    found = smi.topology(text)
    assert found == {
        "gpus": ["GPU0", "GPU1"],
        "links": [["X", "NODE"], ["NODE", "X"]],
        "numa": [0, 0],
        "worst": "NODE",
        "sockets": 1,
    }


@given(st.integers(1, 8), st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", "NV12"]), st.integers(0, 3))
def test_topology_gives_back_what_was_drawn(count: int, link: str, node: int) -> None:
    found = smi.topology(topo(square(count, link), [node] * count))
    assert found["links"] == square(count, link)
    assert found["numa"] == [node] * count
    assert found["worst"] == (link if count > 1 else None)


@given(TEXT)
def test_parsers_take_any_text(text: str) -> None:
    assert isinstance(smi.gpus(text), list)
    assert isinstance(smi.processes(text), list)
    assert smi.topology(text)["worst"] is None or smi.distance(smi.topology(text)["worst"]) is not None
    assert isinstance(smi.bar1(text), dict)
    assert kernel.driver(text) is None or kernel.driver(text)
    assert isinstance(kernel.cmdline(text), list)
    assert isinstance(kernel.modprobe({"a.conf": text}), dict)
    assert isinstance(kernel.majors(text), dict)
    assert isinstance(system.dpkg(text), dict)
    assert isinstance(events.read(text)["xid"], list)


@pytest.mark.parametrize(
    ("text", "version", "is_open"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22", "550.54.14", False),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build", "590.48.01", True),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95  Release", "580.95", True),
    ],
)
def test_both_texts_of_the_kernel_module(text: str, version: str, is_open: bool) -> None:
    assert kernel.driver(text) == {"version": version, "open": is_open}


def test_library_versions() -> None:
    names = [
        "libcuda.so",
        "libcuda.so.1",
        "libcuda.so.580.126.09",
        "libnvidia-ml.so.580.126.09",
        "libcudart.so.13.0.96",
    ]
    assert kernel.library_version(names) == ["580.126.09"]


def test_modprobe_options_and_blacklist() -> None:
    files = {
        "b.conf": 'options nvidia NVreg_RegistryDwords="ForceP2P=0x11;RMForceP2PType=1"\nblacklist nouveau # why\n',
        "a.conf": "# options nvidia x=1\noptions nvidia-uvm \\\n uvm_disable_hmm=1\n",
    }
    assert kernel.modprobe(files) == {
        "nvidia_uvm": {"uvm_disable_hmm": "1"},
        "nvidia": {"NVreg_RegistryDwords": "ForceP2P=0x11;RMForceP2PType=1"},
    }
    assert kernel.blacklisted(files) == ["nouveau"]
    assert kernel.registry_words("ForceP2P=0x11;RMForceP2PType=1;") == {"ForceP2P": "0x11", "RMForceP2PType": "1"}


def test_majors_of_character_devices_only() -> None:
    text = "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  8 sd\n511 other\n"
    assert kernel.majors(text) == {"mem": 1, "nvidia": 195, "nvidia-uvm": 511}


@given(st.integers(0, 0xFFFF), st.lists(st.integers(1, 0x30), max_size=5), st.integers(0, 5))
def test_acs_is_found_wherever_it_stands(control: int, others: list[int], place: int) -> None:
    """A chain of extended capabilities with ACS (13) somewhere in it, 16 bytes apart."""
    chain = [other if other != kernel.ACS_CAPABILITY else 1 for other in others]
    chain.insert(min(place, len(chain)), kernel.ACS_CAPABILITY)
    config = bytearray(4096)
    for number, capability in enumerate(chain):
        offset = 0x100 + number * 16
        following = offset + 16 if number + 1 < len(chain) else 0
        config[offset : offset + 4] = (capability | 1 << 16 | following << 20).to_bytes(4, "little")
        if capability == kernel.ACS_CAPABILITY:
            config[offset + 6 : offset + 8] = control.to_bytes(2, "little")
    assert kernel.acs_control(bytes(config)) == control
    assert kernel.acs_redirects(control) == bool(control & 4)


@given(st.binary(max_size=600))
def test_acs_reader_takes_any_bytes(config: bytes) -> None:
    found = kernel.acs_control(config)
    assert found is None or 0 <= found <= 0xFFFF


def test_bar_sizes() -> None:
    text = (
        "0x00000000d0000000 0x00000000d3ffffff 0x40200\n0x0000020000000000 0x0000021fffffffff 0x14220c\n0x0 0x0 0x0\n"
    )
    assert [kernel.bar_mib(text, number) for number in range(4)] == [64, 131072, 0, 0]


def test_dpkg_counts_installed_packages_and_what_they_provide() -> None:
    text = (
        package("gcc", "4:12.2.0-3")
        + package("old", "1", "deinstall ok config-files")
        + package("g++-12", "12.2.0-14", provides="c++-compiler, g++ (= 12)")
    )
    have = system.dpkg(text)
    assert have == {"gcc": "4:12.2.0-3", "g++-12": "12.2.0-14", "c++-compiler": "12.2.0-14", "g++": "12.2.0-14"}
    assert system.missing(["gcc", "g++", "old", "nothing | gcc", "one | two"], have) == ["old", "one"]


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("8589934592\n", 8192), ("9223372036854771712\n", None), ("", None)]
)
def test_memory_limits(text: str, limit: int | None) -> None:
    assert system.cgroup_limit(text) == limit


def test_guests_and_services_of_cgroups() -> None:
    assert system.container_of("0::/lxc/129/ns/system.slice/sglang-qwen.service\n") == "129"
    assert system.container_of("0::/lxc.payload.130/init.scope\n") == "130"
    assert system.container_of("0::/system.slice/ssh.service\n") == ""
    assert system.unit_of("0::/lxc/129/ns/system.slice/sglang-qwen.service\n") == "sglang-qwen.service"
    assert system.own_cgroup("4:memory:/a\n0::/b\n") == (1, "/a")
    assert system.own_cgroup("0::/b\n") == (2, "/b")


@pytest.mark.parametrize(
    ("declared", "glibc", "found"),
    [
        ("double                 cospi(double x);", "2.41", ["cospi"]),
        ("double                 cospi(double x);", "2.36", []),
        ("double                 cospi(double x) __NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER;", "2.41", []),
        ("double                 rsqrt(double x);", "2.41", []),
        ("double                 rsqrt(double x);", "2.42", ["rsqrt"]),
    ],
)
def test_cuda_headers_against_glibc(declared: str, glibc: str, found: list[str]) -> None:
    header = f"extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ {declared}\n"
    assert system.header_conflicts(header, glibc) == found


def test_kinds_of_host() -> None:
    assert system.virtualization("lxc\n", "", "") == "lxc"
    assert system.virtualization("", "TERM=linux\0container=lxc\0", "") == "lxc"
    assert system.virtualization("", "", "QEMU\nStandard PC") == "vm"
    assert system.virtualization("", "", "Supermicro\n") == "none"


def test_xids_are_counted_by_card() -> None:
    text = "\n".join(
        [
            "[1.0] NVRM: Xid (PCI:0000:c1:00): 119, pid=1, name=python, Timeout after 45s of waiting for RPC",
            "[2.0] NVRM: Xid (PCI:0000:c1:00): 119, pid=1, name=python, Timeout after 45s of waiting for RPC",
            "[3.0] NVRM: Xid (PCI:0000:c2:00): 79, GPU has fallen off the bus.",
            "[4.0] nothing of interest",
        ]
    )
    found = events.read(text)
    assert [(x["number"], x["bus_id"], x["count"], x["action"]) for x in found["xid"]] == [
        (79, "0000:c2:00", 1, "power"),
        (119, "0000:c1:00", 2, "reset"),
    ]
    assert found["signs"] == []


def test_every_xid_has_an_action_of_the_list() -> None:
    assert all(
        row.action in events.ACTIONS and row.source.startswith(("https://", "NVIDIA")) for row in events.XIDS.values()
    )


def test_captures_of_a_real_server(shared: pathlib.Path) -> None:
    folder = shared / "captures" / "nvidia_smi"
    cards = smi.gpus((folder / "query_gpu.csv").read_text())
    assert [(card["name"], card["memory_mib"], card["compute_capability"]) for card in cards] == [
        ("NVIDIA H200", 143771, "9.0")
    ] * 2
    assert smi.bar1((folder / "q.txt").read_text()) == {card["bus_id"]: 262144 for card in cards}
    assert smi.topology((folder / "topo_m.txt").read_text())["worst"] == "NV18"
    assert kernel.driver((folder / "proc_driver_nvidia_version.txt").read_text()) == {
        "version": "580.159.04",
        "open": True,
    }
    assert kernel.params((folder / "proc_driver_nvidia_params.txt").read_text())["RegistryDwords"] == ""
    assert system.nvcc_version((folder / "nvcc_version.txt").read_text()) == "13.0.88"

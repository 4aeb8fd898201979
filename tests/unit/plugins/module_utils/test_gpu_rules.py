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
from gpu_conditions import CASES, WISHES
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

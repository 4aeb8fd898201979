"""Cards from a container to a VM and back, with a failure at every step."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _handover
from ansible_collections.blackwell.sglang.plugins.module_utils import _handover_steps as steps
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from handover_tree import Hypervisor

TWO = ("0000:c1:00", "7")
LIMITS = steps.Limits(shutdown=10, driver=0.5, memory=0.2)
TO_VM = [
    "shut container 101 (sglang1) down",
    "take 0000:c1:00, 0000:e1:00 from container 101 (sglang1)",
    "stop nvidia-persistenced.service",
    "see that nobody holds the cards",
    "load vfio-pci",
    *(f"bind 0000:{card}:00.{number} to vfio-pci" for card in ("c1", "e1") for number in (0, 1)),
    "start nvidia-persistenced.service for the cards of this host",
    "start container 101 (sglang1)",
    "give the cards to VM 900",
    "start VM 900",
    "see that vfio-pci has the cards",
]


@pytest.fixture
def box(tmp_path: pathlib.Path) -> t.Iterator[Hypervisor]:
    """A hypervisor."""
    made = Hypervisor(tmp_path)
    yield made
    made.close()


def order(owner: str, gpus: tuple[str, ...] = TWO, containers: tuple[int, ...] = (101,)) -> _handover.Order:
    """An order for the two cards."""
    return _handover.Order(gpus, owner, 900, containers)


def move(box: Hypervisor, asked: _handover.Order) -> steps.Outcome:
    """Plan and run."""
    state = _handover.read(box.host, asked)
    wrong, _notes = _handover.refusals(box.host, state, asked)
    assert wrong == []
    return steps.run(steps.Steps(box.run_command, box.host, state, asked, LIMITS).steps())


def refused(box: Hypervisor, asked: _handover.Order) -> str:
    """Why an order is refused."""
    return "; ".join(_handover.refusals(box.host, _handover.read(box.host, asked), asked)[0])


def test_there_and_back_ends_where_it_began(box: Hypervisor) -> None:
    before = box.snapshot()
    there = move(box, order("vm"))
    assert (there.failure, there.made) == ("", TO_VM)
    now = box.snapshot()
    assert [now[f"0000:c1:00.{number}"] for number in (0, 1)] == ["vfio-pci vfio-pci"] * 2
    assert now["0000:a1:00.0"] == "nvidia "
    assert "run/qemu/900.pid" in now and "run/ct101" in now and "dev/nvidia6" not in now
    assert "hostpci0: 0000:c1:00,pcie=1\nhostpci1: 0000:e1:00,pcie=1\n" in now["etc/pve/qemu-server/900.conf"]
    assert "/dev/nvidia6" not in now["etc/pve/lxc/101.conf"] and "/dev/nvidia5" in now["etc/pve/lxc/101.conf"]
    # Number and UUID are the NVIDIA driver's, which has them no more.
    asked = order("vm", ("0000:c1:00", "e1:00.0"))
    assert _handover.done(_handover.read(box.host, asked), asked)
    back = move(box, order("host", asked.gpus))
    assert back.failure == ""
    after = box.snapshot()
    assert after == before
    assert _handover.done(_handover.read(box.host, order("host")), order("host"))


FAILURES: dict[str, tuple[dict[str, t.Any], str]] = {
    "the container does not shut down": ({"fail": "pct-shutdown"}, TO_VM[0]),
    "its entries cannot be set": ({"fail": "pct-set"}, TO_VM[1]),
    "the first function stays": ({"fault": "unbind nvidia 0000:c1:00.0"}, TO_VM[5]),
    "the last function is not taken": ({"fault": "bind vfio-pci 0000:e1:00.1"}, TO_VM[8]),
    "the container does not start again": ({"fail": "pct-start", "late": True}, TO_VM[10]),
    "the VM refuses the cards": ({"fail": "qm-set"}, TO_VM[11]),
    "the VM does not start": ({"fail": "qm-start"}, TO_VM[12]),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_in_the_state_before(box: Hypervisor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wish, step = FAILURES[name]
    before = box.snapshot()
    if "fault" in wish:
        (box.root / "run/faults.json").write_text(json.dumps([wish["fault"]]))
    else:
        (box.root / f"run/fail-{wish['fail']}").touch()
    if wish.get("late"):
        # The way back needs the same command, so it works again once the step has failed.
        ensure = steps.Steps._ensure

        def once(self: steps.Steps, program: str, vmid: int, running: bool) -> None:
            try:
                ensure(self, program, vmid, running)
            finally:
                (box.root / f"run/fail-{wish['fail']}").unlink(missing_ok=True)

        monkeypatch.setattr(steps.Steps, "_ensure", once)
    outcome = move(box, order("vm"))
    assert outcome.failure.startswith(f"{step}: "), outcome
    assert outcome.stuck == []
    assert box.snapshot() == before


def test_the_way_back_is_undone_too(box: Hypervisor) -> None:
    assert move(box, order("vm")).failure == ""
    before = box.snapshot()
    (box.root / "run/fail-pct-set").touch()
    outcome = move(box, order("host", ("c1:00", "e1:00")))
    assert "give the cards to container 101: pct set" in outcome.failure
    assert outcome.stuck == []
    assert box.snapshot() == before


def test_what_cannot_be_taken_back_is_said(box: Hypervisor) -> None:
    (box.root / "run/fail-qm-start").touch()
    (box.root / "run/faults.json").write_text(json.dumps(["unbind vfio-pci 0000:c1:00.1"]))
    outcome = move(box, order("vm"))
    assert outcome.failure.startswith("start VM 900: ")
    assert len(outcome.stuck) == 1
    assert outcome.stuck[0].startswith(
        "bind 0000:c1:00.1 to vfio-pci: vfio-pci does not let 0000:c1:00.1 go within 0.5 s"
    )


def test_other_guests_that_claim_a_card_are_named(box: Hypervisor) -> None:
    box.container(102, "sglang2", ["lxc.mount.entry: /dev/nvidia6 dev/nvidia6 none bind,optional,create=file"])
    other = box.root / "etc/pve/qemu-server/901.conf"
    other.write_text("name: old\nonboot: 1\nhostpci0: mapping=second\n")
    (box.root / "etc/pve/mapping").mkdir()
    (box.root / "etc/pve/mapping/pci.cfg").write_text("second\n\tmap id=10de:2bb5,node=pve1,path=0000:e1:00.0\n")
    said = refused(box, order("vm"))
    assert "container 102 (sglang2) claims 0000:c1:00 (lxc.mount.entry 0) and starts at boot, so it would break" in said
    assert "VM 901 (old) claims 0000:e1:00 (hostpci0) and starts at boot, so it would break" in said
    other.write_text("name: old\nhostpci0: 0000:e1:00.0\n")
    assert "901" not in refused(box, order("vm"))
    assert "container 101 (sglang1)" in refused(box, order("vm", containers=()))


def test_a_stranger_in_the_group_and_a_card_without_reset_are_refused(box: Hypervisor) -> None:
    (box.root / "tree/groups/26/devices/0000:a1:00.0").symlink_to("/sys/bus/pci/devices/0000:a1:00.0")
    (box.root / "tree/bus/devices/0000:e1:00.0/reset_method").write_text("\n")
    said = refused(box, order("vm"))
    assert "0000:c1:00 shares IOMMU group 26 with 0000:a1:00.0" in said
    assert "0000:e1:00 has no reset method" in said


def test_without_an_iommu_nothing_goes(box: Hypervisor) -> None:
    (box.root / "sys/kernel/iommu_groups").unlink()
    assert "there is no IOMMU" in refused(box, order("vm"))


def test_a_card_that_does_not_answer_stays(box: Hypervisor) -> None:
    assert move(box, order("vm")).failure == ""
    (box.root / "tree/bus/devices/0000:c1:00.0/config").write_bytes(b"\xff" * 256)
    assert "0000:c1:00.0 does not answer" in refused(box, order("host", ("c1:00", "e1:00")))


def test_memory_in_use_stops_it_before_the_driver_is_touched(box: Hypervisor) -> None:
    before = box.snapshot()
    (box.root / "run/stuck.json").write_text('{"7": 624}')
    outcome = move(box, order("vm"))
    assert outcome.failure.startswith("see that nobody holds the cards: ")
    assert "GPU 7: 624 MiB in use" in outcome.failure
    assert box.snapshot() == before


def test_an_unknown_card_and_guest_are_named(box: Hypervisor) -> None:
    with pytest.raises(SglangError, match=r"no GPU 9.*0000:01:00"):
        _handover.read(box.host, order("vm", ("9",)))
    with pytest.raises(SglangError, match="no container 555 on this node"):
        _handover.read(box.host, order("vm", containers=(555,)))

"""What must change in a container's configuration for its GPUs."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils import _lxc_gpu
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from ansible_collections.blackwell.sglang.plugins.module_utils._lxc_gpu_via import Api, Pct
from gpu_tree import run_command
from hypothesis import given
from hypothesis import strategies as st

NODES = {
    **{f"/dev/nvidia{number}": (195, number) for number in range(4)},
    "/dev/nvidiactl": (195, 255),
    "/dev/nvidia-uvm": (511, 0),
    "/dev/nvidia-uvm-tools": (511, 1),
    "/dev/nvidia-caps/nvidia-cap1": (236, 1),
    "/dev/nvidia-caps/nvidia-cap2": (236, 2),
}
MAJORS = {195: "nvidia", 511: "nvidia-uvm", 236: "nvidia-caps", 226: "drm", 10: "misc", 500: "hidraw"}
TWO = _lxc_gpu.Want(("/dev/nvidia0", "/dev/nvidia1"))
CONTROL = ("/dev/nvidiactl,mode=0666", "/dev/nvidia-uvm,mode=0666", "/dev/nvidia-uvm-tools,mode=0666")
FOREIGN = (
    "dev0: /dev/dri/renderD128,gid=104\nlxc.apparmor.profile: unconfined\nlxc.cgroup2.devices.allow: c 226:* rwm\n"
    "lxc.cgroup2.devices.allow: c 10:200 rwm\nlxc.cgroup2.devices.allow: c 500:* rwm\n"
    "lxc.mount.entry: /dev/net/tun dev/net/tun none bind,create=file\n"
)
OLD = (
    "#a note: with a colon\narch: amd64\ncores: 32\n" + FOREIGN.replace("dev0: ", "dev0: ") + "hostname: sglang1\n"
    "lxc.cgroup2.devices.allow: c 195:* rwm\nlxc.cgroup2.devices.allow: c 508:* rwm\n"
    "lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidiactl dev/nvidiactl none bind,optional,create=file\n"
    "lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file\n"
    "\n[before-update]\nlxc.cgroup2.devices.allow: c 195:* rwm\n"
)


def plan(text: str, want: _lxc_gpu.Want = TWO, running: bool = False) -> _lxc_gpu.Plan:
    """The plan on this file's hypervisor."""
    return _lxc_gpu.plan(text, want, NODES, MAJORS, running)


def test_a_bare_container_gets_cards_and_control_nodes_at_once() -> None:
    change = plan("arch: amd64\ndev0: /dev/ttyUSB0\n", running=True)
    assert list(change.put) == ["dev1", "dev2", "dev3", "dev4", "dev5"]
    assert tuple(change.put.values())[2:] == CONTROL
    assert (change.hot, change.waiting, change.drop) == (tuple(change.put), (), ())
    (command,) = _lxc_gpu.commands(129, change)
    assert command[:4] == ["set", "129", "--dev1", "/dev/nvidia0,mode=0666"]


def test_an_order_of_options_or_a_default_is_no_difference() -> None:
    want = _lxc_gpu.Want(("/dev/nvidia0",), control=False, mode="0660", gid=44)
    assert not plan("dev0: gid=44,path=/dev/nvidia0,mode=660\n", want).changed
    assert not plan("dev0: /dev/nvidia0,gid=44\n", want).changed
    assert plan("dev0: /dev/nvidia0\n", want).put == {"dev0": "/dev/nvidia0,gid=44,mode=0660"}


def test_changed_and_removed_entries_of_a_running_container_wait() -> None:
    text = "dev0: /dev/nvidia0\ndev1: /dev/nvidia3,mode=0666\n"
    change = plan(text, running=True)
    assert change.put["dev0"] == "/dev/nvidia0,mode=0666"
    assert change.drop == ("dev1",)
    assert "dev0" not in change.hot and "dev1" not in change.put
    assert change.waiting == ("dev0, dev1 change or go with the next start",)
    assert plan(text).waiting == ()


def test_pending_changes_count_as_made_and_keep_asking_for_the_start() -> None:
    text = (
        "dev0: /dev/nvidia0\ndev1: /dev/nvidia1,mode=0666\ndev2: /dev/nvidia3\ndev3: {}\ndev4: {}\ndev5: {}\n"
        "[pve:pending]\ndelete: dev2\ndev0: /dev/nvidia0,mode=0666\n"
    ).format(*CONTROL)
    change = plan(text, running=True)
    assert not change.changed
    assert change.waiting == ("dev0, dev2 of an earlier change still wait for a start",)


def test_a_key_that_goes_later_is_not_used_again_now() -> None:
    text = "dev0: /dev/nvidia3\n[pve:pending]\ndelete: dev0\n"
    assert "dev0" not in plan(text, running=True).put


def test_the_old_style_is_converted_and_others_are_left_alone() -> None:
    change = plan(OLD, running=True)
    assert len(change.lines) == 6
    assert "lxc.cgroup2.devices.allow: c 508:* rwm" in change.lines, "the number of nvidia-uvm before a kernel update"
    assert change.foreign == tuple(f"lxc.cgroup2.devices.allow: c {rule} rwm" for rule in ("226:*", "10:200", "500:*"))
    assert (change.hot, change.waiting) == ((), ("lxc lines are read at the start",))
    text = _lxc_gpu.rewrite(OLD, change)
    assert text.startswith("#a note: with a colon\narch: amd64\n")
    assert text.endswith("\n[before-update]\nlxc.cgroup2.devices.allow: c 195:* rwm\n")
    for line in FOREIGN.splitlines():
        assert line in text.splitlines()
    assert "nvidia" not in "".join(line for line in text.splitlines() if line.startswith("lxc."))
    again = plan(text)
    assert not again.changed


def test_a_dynamic_major_without_a_mount_of_nvidia_is_not_ours() -> None:
    change = plan("lxc.cgroup2.devices.allow: c 508:* rwm\n")
    assert change.lines == ()
    assert change.foreign == ("lxc.cgroup2.devices.allow: c 508:* rwm",)


def test_no_cards_take_everything_of_ours_away() -> None:
    text = _lxc_gpu.rewrite(OLD, plan(OLD))
    change = plan(text, _lxc_gpu.Want(()))
    assert change.put == {}
    assert set(change.drop) == {key for key, value in pve.config(text)[0] if "/dev/nvidia" in value}


def test_capabilities_are_for_reading() -> None:
    values = _lxc_gpu.wanted(_lxc_gpu.Want(("/dev/nvidia0",), caps=True), NODES)
    assert values["/dev/nvidia-caps/nvidia-cap1"] == "/dev/nvidia-caps/nvidia-cap1,mode=0444"


KNOWN = [{"address": "0000:c1:00", "node": "/dev/nvidia2", "uuid": "GPU-abc"}]


@pytest.mark.parametrize("name", ["2", "/dev/nvidia2", "GPU-ABC", "c1:00", "0000:C1:00.0"])
def test_cards_by_every_name(name: str) -> None:
    assert _lxc_gpu.cards([name, name], NODES, KNOWN) == ["/dev/nvidia2"]


def test_an_unknown_card_is_named_with_those_that_are_there() -> None:
    with pytest.raises(SglangError, match=r"no GPU 9 on the hypervisor.*GPU-abc"):
        _lxc_gpu.cards(["9"], NODES, KNOWN)


ENTRY = st.sampled_from(
    ["/dev/nvidia0", "/dev/nvidia1,mode=0666", "/dev/nvidia3,gid=44", "/dev/nvidiactl", "/dev/dri/card0", "/dev/kvm"]
)


@given(
    st.dictionaries(st.integers(0, 12), ENTRY, max_size=6),
    st.lists(st.sampled_from(OLD.splitlines()[9:16]), unique=True),
    st.sets(st.integers(0, 3)),
    st.booleans(),
)
def test_a_second_plan_finds_nothing_and_foreign_entries_stay(
    entries: dict[int, str], lines: list[str], gpus: set[int], running: bool
) -> None:
    text = "".join(f"dev{key}: {value}\n" for key, value in sorted(entries.items())) + "".join(f"{x}\n" for x in lines)
    want = _lxc_gpu.Want(tuple(f"/dev/nvidia{number}" for number in sorted(gpus)))
    after = _lxc_gpu.rewrite(text, plan(text, want, running))
    again = plan(after, want)
    assert not again.changed, (text, after, again)
    settings = pve.config(after)[0]
    for key, value in entries.items():
        if "nvidia" not in value:
            assert (f"dev{key}", value) in settings
    given_now = [entry.path for entry in pve.entries(settings) if entry.path[11:12].isdigit()]
    assert given_now == sorted(set(given_now)) or len(set(given_now)) == len(given_now)
    assert set(given_now) == set(want.cards)


PCT = """#!/bin/sh
here=$(dirname "$0")/../..
case "$1" in
  config) grep -q refuse "$here/refuse" 2>/dev/null && { echo "unable to parse config" >&2; exit 255; }; exit 0 ;;
  *) echo "status: running" ;;
esac
"""


def _tree(tmp_path: pathlib.Path) -> Host:
    for path, text in (("usr/sbin/pct", PCT), ("etc/pve/lxc/129.conf", OLD)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "usr/sbin/pct").chmod(0o755)
    return Host(run_command, str(tmp_path))


def test_a_conversion_is_one_write_of_the_file(tmp_path: pathlib.Path) -> None:
    via = Pct(run_command, 129, _tree(tmp_path))
    via.apply(plan(via.text()))
    assert not plan(via.text()).changed
    assert sorted(path.name for path in (tmp_path / "etc/pve/lxc").iterdir()) == ["129.conf"]


def test_a_file_that_proxmox_cannot_read_is_put_back(tmp_path: pathlib.Path) -> None:
    via = Pct(run_command, 129, _tree(tmp_path))
    (tmp_path / "refuse").write_text("refuse")
    with pytest.raises(SglangError, match="unable to parse config"):
        via.apply(plan(via.text()))
    assert via.text() == OLD


# What Proxmox VE says (pct, PVE::AbstractConfig, PVE::LXC), and a word of what the operator is told to do then.
REFUSALS = {
    "can't lock file '/run/lock/lxc/pve-config-129.lock' - got timeout": "wait for it",
    "CT is locked (backup)": "pct unlock",
    "Could not create device node /dev/nvidia0: File exists": "shut the container down",
    "Device /dev/nvidia-uvm does not exist": "nvidia-modprobe",
    "Configuration file 'nodes/pve1/lxc/129.conf' does not exist": "number of the container",
    "configuring device passthrough is only allowed for root@pam": "as root",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_comes_with_what_to_do(said: str, tmp_path: pathlib.Path) -> None:
    via = Pct(lambda _: (255, "", f"{said}\n"), 129, _tree(tmp_path))
    with pytest.raises(SglangError) as caught:
        via.restart(60)
    assert said in caught.value.what
    assert REFUSALS[said] in caught.value.fix


class _Session:
    """What a ProxmoxAPI answers for one container."""

    def __init__(self, config: dict[str, t.Any]) -> None:
        self._config = config

    def __getattr__(self, name: str) -> t.Any:
        return self

    def __call__(self, *_words: t.Any) -> t.Any:
        return self

    def get(self) -> t.Any:
        return self._config


def test_the_api_explains_who_may_set_devices() -> None:
    via = Api(_Session({}), "pve1", 129, root=False)
    with pytest.raises(SglangError, match=r"only allowed for root@pam.*tokens are refused.*pct over ssh"):
        via.apply(plan("arch: amd64\n"))
    with pytest.raises(SglangError, match="old style, which the API cannot change"):
        Api(_Session({}), "pve1", 129, root=True).apply(plan(OLD))

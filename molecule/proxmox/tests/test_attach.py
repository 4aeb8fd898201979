"""GPU entries of containers: as named, changed, converted, taken away."""

from __future__ import annotations

from box import Box

OLD = """# old style, with a stale number of nvidia-uvm
arch: amd64
hostname: old
lxc.apparmor.profile: unconfined
lxc.cgroup2.devices.allow: c 195:* rwm
lxc.cgroup2.devices.allow: c 438:* rwm
lxc.cgroup2.devices.allow: c 226:* rwm
lxc.mount.entry: /dev/nvidia0 dev/nvidia0 none bind,optional,create=file
lxc.mount.entry: /dev/nvidiactl dev/nvidiactl none bind,optional,create=file
lxc.mount.entry: /dev/nvidia-uvm dev/nvidia-uvm none bind,optional,create=file
lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir
"""
REST = [
    "lxc.apparmor.profile: unconfined",
    "lxc.cgroup2.devices.allow: c 226:* rwm",
    "lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir",
]


def entries(box: Box, vmid: int) -> list[str]:
    """GPU entries of a container's configuration."""
    return sorted(box.sh(f"pct config {vmid} | grep ^dev | cut -d' ' -f2").split())


def test_each_guest_has_its_cards_and_the_nodes_come_before_the_guests(box: Box) -> None:
    control = ["/dev/nvidia-uvm,mode=0666", "/dev/nvidia-uvm-tools,mode=0666", "/dev/nvidiactl,mode=0666"]
    assert entries(box, 101) == sorted([f"/dev/nvidia{n},mode=0666" for n in range(4)] + control)
    assert box.inside(102, "ls /dev | grep -c '^nvidia[0-9]$'") == "4"
    unit = box.host.service("nvidia-nodes")
    assert unit.is_enabled and unit.is_running
    assert "pve-guests.service" in box.sh("systemctl show -P Before nvidia-nodes.service")


def test_a_running_guest_gets_a_card_at_once_and_loses_it_at_its_next_start(box: Box) -> None:
    before = box.invocation(101)
    more = [{"vmid": 101, "gpus": [0, 1, 2, 3, 4]}]
    run = box.attach("--check", proxmox_gpu_containers=more, proxmox_gpu_restart=False)
    assert run.rc == 0, run.output
    assert len(entries(box, 101)) == 7
    run = box.attach(proxmox_gpu_containers=more, proxmox_gpu_restart=False)
    assert run.rc == 0, run.output
    assert box.inside(101, "stat -c %a /dev/nvidia4") == "666"
    run = box.attach(proxmox_gpu_containers=[{"vmid": 101, "gpus": [0, 1, 2, 3]}], proxmox_gpu_restart=False)
    assert run.rc == 0, run.output
    assert "change or go with the next start" in run.output
    assert "del dev" in box.sh("pct pending 101")
    again = box.attach(proxmox_gpu_containers=[{"vmid": 101, "gpus": [0, 1, 2, 3]}], proxmox_gpu_restart=False)
    assert again.changed == {}, again.output
    assert "still wait for a start" in again.output
    assert box.invocation(101) == before, "nothing was restarted"
    run = box.attach(proxmox_gpu_containers=[{"vmid": 101, "gpus": [0, 1, 2, 3]}])
    assert run.rc == 0, run.output
    assert box.inside(101, "ls /dev | grep -c '^nvidia[0-9]$'") == "4"
    assert box.serves(101), "started with its guest, and proved again"
    assert box.invocation(101) != before


def test_the_old_style_is_converted_and_other_devices_stay(box: Box) -> None:
    box.sh("cat > /etc/pve/lxc/103.conf <<'END'\n" + OLD + "END")
    try:
        wanted = [{"vmid": 103, "gpus": [0]}]
        run = box.attach("--check", "--diff", proxmox_gpu_containers=wanted)
        assert "-line 0: lxc.cgroup2.devices.allow: c 195:* rwm" in run.output, run.output
        assert box.host.file("/etc/pve/lxc/103.conf").content_string == OLD
        run = box.attach(proxmox_gpu_containers=wanted)
        assert run.rc == 0, run.output
        text = box.host.file("/etc/pve/lxc/103.conf").content_string
        assert [line for line in text.splitlines() if line.startswith("lxc.")] == REST
        assert "dev0: /dev/nvidia0,mode=0666\n" in text
        assert text.startswith("# old style")
        assert box.attach(proxmox_gpu_containers=wanted).changed == {}
        assert box.attach(proxmox_gpu_containers=[{"vmid": 103, "gpus": []}]).rc == 0
        assert "nvidia" not in box.sh("pct config 103")
    finally:
        box.sh("rm -f /etc/pve/lxc/103.conf")


def test_a_card_that_is_not_there_is_named(box: Box) -> None:
    run = box.attach(proxmox_gpu_containers=[{"vmid": 101, "gpus": [9]}])
    assert run.rc != 0
    assert "no GPU 9 on the hypervisor" in run.output

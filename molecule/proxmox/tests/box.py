"""The scenario's hypervisor as a test asks it."""

from __future__ import annotations

import json
import shlex
import time
import typing as t

from playbooks import Playbooks, Run


class Box:
    """The hypervisor and its guests."""

    def __init__(self, host: t.Any, playbooks: Playbooks) -> None:
        self.host, self.playbooks = host, playbooks

    def sh(self, command: str) -> str:
        """Output of a shell command on the hypervisor; ssh without a login has no /usr/sbin in its PATH."""
        return str(self.host.check_output("PATH=/usr/sbin:/sbin:$PATH sh -c %s", command))

    def inside(self, vmid: int, command: str) -> str:
        """Output of a shell command in a guest."""
        return self.sh(f"pct exec {vmid} -- sh -c {shlex.quote(command)}")

    def invocation(self, vmid: int) -> str:
        """The current start of a guest's service; empty when it does not run."""
        active = self.inside(vmid, "systemctl is-active sglang-qwen.service || true")
        return self.inside(vmid, "systemctl show -P InvocationID sglang-qwen.service") if active == "active" else ""

    def proved(self, vmid: int) -> bool:
        """Whether the current start of a guest's service passed the gate."""
        proof = json.loads(self.inside(vmid, "cat /var/lib/sglang/qwen/proof.json"))
        return bool(proof["passed"] and proof["invocation_id"] == self.invocation(vmid))

    def serves(self, vmid: int, seconds: int = 60) -> bool:
        """Whether a guest's service is proved, now or within a time: its guest may have started it just now."""
        deadline = time.monotonic() + seconds
        while not self.proved(vmid) and time.monotonic() < deadline:
            time.sleep(1)
        return self.proved(vmid)

    def snapshot(self) -> str:
        """Everything that a hand-over may change."""
        return self.sh(
            "cat /etc/pve/lxc/*.conf /etc/pve/qemu-server/*.conf; pct list; qm list; ls /dev/nvidia*;"
            " systemctl is-active nvidia-persistenced;"
            " for f in /sys/bus/pci/devices/*; do readlink $f/driver; cat $f/driver_override; done"
            " | sed 's/(null)//'; ls /proc/driver/nvidia/gpus"
        )

    def handover(self, owner: str, gpus: list[str], *arguments: str, guests: t.Sequence[str] = ("sglang1",)) -> Run:
        """Run the playbook."""
        variables = {
            "gpu_handover_hypervisor": "pve1",
            "gpu_handover_gpus": gpus,
            "gpu_handover_owner": owner,
            "gpu_handover_vm": 900,
            "gpu_handover_guests": list(guests),
        }
        return self.playbooks.run("playbooks/gpu_handover.yml", *arguments, variables=variables)

    def attach(self, *arguments: str, **variables: t.Any) -> Run:
        """Run the role that sets GPU entries."""
        return self.playbooks.run("playbooks/site.yml", "--tags", "proxmox_gpu", *arguments, variables=variables)

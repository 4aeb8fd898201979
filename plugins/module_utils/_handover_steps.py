# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a hand-over, each with its way back, and their run (private).

A step's way back leads to the state that was read before it began, whether the step was made, half made or not at all.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_claims as claims
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_holders as holders
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_hypervisor as hypervisor
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils import _handover, _lxc_gpu
from ansible_collections.blackwell.sglang.plugins.module_utils import _pci_cards as pci
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from ansible_collections.blackwell.sglang.plugins.module_utils._lxc_gpu_via import Pct, Run

IDLE_MIB = 100


@dataclasses.dataclass(frozen=True)
class Step:
    """A change: its name as an operator reads it, how it is made, how it is taken back (None: nothing to take back)."""

    name: str
    make: t.Callable[[], object]
    back: t.Callable[[], object] | None = None


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds: for a guest's shutdown, for a driver to let a card go or take it, for memory to be given back."""

    shutdown: int = 180
    driver: float = 30.0
    memory: float = 60.0


class Outcome(t.NamedTuple):
    """Names of the steps made and taken back, the failure ('' without one), and what could not be taken back."""

    made: list[str]
    undone: list[str]
    failure: str
    stuck: list[str]


def run(steps: t.Sequence[Step]) -> Outcome:
    """Make the steps in order; when one fails, take it and those before it back, last first."""
    made: list[Step] = []
    for step in steps:
        made.append(step)
        try:
            step.make()
        except (SglangError, OSError) as error:
            undone, stuck = _back(made)
            return Outcome([each.name for each in made[:-1]], undone, f"{step.name}: {error}", stuck)
    return Outcome([each.name for each in made], [], "", [])


def _back(made: t.Sequence[Step]) -> tuple[list[str], list[str]]:
    undone, stuck = [], []
    for step in reversed(made):
        if step.back is None:
            continue
        try:
            step.back()
            undone.append(step.name)
        except (SglangError, OSError) as error:
            stuck.append(f"{step.name}: {error}")
    return undone, stuck


class Steps:
    """Makes the list of steps for an order.

    Args:
        run_command: ``AnsibleModule.run_command``.
        host: the hypervisor.
        state: as read before the first step.
        order: what is asked.
        limits: how long things may take.
    """

    def __init__(
        self, run_command: Run, host: Host, state: _handover.State, order: _handover.Order, limits: Limits
    ) -> None:
        self._command, self._host, self._state, self._order, self._limits = run_command, host, state, order, limits

    def steps(self) -> list[Step]:
        """The steps that this order needs from this state."""
        return self._to_vm() if self._order.owner == "vm" else self._to_host()

    def _to_vm(self) -> list[Step]:
        order, found = self._order, []
        losing = [claim for claim in self._state.claims if claim["kind"] == "lxc"]
        for claim in losing:
            if claim["running"]:
                found.append(self._shutdown("pct", claim["vmid"], claims.title(claim)))
            found.append(self._take_entries(claim))
        away = [card for card in self._state.cards if any(each["driver"] != pci.VFIO for each in card["functions"])]
        if away:
            active = [name for name in _handover.SERVICES if self._active(name)]
            found += [self._service(name, "stop") for name in active]
            found.append(Step("see that nobody holds the cards", self._free))
            found.append(Step("load vfio-pci", self._load_vfio))
            found += [self._bind(each, pci.VFIO) for card in away for each in card["functions"]]
            found += [self._wake(name, "start") for name in active]
        found += [self._start("pct", claim["vmid"], claims.title(claim)) for claim in losing if claim["running"]]
        found += self._hostpci()
        if order.start:
            found.append(self._start("qm", order.vmid, f"VM {order.vmid}"))
        found.append(Step("see that vfio-pci has the cards", self._with_vfio))
        return found

    def _to_host(self) -> list[Step]:
        order, found = self._order, []
        machine = next(
            (claim for claim in self._state.claims if claim["kind"] == "qemu" and claim["vmid"] == order.vmid), None
        )
        if self._state.running["qemu", order.vmid] and machine:
            found.append(self._shutdown("qm", order.vmid, f"VM {order.vmid}"))
        if machine:
            found.append(self._drop_hostpci(machine))
        for card in self._state.cards:
            for number, each in enumerate(card["functions"]):
                want = pci.NVIDIA if number == 0 else "*"
                if each["driver"] in ("", pci.VFIO) or each["override"]:
                    found.append(self._bind(each, want))
        found.append(Step("make the nodes and see the cards answer", self._answer))
        active = [name for name in _handover.SERVICES if self._active(name)]
        found += [self._wake(name, "restart") for name in active]
        for vmid in order.containers:
            found.append(self._give_entries(vmid))
            if order.start and not self._state.running["lxc", vmid]:
                found.append(self._start("pct", vmid, f"container {vmid}"))
        return found

    def _shutdown(self, program: str, vmid: int, title: str) -> Step:
        words = [program, "shutdown", str(vmid), "--timeout", str(self._limits.shutdown)]
        return Step(
            f"shut {title} down",
            lambda: self._run(words, self._limits.shutdown + 60),
            lambda: self._ensure(program, vmid, running=True),
        )

    def _start(self, program: str, vmid: int, title: str) -> Step:
        return Step(
            f"start {title}",
            lambda: self._ensure(program, vmid, running=True),
            lambda: self._ensure(program, vmid, running=False),
        )

    def _take_entries(self, claim: claims.Claim) -> Step:
        via = Pct(self._command, claim["vmid"], self._host)
        drop = tuple(key for key in claim["keys"] if key.startswith("dev"))
        lines = tuple(f"lxc.mount.entry: {value}" for key, value in claim["keys"].items() if not key.startswith("dev"))
        before = via.text()
        return Step(
            f"take {', '.join(claim['cards'])} from {claims.title(claim)}",
            lambda: via.apply(_lxc_gpu.Plan({}, drop, lines, (), (), ())),
            lambda: via.restore(before),
        )

    def _give_entries(self, vmid: int) -> Step:
        via = Pct(self._command, vmid, self._host)
        before = via.text()

        def make() -> None:
            known = {card["address"]: card["node"] for card in hypervisor.identities(self._host)}
            wanted = [known[card["address"]] for card in self._state.cards]
            settings = [pair for part in pve.config(via.text()) for pair in part]
            have = {entry.path for entry in pve.entries(settings)}
            missing = [path for path in [*wanted, *pve.CONTROL] if path not in have]
            keys = pve.free_keys(settings)
            put = {next(keys): f"{path},{pve.MODE}" for path in missing}
            via.apply(_lxc_gpu.Plan(put, (), (), (), (), ()))

        return Step(f"give the cards to container {vmid}", make, lambda: via.restore(before))

    def _service(self, name: str, verb: str) -> Step:
        return Step(f"{verb} {name}", lambda: self._systemctl(verb, name), lambda: self._systemctl("start", name))

    def _wake(self, name: str, verb: str) -> Step:
        return Step(f"{verb} {name} for the cards of this host", lambda: self._systemctl(verb, name))

    def _bind(self, each: pci.Function, want: str) -> Step:
        override = want if want == pci.VFIO else ""

        def make() -> None:
            pci.bind(self._host, each["address"], want, override, self._limits.driver)

        def back() -> None:
            now = pci.function(self._host, each["address"])
            if (now["driver"], now["override"]) != (each["driver"], each["override"]):
                pci.bind(self._host, each["address"], each["driver"], each["override"], self._limits.driver)

        name = "the host's driver" if want == "*" else want
        return Step(f"bind {each['address']} to {name}", make, back)

    def _hostpci(self) -> list[Step]:
        vmid = self._order.vmid
        settings = self._state.guests["qemu", vmid]
        have = {
            card
            for claim in self._state.claims
            if claim["kind"] == "qemu" and claim["vmid"] == vmid
            for card in claim["cards"]
        }
        missing = [card["address"] for card in self._state.cards if card["address"] not in have]
        free = [f"hostpci{number}" for number in range(16) if f"hostpci{number}" not in settings]
        words = {key: f"{address},pcie=1" for key, address in zip(free, missing, strict=False)}
        if not missing:
            return []
        flat = [part for key, value in words.items() for part in (f"--{key}", value)]

        def back() -> None:
            now = dict(pve.config(self._host.text(f"/etc/pve/qemu-server/{vmid}.conf"))[0])
            if any(key in now for key in words):
                self._run(["qm", "set", str(vmid), "--delete", ",".join(words)])

        return [Step(f"give the cards to VM {vmid}", lambda: self._run(["qm", "set", str(vmid), *flat]), back)]

    def _drop_hostpci(self, claim: claims.Claim) -> Step:
        vmid = str(claim["vmid"])
        flat = [part for key, value in claim["keys"].items() for part in (f"--{key}", value)]
        return Step(
            f"take the cards from VM {vmid}",
            lambda: self._run(["qm", "set", vmid, "--delete", ",".join(claim["keys"])]),
            lambda: self._run(["qm", "set", vmid, *flat]),
        )

    def _free(self) -> None:
        minors = {int(node[11:]) for node in self._state.nodes.values()}
        deadline = time.monotonic() + self._limits.memory
        while True:
            held = holders.read(self._host, minors)
            used = {
                minor: mib for minor, mib in holders.usage(self._host)[0].items() if minor in minors and mib > IDLE_MIB
            }
            if not held and not used:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        words = [f"{each['pid']} {each['name']} (guest {each['vmid'] or 'none'})" for each in held]
        words += [f"GPU {minor}: {mib} MiB in use" for minor, mib in used.items()]
        raise SglangError(
            "the cards are not free: " + "; ".join(words),
            fix="end those processes (playbook gpu_release for what a guest left), or reset the card",
            kind="held",
        )

    def _load_vfio(self) -> None:
        if not self._host.glob("/sys/bus/pci/drivers/vfio-pci"):
            self._run(["modprobe", "vfio-pci"])

    def _with_vfio(self) -> None:
        for card in self._state.cards:
            for each in card["functions"]:
                now = pci.driver(self._host, each["address"])
                if now != pci.VFIO:
                    raise SglangError(f"{each['address']} has driver {now or 'none'}", kind="bind")

    def _answer(self) -> None:
        maker = self._host.which("nvidia-modprobe", "/usr/bin:/usr/sbin:/sbin:/bin")
        if maker:
            self._run([maker, "-u", "-m", "-c", "0"])
        for card in self._state.cards:
            self._run(["nvidia-smi", "-i", f"{card['address']}.0", "--query-gpu=uuid", "--format=csv,noheader"])
        known = {card["address"]: card["node"] for card in hypervisor.identities(self._host)}
        for card in self._state.cards:
            node = known.get(card["address"], "")
            if not node or self._host.stat(node) is None:
                raise SglangError(
                    f"{card['address']} has no node: {node or 'not in /proc/driver/nvidia/gpus'}", kind="bind"
                )

    def _ensure(self, program: str, vmid: int, running: bool) -> None:
        if self._runs(program, vmid) == running:
            return
        verb = ["start"] if running else ["shutdown", "--timeout", str(self._limits.shutdown)]
        self._run([program, verb[0], str(vmid), *verb[1:]], self._limits.shutdown + 60)
        if self._runs(program, vmid) != running:
            raise SglangError(f"{program} {verb[0]} {vmid} succeeded, but the guest is not so", kind="guest")

    def _runs(self, program: str, vmid: int) -> bool:
        return "status: running" in self._run([program, "status", str(vmid)])

    def _active(self, name: str) -> bool:
        rc, _out, _err = self._command(["systemctl", "is-active", "-q", name])
        return rc == 0

    def _systemctl(self, verb: str, name: str) -> None:
        self._run(["systemctl", verb, name])

    def _run(self, words: list[str], seconds: float = 120) -> str:
        # ssh without a login shell has no /usr/sbin in its PATH.
        found = self._host.which(words[0], probe.SMI_SEARCH)
        program = str(self._host.at(found)) if found else words[0]
        rc, out, err = self._command(["timeout", "-k", "5", f"{seconds:g}", program, *words[1:]])
        if rc != 0:
            said = (err or out).strip()[-400:] or ("no end within its time" if rc == 124 else f"status {rc}")
            raise SglangError(f"{' '.join(words[:3])}: {said}", kind="command")
        return out

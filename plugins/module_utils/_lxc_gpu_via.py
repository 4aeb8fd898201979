# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two ways to a container's configuration: ``pct`` on the hypervisor, or the API from anywhere (private)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe as probe
from ansible_collections.blackwell.sglang.plugins.module_utils import _lxc_gpu
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host

ROOT_ONLY = "configuring device passthrough is only allowed for root@pam"
Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]

# What an error of the API holds, and what to do then; the first that fits counts.
_ADVICE = (
    (
        r"only allowed for root@pam|Permission check failed",
        "only root@pam may set device entries; use pct over ssh as root",
    ),
    (r"lxc/\d+\.conf' does not exist", "correct the number of the container, or the node that has it (api_node)"),
    (r"hostname lookup", "correct api_node: it is the name of a node of the cluster, as pvesh get /nodes shows it"),
    (r"authenticate", "correct api_user (root@pam) and api_password"),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        "give the node a certificate that this host trusts (pvenode acme), or validate_certs: false",
    ),
    (
        r"Max retries|Connection|timed out",
        "see whether api_host answers on its port (8006 unless api_host says another)",
    ),
    (r"detected modified configuration", "someone else changed the container meanwhile; run it again"),
    (
        r"does not exist",
        "make the node first: nvidia-smi; nvidia-modprobe -u -m -s -l -c 0 (and at each boot before the guests)",
    ),
    (
        r"File exists",
        "the node is there inside by other means; shut the container down and start it again",
    ),
    (
        r"can't lock|got timeout|locked",
        "another task works on this container (pct config shows its lock); wait for it, or pct unlock",
    ),
)


class Pct:
    """``pct`` and the file under /etc/pve, on the hypervisor as root.

    Args:
        run: ``AnsibleModule.run_command``.
        vmid: the container.
        host: where files are read and written.
    """

    def __init__(self, run: Run, vmid: int, host: Host) -> None:
        self._run, self._vmid, self._host = run, vmid, host
        self._program = host.which("pct", probe.SMI_SEARCH)
        self.path = f"/etc/pve/lxc/{vmid}.conf"
        if not self._program:
            raise SglangError(
                "pct is not there",
                fix="run this on the Proxmox VE host that has the container, or set api_host",
                kind="no_pct",
            )
        if not host.text(self.path):
            raise SglangError(
                f"no container {vmid} on this node", where=self.path, fix="correct the number or the hypervisor"
            )

    def text(self) -> str:
        """The configuration."""
        return self._host.text(self.path)

    def running(self) -> bool:
        """Whether the container runs."""
        return "status: running" in self._pct("status", str(self._vmid))

    def refuse(self, _change: _lxc_gpu.Plan) -> None:
        """Root on the hypervisor may do everything."""

    def apply(self, change: _lxc_gpu.Plan) -> None:
        """Make the changes; with ``lxc.*`` lines among them in one write of the file, else by ``pct set``."""
        if not change.lines:
            for words in _lxc_gpu.commands(self._vmid, change):
                self._pct(*words)
            return
        with self._locked():
            before = self.text()
            self._write(_lxc_gpu.rewrite(before, change))
            try:
                # Proxmox VE's own parser has the last word.
                self._pct("config", str(self._vmid))
            except SglangError:
                self._write(before)
                raise

    def restore(self, text: str) -> None:
        """Put a configuration that was read before back, when it is another one now."""
        with self._locked():
            if self.text() != text:
                self._write(text)

    def restart(self, seconds: int) -> None:
        """Shut down and start, as ``pct reboot`` does; ``seconds`` for the shutdown."""
        self._pct("reboot", str(self._vmid), "--timeout", str(seconds))

    def _pct(self, *words: str) -> str:
        rc, out, err = self._run([str(self._host.at(self._program)), *words])
        if rc != 0:
            raise SglangError(
                f"pct {' '.join(words)} failed: {(err or out).strip()[-500:]}", fix=_advice(err + out), kind="pct"
            )
        return out

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        """Hold the lock that pct takes for a change of this configuration (PVE::LXC::Config)."""
        folder = self._host.at("/run/lock/lxc")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"pve-config-{self._vmid}.lock").open("a") as handle:
            deadline = time.monotonic() + 10
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise SglangError(
                            f"can't lock the configuration of container {self._vmid}", fix="try again", kind="locked"
                        ) from None
                    time.sleep(0.2)
            yield

    def _write(self, text: str) -> None:
        # The cluster's file system sets owner and mode itself, and refuses to have them set.
        target = self._host.at(self.path)
        beside = target.with_name(f"{target.name}.tmp.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        with contextlib.suppress(OSError):
            beside.chmod(0o640)
        beside.replace(target)


class Api:
    """The API of Proxmox VE by proxmoxer; it can neither read the hypervisor's nodes nor change ``lxc.*`` lines.

    Args:
        api: a ``ProxmoxAPI``.
        node: name of the node.
        vmid: the container.
        root: whether the session is root@pam with a password, which alone may set ``dev[n]``.
    """

    def __init__(self, api: t.Any, node: str, vmid: int, root: bool) -> None:
        self._guest = api.nodes(node).lxc(vmid)
        self._api, self._node, self._vmid, self._root = api, node, vmid, root
        self._digest = ""

    def text(self) -> str:
        """The configuration with its pending changes, in the form of the file."""
        # Without `current` the API gives what holds after the next start, and what holds now could not be told.
        config = dict(ask("to show the configuration", self._guest.config.get, current=1))
        self._digest = str(config.pop("digest", ""))
        raw = config.pop("lxc", [])
        config.pop("description", None)  # lines of it could look like settings
        lines = [f"{key}: {value}" for key, value in config.items()]
        lines += [f"{key}: {value}" for key, value in raw]
        waiting, gone = [], []
        for row in ask("to show what is pending", self._guest.pending.get):
            if row.get("delete"):
                gone.append(row["key"])
            elif "pending" in row:
                waiting.append(f"{row['key']}: {row['pending']}")
        if gone:
            waiting.append("delete: " + ",".join(gone))
        return "\n".join([*lines, *(["[pve:pending]", *waiting] if waiting else [])]) + "\n"

    def running(self) -> bool:
        """Whether the container runs."""
        return bool(ask("to show the state", self._guest.status.current.get)["status"] == "running")

    def refuse(self, change: _lxc_gpu.Plan) -> None:
        """Say before anything is asked what the API would never do, so that check mode says it too.

        Raises:
            SglangError: the session may not set devices, or the plan has lines of the old style.
        """
        if not self._root:
            raise SglangError(
                f"the API refuses this: {ROOT_ONLY}",
                expected="user root@pam with a password; tokens are refused as well, whatever their rights",
                fix="leave api_host out, so that pct over ssh is used, or log in as root@pam with api_password",
                kind="root_only",
            )
        if change.lines:
            raise SglangError(
                f"container {self._vmid} has lines of the old style, which the API cannot change",
                where=change.lines[0],
                fix="leave api_host out for this change, so that it is made on the hypervisor by pct",
                kind="root_only",
            )

    def apply(self, change: _lxc_gpu.Plan) -> None:
        """Make the changes that the API can make."""
        self.refuse(change)
        words = {**change.put, **({"delete": ",".join(change.drop)} if change.drop else {})}
        ask("the change", self._guest.config.put, digest=self._digest, **words)

    def restart(self, seconds: int) -> None:
        """Shut down and start; waits for the task's end."""
        task = ask("the restart", self._guest.status.reboot.post, timeout=seconds)
        deadline = time.monotonic() + seconds + 120
        while time.monotonic() < deadline:
            state = ask("to show the task", self._api.nodes(self._node).tasks(task).status.get)
            if state.get("status") == "stopped":
                if state.get("exitstatus") != "OK":
                    raise SglangError(f"the restart failed: {state.get('exitstatus')}", where=str(task), kind="api")
                return
            time.sleep(1)
        raise SglangError(f"the restart did not end within {seconds + 120} s", where=str(task), kind="api")


def ask(what: str, call: t.Callable[..., t.Any], *words: t.Any, **options: t.Any) -> t.Any:
    """What the API answers.

    Raises:
        SglangError: it refused, or it cannot be reached.
    """
    try:
        return call(*words, **options)
    except Exception as error:  # classes of proxmoxer and requests, which need not be installed
        text = " ".join(str(error).split())
        raise SglangError(f"the API refused {what}: {text}", fix=_advice(text), kind="api") from error


def _advice(text: str) -> str:
    return next((advice for pattern, advice in _ADVICE if re.search(pattern, text)), "")

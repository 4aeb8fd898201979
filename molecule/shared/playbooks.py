"""Run the collection's playbooks as an operator does, and look at what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


def descendants(pid: int) -> list[int]:
    """Stop a process and all that it started, directly or not, and name these: one that runs on could start another."""
    stopped: set[int] = set()
    found = {pid}
    while found - stopped:
        for each in found - stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
        stopped |= found
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1]) in found:
                    found.add(int(path.parent.name))
    return sorted(found - {pid})


@dataclasses.dataclass(frozen=True)
class Run:
    """What one ansible-playbook said; ``seconds`` is wall time."""

    rc: int
    output: str
    seconds: float
    killed: bool = False
    calls: tuple[tuple[str, ...], ...] = ()

    @property
    def changed(self) -> dict[str, int]:
        """Changed tasks by host, hosts without a change left out."""
        return {m[1]: int(m[3]) for m in RECAP.finditer(self.output) if int(m[3])}

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks that began, in order."""
        return re.findall(r"^TASK \[(.*)\] \*+$", self.output, re.MULTILINE)

    @property
    def module_calls(self) -> list[tuple[str, ...]]:
        """Calls that left the controller, as (kind, host, module, task)."""
        return [call for call in self.calls if call[0] == "module"]


class Playbooks:
    """ansible-playbook against one scenario's inventory."""

    def __init__(self, scenario: pathlib.Path, reports: pathlib.Path | None = None) -> None:
        self.inventory = scenario / "inventory"
        self.reports = reports

    def run(
        self,
        playbook: str = "site.yml",
        *arguments: str,
        variables: dict[str, t.Any] | None = None,
        inventory: pathlib.Path | None = None,
        kill_at: str | None = None,
        kill_after: float = 0.0,
        at: str | None = None,
        act: t.Callable[[], object] | None = None,
        timeout: float = 600,
    ) -> Run:
        """Run a playbook to its end, or kill it ``kill_after`` seconds after ``kill_at`` showed.

        Workers of Ansible are sessions of their own and would outlive the group, so they are killed too: what is left
        is what the death of the controller leaves.

        ``act`` is called when ``at`` shows for the first time, and the run goes on.

        ``variables`` become extra variables; a killed run gets SIGKILL, which no handler can soften.
        """
        extra = dict(variables or {})
        if self.reports is not None:
            extra.setdefault("sglang_report_dir", str(self.reports))
        hosts = str(inventory or self.inventory)
        command = [str(ROOT / ".venv/bin/ansible-playbook"), playbook, "-i", hosts, *arguments]
        if extra:
            command += ["-e", json.dumps(extra)]
        with tempfile.NamedTemporaryFile(mode="r", suffix=".calls", encoding="utf-8") as log:
            env = os.environ | {
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
                "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/bench/callback_plugins"),
                "ANSIBLE_CALLBACKS_ENABLED": "module_calls",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_FORCE_COLOR": "0",
                "PYTHONUNBUFFERED": "1",
                "MODULE_CALLS_LOG": log.name,
            }
            # Without bytecode every task's process compiles Ansible's plugins and ours again: a third of a run's time.
            env.pop("PYTHONDONTWRITEBYTECODE", None)
            start = time.monotonic()
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            lines: list[str] = []
            killed = False
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if kill_at is not None and kill_at in line and not killed:
                    time.sleep(kill_after)
                    workers = descendants(process.pid)
                    os.killpg(process.pid, signal.SIGKILL)
                    for pid in workers:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    killed = True
                if at is not None and act is not None and at in line:
                    act()
                    at = None
                if time.monotonic() - start > timeout:
                    os.killpg(process.pid, signal.SIGKILL)
                    lines.append(f"KILLED: no end after {timeout} s\n")
                    break
            rc = process.wait()
            calls = tuple(tuple(row.rstrip("\n").split("\t")) for row in log)
        return Run(rc, "".join(lines), time.monotonic() - start, killed, calls)

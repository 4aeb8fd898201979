"""The host under faults: provoke one, run site.yml, and look at what came of it with eyes of its own."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import time
import typing as t

import yaml

from playbooks import ROOT, Playbooks, Run

UNIT = "sglang-qwen.service"
SCENARIO = pathlib.Path(__file__).resolve().parents[1]
LAB = yaml.safe_load((SCENARIO / "inventory/group_vars/all/scenario.yml").read_text())["lab_name"]
VARIABLES = yaml.safe_load((SCENARIO / "inventory/group_vars/sglang_hosts/instances.yml").read_text())
INSTANCE: dict[str, t.Any] = VARIABLES["sglang_instances"][0]
# Prints each GPU's memory holders as "index unit" (the lab's GPUs keep them in files; see tests/lab/README.md).
HOLDERS = """
import json, pathlib
for path in pathlib.Path("/run/lab-gpus/holders").glob("*.json"):
    entry = json.loads(path.read_text())
    stat = pathlib.Path("/proc", str(entry["pid"]), "stat")
    if stat.exists() and int(stat.read_text().rpartition(")")[2].split()[19]) == entry["starttime"]:
        group = pathlib.Path("/proc", str(entry["pid"]), "cgroup").read_text().strip()
        for index, mib in entry["gpus"].items():
            if mib:
                print(index, group.rsplit("/", 1)[-1])
"""


@dataclasses.dataclass
class Row:
    """A line of the table."""

    fault: str
    expected: str
    seen: str
    seconds: float
    right: bool = False

    @staticmethod
    def table(rows: list[Row]) -> str:
        """All lines as Markdown."""
        lines = ["| fault | expected | seen | s | |", "| --- | --- | --- | --- | --- |"]
        for row in rows:
            mark = "ok" if row.right else "WRONG"
            lines.append(f"| {row.fault} | {row.expected} | {row.seen} | {row.seconds:.0f} | {mark} |")
        return "\n".join(lines) + "\n"


class Bench:
    """One host and the playbooks."""

    def __init__(self, host: t.Any, playbooks: Playbooks, rows: list[Row]) -> None:
        self.host = host
        self.playbooks = playbooks
        self.rows = rows

    def serve(self, fault: dict[str, t.Any] | None = None, **keys: t.Any) -> Run:
        """site.yml, as far as the service, with a fault in the instance's environment and other keys of it."""
        return self.playbooks.run("site.yml", "--tags", "sglang_service", variables=self.variables(fault, **keys))

    @staticmethod
    def variables(fault: dict[str, t.Any] | None = None, **keys: t.Any) -> dict[str, t.Any]:
        """The scenario's instance with a fault and other keys; dictionaries are merged."""
        changed = dict(INSTANCE)
        if fault:
            keys["env"] = {**keys.get("env", {}), "SGLANG_STANDIN": json.dumps({"time_scale": 0.02, **fault})}
        for key, value in keys.items():
            changed[key] = {**changed.get(key, {}), **value} if isinstance(value, dict) else value
        return {"sglang_instances": [changed]}

    def report(self) -> dict[str, t.Any]:
        """What deploy_report wrote of the last run."""
        assert self.playbooks.reports is not None
        loaded: dict[str, t.Any] = json.loads((self.playbooks.reports / "sglang1.json").read_text())
        return loaded

    def page(self) -> str:
        """The same for people."""
        assert self.playbooks.reports is not None
        return (self.playbooks.reports / "sglang1.md").read_text()

    def show(self, name: str, unit: str = UNIT) -> str:
        """A property of a unit."""
        return str(self.host.check_output(f"systemctl show -P {name} {unit}"))

    def proof(self) -> dict[str, t.Any]:
        """The last proof."""
        loaded: dict[str, t.Any] = json.loads(self.host.file("/var/lib/sglang/qwen/proof.json").content_string)
        return loaded

    def strangers(self) -> list[str]:
        """Holders of GPU memory that are no part of the instance's unit."""
        out = self.host.check_output("python3 -c %s", HOLDERS)
        return sorted({line for line in out.splitlines() if not line.endswith(" " + UNIT)})

    def serves(self) -> list[str]:
        """What is wrong with the service; empty when it serves what was good, proved, with the GPUs its own."""
        faults = []
        if self.show("ActiveState") != "active":
            faults.append(f"the unit is {self.show('ActiveState')}")
        if self.show("UnitFileState") != "enabled":
            faults.append("the unit does not start at boot")
        proof = self.proof()
        if not proof["passed"] or proof["invocation_id"] != self.show("InvocationID"):
            faults.append("this start is not proved")
        if '"fault' in self.host.file("/etc/sglang/qwen.env").content_string:
            faults.append("the environment still holds the fault")
        if self.host.file("/var/lib/sglang/qwen/pending.json").exists:
            faults.append("the mark of a deployment is left")
        if self.strangers():
            faults.append(f"GPU memory is held by {self.strangers()}")
        return faults

    def until(self, what: t.Callable[[], bool], seconds: float) -> bool:
        """Whether something became true in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if what():
                    return True
            except (AssertionError, OSError, ValueError, KeyError, RuntimeError):
                pass  # the host is down, or a file is not written yet
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)

    def on(self, host: str, command: str) -> str:
        """Run a command on a host of the lab past Ansible."""
        words = [sys.executable, str(ROOT / "tests/lab/lab.py"), "--lab", LAB, "ssh", host, command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120).stdout

    def power(self, command: str) -> None:
        """Let the guest's power go, from pve1; kept connections to it are given up first, or they would hang."""
        for socket in (pathlib.Path("/run/blackwell-sglang-lab") / LAB).glob("10.*"):
            subprocess.run(
                ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "guest"], capture_output=True, check=False
            )
        self.on("pve1", command)

    def note(self, fault: str, expected: str, seen: str, started: float) -> Row:
        """Add a line to the table; it counts as wrong until ``right`` is set."""
        row = Row(fault, expected, seen, time.monotonic() - started)
        self.rows.append(row)
        return row

    def require_quiet(self) -> None:
        """The service serves as wanted; if an earlier test left it otherwise, put it right first."""
        if self.serves():
            self.tidy()
            run = self.serve()
            assert run.rc == 0, run.output
            assert self.serves() == [], self.serves()

    def tidy(self) -> None:
        """Take away what tests put beside the service."""
        self.host.run("systemctl stop sglang-test-stranger.service")
        self.host.run("rm -f /etc/sglang-standin.json /tmp/sglang-standin-*.count")
        self.on("pve1", "rm -f /run/lab-gpus/stuck.json")

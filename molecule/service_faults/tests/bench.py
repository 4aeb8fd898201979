"""The host under faults: provoke one, deploy it, and look at what came of it with eyes of its own."""

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
# What the service and the GPUs are like now, in one call, as JSON. The lab's GPUs keep their holders in files
# (tests/lab/README.md); ``age`` is the holder's start after that of the unit's main process, in clock ticks.
LOOK = """
import json, pathlib, subprocess
def started(pid):
    try:
        return int(pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1
def text(path):
    path = pathlib.Path(path)
    return path.read_text() if path.exists() else ""
names = "ActiveState,UnitFileState,InvocationID,MainPID,NRestarts"
out = subprocess.run(["systemctl", "show", "-p", names, "UNIT"], capture_output=True, text=True).stdout
seen = dict(line.split("=", 1) for line in out.splitlines())
seen["holders"] = []
for path in pathlib.Path("/run/lab-gpus/holders").glob("*.json"):
    entry = json.loads(text(path) or "{}")
    if entry and started(entry["pid"]) == entry["starttime"]:
        unit = text(f"/proc/{entry['pid']}/cgroup").strip().rsplit("/", 1)[-1]
        age = entry["starttime"] - started(seen["MainPID"])
        seen["holders"].append({**entry, "unit": unit, "age": age, "key": f"{entry['pid']} {entry['starttime']}"})
seen["proof"] = json.loads(text("/var/lib/sglang/qwen/proof.json") or "{}")
seen["faulty"] = '"fault' in text("/etc/sglang/qwen.env") + text("/etc/sglang-standin.json")
seen["pending"] = pathlib.Path("/var/lib/sglang/qwen/pending.json").exists()
seen["watched"] = json.loads(text("/run/lab-test-watch.json") or "{}")
print(json.dumps(seen))
""".replace("UNIT", UNIT)
# Keeps the most that each process ever held, so that what a failed server held is known when it is gone.
WATCH = """
import json, os, pathlib, time
most = {}
while True:
    for path in pathlib.Path("/run/lab-gpus/holders").glob("*.json"):
        try:
            entry = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        key = f"{entry['pid']} {entry['starttime']}"
        most[key] = max(most.get(key, 0), sum(entry["gpus"].values()))
    part = pathlib.Path("/run/lab-test-watch.part")
    part.write_text(json.dumps(most))
    part.replace("/run/lab-test-watch.json")
    time.sleep(0.1)
"""
CARDS = 8
SSH_FAILED = 255


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
        """What site.yml does for the service, with a fault in the instance's environment and other keys of it."""
        return self.playbooks.run(str(SCENARIO / "serve.yml"), variables=self.variables(fault, **keys))

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

    def look(self) -> dict[str, t.Any]:
        """What LOOK prints."""
        loaded: dict[str, t.Any] = json.loads(self.host.check_output("python3 -c %s", LOOK))
        return loaded

    def strangers(self) -> list[str]:
        """Holders of GPU memory that are no part of the instance's unit."""
        return sorted({each["unit"] for each in self.look()["holders"] if each["unit"] != UNIT})

    def used_mib(self) -> list[int]:
        """Memory in use on each GPU, as the driver says."""
        out = self.host.check_output("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits")
        return [int(line) for line in out.split()]

    def serves(self, seen: dict[str, t.Any] | None = None) -> list[str]:
        """What is wrong with the service; empty when it serves what was good, proved, with the GPUs its own.

        Its own means: the processes of this very start hold memory on every card, and nobody else does.
        """
        seen = seen or self.look()
        faults = []
        if seen["ActiveState"] != "active":
            faults.append(f"the unit is {seen['ActiveState']}")
        if seen["UnitFileState"] != "enabled":
            faults.append("the unit does not start at boot")
        if not seen["proof"].get("passed") or seen["proof"]["invocation_id"] != seen["InvocationID"]:
            faults.append("this start is not proved")
        if seen["faulty"]:
            faults.append("the environment still holds the fault")
        if seen["pending"]:
            faults.append("the mark of a deployment is left")
        mine = [each for each in seen["holders"] if each["unit"] == UNIT and each["age"] >= 0]
        others = sorted({f"{each['unit']} {each['key']}" for each in seen["holders"] if each not in mine})
        if others:
            faults.append(f"GPU memory is held by {others}")
        held = {index for each in mine for index, mib in each["gpus"].items() if mib > 10_000}
        if len(held) < CARDS:
            faults.append(f"the server holds memory on {len(held)} of {CARDS} GPUs")
        return faults

    def watch(self) -> None:
        """From now on keep how much memory each process holds at most."""
        self.host.run(
            "systemctl is-active -q lab-test-watch || systemd-run --collect --unit=lab-test-watch python3 -c %s", WATCH
        )

    def failed_gib(self, before: dict[str, t.Any], after: dict[str, t.Any]) -> float:
        """GiB that processes held which came after ``before`` and are gone by ``after``: those of the failed start."""
        known = {each["key"] for each in before["holders"] + after["holders"]}
        return sum(mib for key, mib in after["watched"].items() if key not in known | set(before["watched"])) / 1024

    def proved_again(self, before: str) -> bool:
        """Whether another start than ``before`` serves and the verifier on the host proved it."""
        proof = self.proof()
        return self.serves() == [] and self.show("InvocationID") != before and proof["by"] == "verifier"

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
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode != SSH_FAILED, f"{host}: {command}: {done.stderr}"
        return done.stdout

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
        self.host.run("systemctl kill -s KILL lab-test-stranger.service lab-test-ours.service")
        self.host.run("rm -f /etc/sglang-standin.json /tmp/sglang-standin-*.count")
        self.on("pve1", "rm -f /run/lab-gpus/stuck.json")

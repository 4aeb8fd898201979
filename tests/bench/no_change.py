"""What a run that changes nothing costs: module calls, bare commands and seconds.

usage: no_change.py [--inventory inventories/lab] [--playbook site.yml] [--runs 3] [--budget 12] [--json]

The hosts must have been converged before (for instance by `make demo`). Exit 1 when a run changes something, fails, or
makes more module calls than the budget. Seconds are printed, never judged: they depend on the machine.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


def one_run(inventory: str, playbook: str) -> dict[str, object]:
    """Run the playbook once; calls by host, the recap and the wall time in seconds."""
    with tempfile.NamedTemporaryFile(mode="r", suffix=".calls", encoding="utf-8") as log:
        env = os.environ | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/bench/callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "module_calls",
            "ANSIBLE_NOCOLOR": "1",
            "MODULE_CALLS_LOG": log.name,
        }
        command = [str(ROOT / ".venv/bin/ansible-playbook"), playbook, "-i", inventory]
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - start
        calls = [line.rstrip("\n").split("\t") for line in log]
    recap = {m[1]: {"ok": int(m[2]), "changed": int(m[3]), "failed": int(m[5])} for m in RECAP.finditer(done.stdout)}
    return {"rc": done.returncode, "seconds": seconds, "calls": calls, "recap": recap, "output": done.stdout}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inventory", default="inventories/lab")
    parser.add_argument("--playbook", default="site.yml")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--budget", type=int, default=12, help="module calls of one run, over all hosts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    runs = [one_run(options.inventory, options.playbook) for _ in range(options.runs)]
    worst, failures = 0, []
    for number, run in enumerate(runs, 1):
        modules = [call for call in run["calls"] if call[0] == "module"]
        worst = max(worst, len(modules))
        changed = {host: r["changed"] for host, r in run["recap"].items() if r["changed"]}
        if run["rc"] != 0:
            failures.append(f"run {number} failed:\n{run['output'][-3000:]}")
        if changed:
            failures.append(f"run {number} changed something: {changed}")
    if worst > options.budget:
        failures.append(f"{worst} module calls, more than the budget of {options.budget}")

    last = runs[-1]
    by_host = collections.Counter(call[1] for call in last["calls"] if call[0] == "module")
    if options.json:
        print(
            json.dumps(
                {
                    "module_calls": worst,
                    "by_host": by_host,
                    "commands": sum(call[0] == "command" for call in last["calls"]),
                    "seconds": [round(run["seconds"], 2) for run in runs],
                    "failures": failures,
                },
                indent=2,
            )
        )
    else:
        for kind, host, name, task in last["calls"]:
            print(f"{kind:8} {host:16} {name:48} {task}")
        median = statistics.median(run["seconds"] for run in runs)
        print(f"module calls in one run: {worst} (budget {options.budget}); by host: {dict(by_host)}")
        print(f"seconds: median {median:.1f} of {options.runs} runs")
        for failure in failures:
            print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

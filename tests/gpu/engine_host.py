# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host that check_engine.py works on: how modules, playbooks and units are run there, and what is kept of them."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import time
import typing as t

RELEASE = "20261129T000000Z-0123abcd"
HOST = "gpu1"
NAME = "tiny"
PORT = 30000
ARGS: dict[str, t.Any] = {
    "host": "127.0.0.1",
    "port": PORT,
    "served_model_name": "tiny",
    "kv_cache_dtype": "bf16",
    "attention_backend": "triton",
    "sampling_backend": "pytorch",
    "mem_fraction_static": 0.5,
    "cuda_graph_max_bs": 64,
    "disable_piecewise_cuda_graph": True,
}


@dataclasses.dataclass
class Check:
    """One line of the table."""

    part: str
    what: str
    expected: str
    seen: str
    passed: bool
    seconds: float


class Lab:
    """Runs modules, playbooks and units, and keeps what came of them."""

    def __init__(self, base: pathlib.Path, out: pathlib.Path) -> None:
        self.base, self.out = base, out
        self.part = ""
        self.checks: list[Check] = []
        self.numbers = 0
        out.mkdir(parents=True, exist_ok=True)
        self.environment = json.loads((base / "environment.json").read_text(encoding="utf-8"))
        self.inventory = base / "inventory.json"
        self.env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(base / "collections"),
            "ANSIBLE_HOME": str(base / "ansible"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        self.instance()

    def checkpoint(self, name: str) -> str:
        """Folder of a checkpoint."""
        return str(self.base / "checkpoints" / name)

    def instance(self, checkpoint: str = "fp8", extra: dict[str, t.Any] | None = None, **args: t.Any) -> None:
        """Write the inventory with one instance."""
        one = {
            "name": NAME,
            "stack": "gpu_check",
            "model_path": self.checkpoint(checkpoint),
            "args": {**ARGS, **args},
            "env": self.environment,
            "gpus": [0],
            "need": {"context": 131072, "concurrent": 8},
            "gate": {"ready_timeout": 330},
            **(extra or {}),
        }
        one = {key: value for key, value in one.items() if value is not None}
        one["args"] = {key: value for key, value in one["args"].items() if value is not None}
        python = str(self.base / "controller" / "bin" / "python")
        stack = {
            "channel": "wheelhouse",
            "requirements": {"sglang": {"version": "==" + os.environ.get("ENGINE_VERSION", "0.5.12.post1")}},
            "overrides": [],
        }
        hostvars = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": python,
            "sglang_guest_kind": "none",
            "sglang_stacks": {"gpu_check": stack},
            "sglang_service_releases": {NAME: RELEASE},
            "sglang_report_dir": str(self.out / "reports"),
            "sglang_instances": [one],
            # The unit hides /home and /root, where this host's python may live.
            "sglang_service_unit_options": {"ProtectHome": "read-only"} if in_a_home(python) else {},
        }
        inventory = {"all": {"children": {"sglang_hosts": {"hosts": {HOST: hostvars}}}}}
        self.inventory.write_text(json.dumps(inventory, indent=1), encoding="utf-8")

    def resolved(self) -> dict[str, t.Any]:
        """The instance as the collection resolves it."""
        result = self.module("sglang_resolve", {})[0]
        instance: dict[str, t.Any] = result["resolved"]["instances"][0]
        return instance

    def module(self, name: str, args: dict[str, t.Any], keep: str = "") -> tuple[dict[str, t.Any], float]:
        """Run one module of the collection as ``ansible -m`` does: its result and the seconds of the whole call."""
        self.numbers += 1
        tree = self.base / "results" / f"{self.numbers}"
        words = ["ansible", "adhoc", HOST, "-i", str(self.inventory), "-m", f"blackwell.sglang.{name}"]
        done, seconds = self._ansible([*words, *(["-a", json.dumps(args)] if args else []), "--tree", str(tree)])
        path = tree / HOST
        if not path.exists():
            raise SystemExit(f"{name} gave no result:\n{done.stdout}\n{done.stderr}")
        result: dict[str, t.Any] = json.loads(path.read_text(encoding="utf-8"))
        self.write(keep or name, result)
        return result, seconds

    def playbook(self, name: str, extra: dict[str, t.Any] | None = None) -> tuple[int, str, float]:
        """Run a playbook: status, output, seconds."""
        self.numbers += 1
        words = ["ansible", "playbook", "-v", "-i", str(self.inventory), name, "-e", json.dumps(extra or {})]
        done, seconds = self._ansible(words)
        safe = name.rsplit("/", 1)[-1].rsplit(".", 1)[-1 if "/" not in name else 0]
        self.write(f"{self.numbers}_playbook_{safe}", done.stdout + done.stderr)
        return done.returncode, done.stdout + done.stderr, seconds

    def _ansible(self, words: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        begun = time.monotonic()
        python = str(self.base / "controller" / "bin" / "python")
        done = subprocess.run([python, "-m", *words], env=self.env, capture_output=True, text=True, check=False)
        return done, time.monotonic() - begun

    def start(self, name: str, checkpoint: str, args: list[str], cache: str = NAME) -> None:
        """Start an engine by hand in a unit of its own, with the launcher of the role."""
        words = ["--model-path", self.checkpoint(checkpoint), "--host", "127.0.0.1", *args]
        settings = [f"--setenv={key}={value}" for key, value in self.environment.items()]
        folders = [
            f"--property=CacheDirectory=sglang/{cache}",
            f"--property=WorkingDirectory=/var/cache/sglang/{cache}",
        ]
        launch = ["/usr/bin/python3", str(self.launcher()), "--release", f"/opt/sglang/releases/{RELEASE}"]
        command = [*launch, "--cache", f"/var/cache/sglang/{cache}", "--", *words]
        unit = ["systemd-run", f"--unit=sglang-{name}", "--uid=sglang", "--gid=sglang", "--property=KillMode=mixed"]
        subprocess.run([*unit, "--property=RemainAfterExit=no", *folders, *settings, *command], check=True)

    def launcher(self) -> pathlib.Path:
        """The role's launcher."""
        return self.base / "collection/roles/sglang_service/files/sglang_launch.py"

    def active(self, name: str) -> bool:
        """Whether a unit runs."""
        done = subprocess.run(["systemctl", "is-active", "-q", f"sglang-{name}.service"], check=False)
        return done.returncode == 0

    def check(self, what: str, expected: str, seen: t.Any, passed: bool, seconds: float = 0.0) -> None:
        """Add a line to the table, on the screen too."""
        line = Check(self.part, what, expected, str(seen)[:600], bool(passed), round(seconds, 1))
        self.checks.append(line)
        print(f"{'ok  ' if passed else 'FAIL'} {self.part}: {what}: {line.seen} ({line.seconds} s)", flush=True)
        self.write("checks", [dataclasses.asdict(each) for each in self.checks])

    def write(self, name: str, content: t.Any) -> None:
        """Keep something under OUT; a part's files are named after it."""
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        suffix = "txt" if isinstance(content, str) else "json"
        (self.out / f"{self.part or 'all'}.{name}.{suffix}").write_text(text, encoding="utf-8")


def in_a_home(python: str) -> bool:
    """Whether an interpreter really lies in somebody's home."""
    return str(pathlib.Path(python).resolve()).startswith(("/root/", "/home/"))


def journal(unit: str, since: float = 0.0) -> str:
    """The journal of a unit, since a moment (seconds of the epoch)."""
    words = ["journalctl", "--quiet", "--no-pager", "--all", "--output=cat", "-u", unit, f"--since=@{since:.0f}"]
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout


def in_use() -> int:
    """MiB in use on the first GPU."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    out = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return int(float(out.split()[0])) if out.split() else -1


def healthy() -> bool:
    """Whether /health answers 200."""
    words = ["curl", "-s", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{PORT}/health"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout == "200"


def started() -> str:
    """InvocationID of the service, empty when it does not run."""
    words = ["systemctl", "show", "--value", "-p", "InvocationID", f"sglang-{NAME}.service"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def recap(out: str) -> str:
    """The last line about the host, or the last lines."""
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(f"{HOST} ") and "ok=" in line]
    return told[-1] if told else " / ".join(lines[-3:])

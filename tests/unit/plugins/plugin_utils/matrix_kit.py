"""Run the backend matrix against real stand-in engines on loopback, with a systemd of a few lines in between.

The engine, its HTTP, its faults, the drop-in, the waiting, the probes and the benchmark client are the real ones; only
systemctl, journalctl and nvidia-smi are imitated here, since a checkout's tests do not run as units. The lab's scenario
does the same under a real systemd.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import types
import uuid
from pathlib import Path
from typing import Any

from ansible_collections.blackwell.sglang.plugins.module_utils import _bench_job, _bench_plan, _matrix_unit, _service
from ansible_collections.blackwell.sglang.plugins.modules import backend_matrix_step, sglang_benchmark_job

ROOT = Path(__file__).resolve().parents[4]
LAB = ROOT / "tests" / "lab"
UNIT = """[Service]
ExecStart=/opt/sglang/lib/sglang_launch.py \\
    --release /opt/sglang/instances/qwen/release \\
    --cache /var/cache/sglang/qwen \\
    -- \\
    --model-path /models/qwen
"""


class Systemd:
    """systemctl, journalctl and nvidia-smi for one unit."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = {"holders_dir": str(folder / "holders"), "gpus": {"count": 8}, **settings}
        self.process: subprocess.Popen[bytes] | None = None
        self.invocation = ""
        self.starts = 0
        self.words: list[str] = []
        (folder / "holders").mkdir(exist_ok=True)

    def run(self, words: list[str]) -> tuple[int, str, str]:
        """Answer one command."""
        if words[0] == "journalctl":
            return 0, self._journal("--output=json" in words), ""
        if words[0] != "systemctl":
            return 127, "", f"{words[0]}: not here"
        verb = words[1]
        if verb == "show":
            return 0, self._show(), ""
        if verb == "stop":
            self.stop()
        if verb == "start":
            self.start()
        return 0, "", ""

    def start(self) -> None:
        """Start what the drop-in says."""
        text = (self.folder / "run/sglang-qwen.service.d/90-backend-matrix.conf").read_text(encoding="utf-8")
        line = text.replace("\\\n", " ").split("ExecStart=\n", 1)[1].splitlines()[0]
        self.words = shlex.split(line)[shlex.split(line).index("--") + 1 :]
        self.invocation = uuid.uuid4().hex
        self.starts += 1
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(LAB / "engine"), "COLUMNS": "80"}
        environment["SGLANG_STANDIN"] = json.dumps(self.settings)
        with (self.folder / f"{self.invocation}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sglang.launch_server", *self.words],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                cwd=self.folder,
            )

    def stop(self) -> None:
        """End it as systemd does: TERM, then KILL to all that is left."""
        if self.process is None:
            return
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self.process = None

    def _journal(self, as_json: bool) -> str:
        path = self.folder / f"{self.invocation}.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if not as_json:
            return text
        begun = {"MESSAGE": "Started", "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf", "_PID": "1"}
        lines = [{"MESSAGE": line, "_PID": "2", "_STREAM_ID": "a"} for line in text.splitlines()]
        return "\n".join(json.dumps(entry) for entry in [begun, *lines])

    def _show(self) -> str:
        status = self.process.poll() if self.process else None
        active, sub = ("inactive", "dead") if self.process is None else ("active", "running")
        if status is not None:
            active, sub = "failed", "failed"
        fields = {
            "Id": "sglang-qwen.service",
            "LoadState": "loaded",
            "ActiveState": active,
            "SubState": sub,
            "Result": "exit-code" if status else "success",
            "InvocationID": self.invocation,
            "MainPID": self.process.pid if self.process else 0,
            "ExecMainStatus": status or 0,
        }
        return "\n".join(f"{key}={value}" for key, value in fields.items()) + "\n"


class Host:
    """A host as the controller's code sees it: ``call`` runs the functions of the real modules in this process."""

    def __init__(self, folder: Path, systemd: Systemd, python: Path | None) -> None:
        self.systemd = systemd
        self.python = python
        self.places = _service.Places(
            "qwen", root=str(folder / "opt"), unit_root=str(folder / "unit"), runtime_root=str(folder / "run")
        )
        self.places.unit_file.parent.mkdir(exist_ok=True)
        self.places.unit_file.write_text(UNIT, encoding="utf-8")
        self.jobs = folder / "jobs"
        self.jobs.mkdir(exist_ok=True)
        self.screen: list[str] = []

    def call(self, module: str, args: dict[str, Any]) -> dict[str, Any]:
        """Run one module call."""
        if module.endswith("backend_matrix_step"):
            return self._step(args)
        return self._job(args)

    def listeners(self, port: int) -> list[dict[str, Any]]:
        """Who listens on a port: the unit's process, when the port is open."""
        with socket.socket() as probe:
            probe.settimeout(0.5)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return []
        pid = self.systemd.process.pid if self.systemd.process else 0
        return [{"pid": pid, "name": "python", "user": "sglang", "unit": self.places.unit, "address": "127.0.0.1"}]

    def _step(self, args: dict[str, Any]) -> dict[str, Any]:
        given = {"invocation_id": "", "seconds": 5.0, "request_timeout": 20.0, "part": "gate", "lengths": None}
        given |= {"concurrent": 64, "long_tokens": 0, "token_ids": None, **args}
        module: Any = types.SimpleNamespace(params=given)
        run = self.systemd.run
        if args["step"] == "start":
            env = args.get("env") or {}
            return {"invocation_id": _matrix_unit.start(run, self.places, args["words"], env)}
        if args["step"] == "wait":
            given["seconds"] = min(given["seconds"], 0.5)
            return backend_matrix_step.wait(module, run, self.places)
        if args["step"] == "probe":
            return backend_matrix_step.probe(module, run, self.places)
        if args["step"] == "stop":
            return _matrix_unit.stop(run, self.places, "all", 5.0)
        raise AssertionError(args["step"])

    def _job(self, args: dict[str, Any]) -> dict[str, Any]:
        module: Any = types.SimpleNamespace(params={"python": str(self.python), **args})
        if args["step"] == "probe":
            return sglang_benchmark_job.probe(module, self.places)
        if args["step"] == "start":
            return _bench_job.start(
                _run_with_environment,
                python=str(self.python),
                base_url=f"http://127.0.0.1:{args['instance']['listen']['port']}",
                model_path=args["instance"]["model_path"],
                tokenizer="",
                level=_bench_plan.Level(**args["level"]),
                shape=_bench_plan.Shape(**args["shape"]),
                instant=bool(args.get("instant")),
                parent=str(self.jobs),
            )
        if args["step"] == "look":
            return _bench_job.look(args["folder"], _bench_plan.Level(**args["level"]), args["seconds"])
        _bench_job.remove(args["folder"], str(self.jobs))
        return {}


def _run_with_environment(words: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_closed(port: int, seconds: float = 5.0) -> bool:
    """Whether a port closes in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.05)
    return False

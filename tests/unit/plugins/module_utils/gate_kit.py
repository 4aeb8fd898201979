"""A host for the gate: the stand-in engine as a real process on loopback, systemd's answers drawn from that process."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.append(str(ROOT / "tests" / "unit" / "lab" / "engine"))

from ansible_collections.blackwell.sglang.plugins.module_utils import _gate_run, _procs, _service, _unit_log
from lab_engine_kit import LAB_FLAGS, Engine

INVOCATION = "0123456789abcdef0123456789abcdef"
UNIT = "sglang-qwen.service"
# The lab's card.
TOTAL_MIB = 97887


class Host:
    """Answers systemctl, journalctl and nvidia-smi from what the process really does."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
        self.engine = engine
        self.invocation = INVOCATION
        self.places = _service.Places(
            "qwen",
            root=str(folder / "opt"),
            state_root=str(folder / "state"),
            config_root=str(folder / "etc"),
            unit_root=str(folder / "units"),
            cache_root=str(folder / "cache"),
        )
        # No unit in a unit test: membership of the session that the engine was started in stands for the cgroup.
        monkeypatch.setattr(_procs, "unit_of", self._unit_of)
        # Engines of a lab on this machine have its device nodes open.
        monkeypatch.setattr(_procs, "gpu_users", dict)
        monkeypatch.setattr(_unit_log.shutil, "which", lambda name: f"/usr/bin/{name}")

    def _unit_of(self, pid: int) -> str:
        try:
            return UNIT if os.getsid(pid) == self.engine.process.pid else "user.scope"
        except ProcessLookupError:
            return ""

    def run(self, words: list[str]) -> tuple[int, str, str]:
        """Run a command of the host."""
        if words[0] == "systemctl":
            return 0, self._show(), ""
        if words[0] == "journalctl":
            lines = self.engine.text().splitlines()
            if "--output=cat" in words:
                return 0, "\n".join(lines), ""
            begun = {"MESSAGE": "Starting", "MESSAGE_ID": "7d4958e842da4a758f6c1cdc7b36dcc5"}
            return 0, "\n".join(json.dumps(entry) for entry in [begun, *({"MESSAGE": line} for line in lines)]), ""
        if "--query-gpu=index,uuid,memory.used,memory.total" in words:
            return 0, "".join(f"{index}, GPU-{index}, 0, {TOTAL_MIB}\n" for index in range(8)), ""
        return (0, "", "") if words[0] == "nvidia-smi" else (127, "", f"{words[0]}: not found")

    def _show(self) -> str:
        status = self.engine.process.poll()
        state = {
            "Id": UNIT,
            "LoadState": "loaded",
            "ActiveState": "active" if status is None else "failed",
            "SubState": "running" if status is None else "failed",
            "Result": "success" if status is None else "exit-code",
            "InvocationID": self.invocation,
            "MainPID": str(self.engine.process.pid),
            "ExecMainStatus": str(abs(status or 0)),
            "NRestarts": "0",
            "UnitFileState": "enabled",
        }
        return "".join(f"{key}={value}\n" for key, value in state.items())

    def gate(self, model: pathlib.Path, **settings: Any) -> dict[str, Any]:
        """Run the gate against the engine."""
        quick = settings.pop("quick", False)
        ordered = settings.pop("instance", {})
        context = _gate_run.context_of(
            self.run, {**instance(self.engine, model, settings), **ordered}, self.places, None
        )
        return _gate_run.run_gate(context, quick=quick)


Serve = Callable[..., Host]


def instance(engine: Engine, model: pathlib.Path, gate: dict[str, Any]) -> dict[str, Any]:
    """What the resolver would say of the lab's deployment."""
    return {
        "name": "qwen",
        "unit": UNIT,
        "model_path": str(model),
        "gpus": "all",
        "listen": {"host": "127.0.0.1", "port": engine.port},
        "served_model_name": "qwen",
        "args": {
            "tp_size": 8,
            "kv_cache_dtype": "bf16",
            "attention_backend": "triton",
            "moe_runner_backend": "flashinfer_cutlass",
            "fp4_gemm_runner_backend": "flashinfer_cudnn",
            "quantization": "modelopt_fp4",
        },
        "tp_size": 8,
        "kv_cache_dtype": "bf16",
        "engine_version": "0.5.12.post1",
        "exceptions": [],
        "gate": {"ready_timeout": 30, "request_timeout": 20, **gate},
    }


def failed(result: dict[str, Any]) -> list[str]:
    """Ids of the checks that failed."""
    return [check["id"] for check in result["checks"] if check["passed"] is False]


__all__ = ["LAB_FLAGS", "Engine"]

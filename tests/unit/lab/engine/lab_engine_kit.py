"""Run the stand-in engine as a real process on loopback: what the fixtures and tests of this folder share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
LAB = ROOT / "tests" / "lab"
for _folder in ("engine", "checkpoint", "wheels"):
    sys.path.append(str(LAB / _folder))

import write
from sglang._standin import gpus

__all__ = ["write"]

# The cards of the captures and those of the lab.
H200 = {"count": 2, "memory_mib": 143771, "compute_cap": 9.0}
RTX_PRO_6000 = {"count": 8}


@dataclass
class Engine:
    """A started server: its process, its log, its endpoints."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    holders: Path
    api_key: str | None = None
    seen: list[int] = field(default_factory=list)

    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8")

    def lines(self) -> list[str]:
        """The log so far without timestamps."""
        stamped = [line for line in self.text().splitlines() if line.startswith("[20")]
        return [line.partition("] ")[2] for line in stamped]

    def ask(self, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> tuple[int, str]:
        """Return status and text; status 0 where nobody listens."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if key or self.api_key:
            request.add_header("Authorization", f"Bearer {key or self.api_key}")
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return int(reply.status), reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def json(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the decoded body of a request that must succeed."""
        status, text = self.ask(path, body)
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)

    def wait(self, seconds: float = 20.0) -> Engine:
        """Poll /health until it is 200, remembering every status on the way."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.ask("/health")[0]
            if not self.seen or self.seen[-1] != status:
                self.seen.append(status)
            if status == 200:
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"not ready, statuses {self.seen}, log:\n{self.text()[-3000:]}")

    def end(self, seconds: float = 20.0) -> int:
        """Wait until the process has ended and return its exit status."""
        return self.process.wait(seconds)

    def wait_for(self, text: str, seconds: float = 20.0) -> None:
        """Wait until the log holds `text`."""
        end = time.monotonic() + seconds
        while text not in self.text():
            assert time.monotonic() < end, f"no {text!r} in the log:\n{self.text()[-3000:]}"
            time.sleep(0.02)

    def held(self) -> dict[str, dict[str, int]]:
        """Holder files of living processes: name -> MiB per GPU."""
        found = {}
        for path in self.holders.glob("*.json"):
            holder = json.loads(path.read_text(encoding="utf-8"))
            if gpus.start_time(holder["pid"]) == holder["starttime"]:
                found[holder["name"]] = holder["gpus"]
        return found

    def stop(self) -> None:
        """End everything that was started, politely or not."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)
        for path in self.holders.glob("*.json"):
            holder = json.loads(path.read_text(encoding="utf-8"))
            title = Path(f"/proc/{holder['pid']}/cmdline")
            with contextlib.suppress(OSError):
                if title.read_text().startswith("sglang::"):
                    os.kill(holder["pid"], signal.SIGKILL)


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


Start = Callable[..., Engine]


def starter(folder: Path, started: list[Engine]) -> Start:
    """Return a function that starts servers whose files lie in `folder`."""

    def start(
        model: Path | str,
        *flags: str,
        cards: dict[str, Any] | None = None,
        time_scale: float = 0.002,
        port: int | None = None,
        env: dict[str, str] | None = None,
        **settings: Any,
    ) -> Engine:
        number = len(started)
        holders = folder / "holders"
        holders.mkdir(exist_ok=True)
        port = port or free_port()
        wanted = {"time_scale": time_scale, "gpus": cards or RTX_PRO_6000, "holders_dir": str(holders), **settings}
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(LAB / "engine"), **(env or {})}
        environment |= {"COLUMNS": "80", "SGLANG_STANDIN": json.dumps(wanted), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "sglang.launch_server",
            "--model-path",
            str(model),
            "--port",
            str(port),
            *flags,
        ]
        log = folder / f"server-{number}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, start_new_session=True)
        key = flags[flags.index("--api-key") + 1] if "--api-key" in flags else None
        engine = Engine(process, port, log, holders, key)
        started.append(engine)
        return engine

    return start


def capture_config() -> dict[str, Any]:
    """The attention geometry of the captured server's checkpoint: that of the 397B model, everything else small."""
    return {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "hidden_size": 512,
        "num_hidden_layers": 60,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "moe_intermediate_size": 128,
        "num_experts": 16,
        "vocab_size": 2048,
        "max_position_embeddings": 262144,
        "torch_dtype": "bfloat16",
    }


# The flags that the captured servers were started with, beside the port.
CAPTURE_FLAGS = (
    "--load-format", "dummy", "--host", "127.0.0.1", "--attention-backend", "triton", "--sampling-backend", "pytorch",
    "--cuda-graph-max-bs", "8", "--mem-fraction-static", "0.5", "--served-model-name", "tiny",
    "--disable-piecewise-cuda-graph",
)  # fmt: skip

# The flags of the deployment that the lab plays.
LAB_FLAGS = (
    "--tp-size", "8", "--quantization", "modelopt_fp4", "--attention-backend", "triton", "--moe-runner-backend",
    "flashinfer_cutlass", "--fp4-gemm-backend", "flashinfer_cudnn", "--kv-cache-dtype", "bf16", "--served-model-name",
    "qwen", "--mem-fraction-static", "0.85",
)  # fmt: skip

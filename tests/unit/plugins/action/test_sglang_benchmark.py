"""playbooks' way to a sweep: role, action, modules and files, against a stand-in engine on this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[4]
sys.path.append(str(ROOT / "tests/unit/plugins/plugin_utils"))

from matrix_kit import LAB, Host, Systemd, free_port

sys.path.append(str(LAB))

import bench_client

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: blackwell.sglang.sglang_benchmark}
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A function that runs the role with these variables; (exit status, screen, folder of reports)."""
    try:
        client = bench_client.interpreter()
    except (RuntimeError, OSError) as error:
        pytest.skip(f"the benchmark client of sglang 0.5.9 cannot be installed here: {error}")
    folder = tmp_path_factory.mktemp("action")
    model = folder / "model"
    command = [sys.executable, str(ROOT / "tests/lab/checkpoint/write.py"), str(model)]
    subprocess.run(command, check=True, capture_output=True)
    systemd = Systemd(folder, {"time_scale": 0.002})
    port = free_port()
    words = ["--model-path", str(model), "--port", str(port), "--tp-size", "8", "--quantization", "modelopt_fp4"]
    words += ["--attention-backend", "triton", "--trust-remote-code"]
    host = Host(folder, systemd, client)
    host.call("backend_matrix_step", {"step": "start", "instance": {"name": "qwen"}, "words": words})
    for _rest in range(300):
        time.sleep(0.2)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                break
        except OSError:
            continue
    instance = {
        "name": "qwen",
        "unit": "sglang-qwen.service",
        "state": "started",
        "model_path": str(model),
        "args": {},
        "listen": {"host": "127.0.0.1", "port": port},
    }
    play = folder / "play.yml"
    play.write_text(PLAY, encoding="utf-8")

    def run(*flags: str, **variables: Any) -> tuple[int, str, Path]:
        extra = {
            "ansible_python_interpreter": sys.executable,
            "sglang_resolved": {"host": {"root": "/opt/sglang", "user": "sglang"}, "instances": [instance]},
            "sglang_report_dir": str(folder / "reports"),
            "sglang_benchmark_python": str(client),
            "sglang_benchmark_levels": [1, 4],
            "sglang_benchmark_input_len": 24,
            "sglang_benchmark_output_len": 8,
            "sglang_benchmark_datasets": ["text"],
            "sglang_benchmark_ceiling": False,
            **variables,
        }
        env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        env["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / ".collections")
        words = [str(Path(sys.executable).with_name("ansible-playbook")), str(play), "-i", "localhost,", *flags]
        done = subprocess.run(
            [*words, "-e", json.dumps(extra)], env=env, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, done.stdout + done.stderr, folder / "reports"

    yield run
    systemd.stop()


def results(reports: Path) -> list[dict[str, Any]]:
    """Result files in the order of their times, the baseline left out."""
    files = (reports / "benchmark").glob("*Z.json")
    return sorted((json.loads(path.read_text(encoding="utf-8")) for path in files), key=lambda each: str(each["at"]))


@pytest.mark.slow
def test_check_mode_plans_and_measures_nothing(sweep: Any) -> None:
    status, screen, reports = sweep("--check")
    assert status == 0, screen
    assert "changed=0" in screen
    assert not reports.exists()


@pytest.mark.slow
def test_a_sweep_writes_result_baseline_and_report_and_a_loss_fails(sweep: Any) -> None:
    status, screen, reports = sweep(sglang_benchmark_ceiling=True, sglang_benchmark_levels=[1, 4, 400])
    assert status == 0, screen
    assert "the client's own ceiling at C=1" in screen
    assert "queue-limited by state slots" in screen
    found = results(reports)[0]
    schema = json.loads((ROOT / "docs/contracts/benchmark.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema, cls=jsonschema.Draft202012Validator)
    assert [(row["concurrency"], row["label"], row["ok"]) for row in found["levels"]] == [
        (1, "compute", 8),
        (4, "compute", 20),
        (400, "slots", 2000),
    ]
    page = (reports / "localhost.html").read_text(encoding="utf-8")
    assert "qwen: 24 tokens in, 8 out, real text" in page
    assert "<svg" in page
    # The same again, against a baseline that was ten times as fast.
    baseline = next((reports / "benchmark").glob("*.baseline.json"))
    stored = json.loads(baseline.read_text(encoding="utf-8"))
    for row in stored["levels"]:
        row["tok_s"] *= 10
    baseline.write_text(json.dumps(stored), encoding="utf-8")
    status, screen, reports = sweep(sglang_benchmark_regression="fail")
    assert status != 0
    assert "qwen became slower: C=1:" in screen
    assert results(reports)[-1]["comparison"]["verdict"] == "worse"


@pytest.mark.slow
def test_a_name_that_no_instance_has_is_refused(sweep: Any) -> None:
    status, screen, _reports = sweep(sglang_benchmark_instances=["qwem"])
    assert status != 0
    assert "names qwem; this host has qwen" in screen

"""What an operator does next: run again, make a mistake, meet an engine that computes nonsense."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from test_chain import invocation

from playbooks import Playbooks

# Probes of hypervisor, host, release and service, the gate, and room for what later roles add.
MODULE_CALLS = 12

INSTANCE = {
    "name": "qwen",
    "profile": "qwen3_5_397b_nvfp4",
    "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
    "args": {"tp_size": 8, "kv_cache_dtype": "bf16", "host": "127.0.0.1", "port": 30000},
    "env": {"NCCL_P2P_LEVEL": "SYS"},
}


def instance(**changes: t.Any) -> dict[str, t.Any]:
    """The scenario's instance with some keys changed; dicts are merged."""
    changed = dict(INSTANCE)
    for key, value in changes.items():
        changed[key] = {**t.cast(dict[str, t.Any], INSTANCE[key]), **value} if isinstance(value, dict) else value
    return {"sglang_instances": [changed]}


def test_a_second_run_changes_nothing_and_costs_little(host: t.Any, playbooks: Playbooks) -> None:
    before = invocation(host)
    run = playbooks.run()
    assert run.rc == 0, run.output
    assert run.changed == {}, run.output
    calls = [call[2] for call in run.module_calls]
    assert 0 < len(calls) <= MODULE_CALLS, calls
    assert invocation(host) == before


def test_auto_is_refused_before_anything_is_touched(host: t.Any, playbooks: Playbooks) -> None:
    before = invocation(host)
    run = playbooks.run(variables=instance(args={"kv_cache_dtype": "auto"}))
    assert run.rc != 0
    assert run.calls == ()  # nothing left the controller
    assert invocation(host) == before
    said = " ".join(run.output.split())
    assert "sglang_instances[0].args.kv_cache_dtype" in said  # where
    assert "fp8_e4m3" in said  # what would happen
    assert "kv_cache_dtype: bf16" in said  # what to write


def test_a_nan_engine_fails_the_run_and_the_service_comes_back(host: t.Any, playbooks: Playbooks) -> None:
    before = invocation(host)
    run = playbooks.run(variables=instance(env={"SGLANG_STANDIN": json.dumps({"fault": "nan"})}))
    assert run.rc != 0
    assert playbooks.reports is not None
    report = json.loads((playbooks.reports / "sglang1.json").read_text())
    assert report["result"] == "failed"
    (served,) = report["instances"]
    checks = {check["id"]: check for check in served["gate"]["checks"]}
    assert checks["ready.health"]["passed"], "the point is that /health is green"
    assert not checks["right.logprobs"]["passed"]
    page = (playbooks.reports / "sglang1.md").read_text()
    assert "NaN" in page
    # The last good release and unit serve again, gated.
    assert served["rollback"]["gate"]["passed"]
    assert host.service("sglang-qwen").is_running
    assert invocation(host) != before
    assert "SGLANG_STANDIN" not in host.file("/etc/sglang/qwen.env").content_string


@pytest.mark.parametrize("secret", ["s3cr3t-k3y-of-the-test"])
def test_no_secret_leaves_the_vault(host: t.Any, playbooks: Playbooks, secret: str) -> None:
    run = playbooks.run(variables=instance(api_key=secret))
    assert run.rc == 0, run.output
    try:
        assert secret not in run.output
        assert playbooks.reports is not None
        for page in playbooks.reports.iterdir():
            assert secret not in page.read_text(), page
        for command in (
            "journalctl --no-pager",
            "systemctl cat sglang-qwen.service",
            "cat /var/lib/sglang/runs.jsonl /var/lib/sglang/qwen/proof.json",
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' '",
        ):
            assert secret not in host.run(command).stdout, command
        assert host.file("/etc/sglang/qwen.api_key").mode == 0o600
        assert (
            "401"
            in host.run(
                "python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:30000/v1/models')\""
            ).stderr
        )
    finally:
        back = playbooks.run()
        assert back.rc == 0, back.output


def test_the_report_names_no_path_of_the_controller(playbooks: Playbooks) -> None:
    run = playbooks.run()
    assert run.rc == 0, run.output
    assert playbooks.reports is not None
    pages = sorted(playbooks.reports.iterdir())
    assert {"sglang1.md", "sglang1.json", "sglang1.html"} <= {page.name for page in pages}
    for page in pages:
        for path in (f"{pathlib.Path.home()}/", str(pathlib.Path(__file__).resolve().parents[3])):
            assert path not in page.read_text(), (page, path)

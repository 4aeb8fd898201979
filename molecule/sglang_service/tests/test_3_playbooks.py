"""The playbooks of an operator, one after the other against the same instance."""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import time
import typing as t

from playbooks import Playbooks

CONVERGE = "molecule/sglang_service/converge.yml"

SECRET = "k3y-that-must-never-be-seen"
INSTANCE = {
    "name": "qwen",
    "profile": "qwen3_5_397b_nvfp4",
    "stack": "lab",
    "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
}


# What is tried over the good service, and taken back.
WITH_KEY = {**INSTANCE, "args": {"max_running_requests": 24}, "api_key": SECRET}


def test_status_shows_the_proof_and_changes_nothing(playbooks: Playbooks, tmp_path: pathlib.Path) -> None:
    run = playbooks.run("playbooks/status.yml", variables={"sglang_status_json": str(tmp_path)})
    assert run.rc == 0, run.output
    assert run.changed == {}
    assert "qwen: active (running)" in run.output
    assert "KV cache bfloat16 (ok)" in run.output
    kept = json.loads((tmp_path / "sglang1.json").read_text())
    assert kept["gates"]["qwen"]["passed"]
    assert kept["last_errors"] == {}
    user = r"GPU 0: \d+ of 97887 MiB, sglang::scheduler_TP0 pid \d+ \(sglang, sglang-qwen\.service\)"
    assert re.search(user, run.output), run.output


def test_a_second_run_costs_one_call_of_this_role(playbooks: Playbooks, service: t.Any) -> None:
    before = service.show("InvocationID")
    run = playbooks.run(CONVERGE)
    assert run.rc == 0, run.output
    assert run.changed == {}, run.output
    calls = [call[2].rsplit(".", 1)[-1] for call in run.module_calls]
    assert [call for call in calls if call not in ("sglang_release_info", "sglang_release")] == ["sglang_status_info"]
    assert service.show("InvocationID") == before


def test_status_tells_why_systemd_restarted_the_service(
    host: t.Any, playbooks: Playbooks, service: t.Any, tmp_path: pathlib.Path
) -> None:
    before = service.show("InvocationID")
    host.check_output(f"kill -KILL {service.show('MainPID')}")
    deadline = time.monotonic() + 60
    ask = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:30000/health')"
    while service.show("InvocationID") == before or host.run("python3 -c %s", ask).rc != 0:
        assert time.monotonic() < deadline, host.check_output(f"systemctl status {service.unit} || true")
        time.sleep(1)
    run = playbooks.run("playbooks/status.yml", variables={"sglang_status_json": str(tmp_path)})
    assert run.rc == 0, run.output
    assert "last error (1 restart): " in run.output
    error = json.loads((tmp_path / "sglang1.json").read_text())["last_errors"]["qwen"]
    assert error["diagnosis"]["invocation_id"] == before
    assert abs(host_time(host) - time_of(error["at"])) < 120


def host_time(host: t.Any) -> float:
    return float(host.check_output("date +%s"))


def time_of(stamp: str) -> float:
    return datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z").timestamp()


def test_restart_proves_the_new_start(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    before = service.show("InvocationID")
    run = playbooks.run("playbooks/restart.yml")
    assert run.rc == 0, run.output
    assert service.show("InvocationID") != before
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    assert proof["passed"]
    assert proof["invocation_id"] == service.show("InvocationID")


def test_a_key_protects_the_server_and_shows_nowhere(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    run = playbooks.run(CONVERGE, "--diff", variables={"sglang_instances": [WITH_KEY]})
    assert run.rc == 0, run.output
    assert SECRET not in run.output
    ask = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:30000/v1/models')"
    assert "401" in host.run("python3 -c %s", ask).stderr
    # Exactly this key opens it: nothing was added on the way through inventory, file and credential.
    with_key = f"Request('http://127.0.0.1:30000/v1/models', headers={{'Authorization': 'Bearer {SECRET}'}})"
    ask = f"from urllib.request import *; print(urlopen({with_key}).status)"
    assert host.check_output("python3 -c %s", ask) == "200"
    assert host.file("/etc/sglang/qwen.api_key").content_string == SECRET
    pid = service.show("MainPID")
    assert host.run(f"runuser -u nobody -- cat /proc/{pid}/environ").rc != 0
    for command in (
        "journalctl --no-pager --all",
        f"systemctl cat {service.unit}",
        f"systemctl show {service.unit}",
        "cat /etc/sglang/qwen.env /var/lib/sglang/qwen/proof.json /var/lib/sglang/qwen/good.json",
        "cat /proc/[0-9]*/cmdline",
        "cat /proc/[0-9]*/environ",
    ):
        out = host.run(command).stdout
        assert len(out) > 50, command
        assert SECRET not in out, command
    status = playbooks.run("playbooks/status.yml", variables={"sglang_instances": [WITH_KEY]})
    assert "qwen: active" in status.output
    assert SECRET not in status.output


def test_rollback_goes_back_to_what_was_good_before(
    host: t.Any, playbooks: Playbooks, service: t.Any, tmp_path: pathlib.Path
) -> None:
    with_key = host.file(f"/etc/systemd/system/{service.unit}").content_string
    assert "LoadCredential" in with_key
    look = playbooks.run("playbooks/rollback.yml", "--check")
    assert look.rc == 0, look.output
    assert host.file(f"/etc/systemd/system/{service.unit}").content_string == with_key
    # A pin of the inventory names what is linked; under it the arguments before come back all the same.
    linked = pathlib.PurePath(host.check_output("readlink /opt/sglang/instances/qwen/release")).name
    wanted = {"sglang_instances": [WITH_KEY], "sglang_service_releases": {"qwen": linked}}
    run = playbooks.run("playbooks/rollback.yml", variables={**wanted, "sglang_report_dir": str(tmp_path)})
    assert run.rc == 0, run.output
    reported = json.loads((tmp_path / "sglang1.json").read_text())["instances"][0]
    assert reported["name"] == "qwen"
    assert "--max-running-requests 24" not in " ".join(reported["argv"]), "what serves, not what is wanted"
    assert "LoadCredential" not in host.file(f"/etc/systemd/system/{service.unit}").content_string
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    assert proof["passed"]
    assert proof["invocation_id"] == service.show("InvocationID")


def test_a_rollback_to_what_was_never_good_touches_nothing(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    before = service.show("InvocationID")
    never = {"sglang_service_releases": {"qwen": "20200101T000000Z-00000000"}}
    run = playbooks.run("playbooks/rollback.yml", variables=never)
    assert run.rc != 0
    assert "nothing else that was good with release 20200101T000000Z-00000000" in run.output
    assert service.show("InvocationID") == before
    assert not host.file("/var/lib/sglang/qwen/pending.json").exists, "the next run would deploy again"


def test_uninstall_does_nothing_unless_it_is_meant(playbooks: Playbooks, service: t.Any) -> None:
    run = playbooks.run("playbooks/uninstall.yml")
    assert run.rc != 0
    assert "sglang_uninstall_confirm=true" in run.output
    assert run.module_calls == []
    assert service.show("ActiveState") == "active"


def test_stop_frees_every_gpu_and_lasts(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    run = playbooks.run("playbooks/stop.yml")
    assert run.rc == 0, run.output
    assert service.show("ActiveState") == "inactive"
    assert not host.service(service.unit).is_enabled
    assert max(service.used_mib()) < 512
    again = playbooks.run("playbooks/stop.yml")
    assert again.rc == 0, again.output
    assert again.changed == {}, again.output
    assert "wanted started" in playbooks.run("playbooks/status.yml").output


def test_the_next_run_brings_it_back(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    run = playbooks.run(CONVERGE)
    assert run.rc == 0, run.output
    assert service.show("ActiveState") == "active"
    assert host.service(service.unit).is_enabled
    assert not host.file("/etc/sglang/qwen.api_key").exists

"""What happens beside the engine: foreign processes, kills, reboots, cuts, broken checkpoints."""

from __future__ import annotations

import json
import time
import typing as t

from bench import SCENARIO, UNIT, Bench

MODEL = "/models/Qwen3.5-397B-A17B-NVFP4"
# Holds 40,000 MiB of GPU 0 as its own process, under another user than the service's.
STRANGER = """
import json, os, pathlib, time
start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
entry = {"pid": os.getpid(), "starttime": start, "name": "python3", "gpus": {"0": 40000}}
pathlib.Path(f"/run/lab-gpus/holders/{os.getpid()}.json").write_text(json.dumps(entry))
time.sleep(3600)
"""


def stranger(bench: Bench, *options: str) -> None:
    """Start the foreign holder as a unit of its own and wait until it holds memory."""
    words = " ".join(options)
    bench.host.check_output(f"systemd-run --collect --unit=lab-test-stranger {words} python3 -c %s", STRANGER)
    assert bench.until(lambda: bool(bench.strangers()), 10)


def refused(bench: Bench, fault: str, named: list[str], **keys: t.Any) -> None:
    """A deployment is refused before the service is touched, and the words name what stands in the way."""
    started = time.monotonic()
    before = bench.show("InvocationID")
    run = bench.serve(env={"OMP_MAX_ACTIVE_LEVELS": "1"}, **keys)  # a change, so that it would be deployed
    untouched = bench.show("InvocationID") == before
    said = " ".join(run.output.split())
    missing = [word for word in named if word not in said]
    failure = bench.report().get("failure") or {}
    row = bench.note(
        fault,
        f"refused before anything stops; names {', '.join(named)}",
        f"status {run.rc}; untouched: {untouched}; not named: {missing or 'nothing'}; report: {failure.get('task')}",
        started,
    )
    assert run.rc != 0, run.output
    assert untouched
    assert missing == [], run.output
    assert "was not touched" in said or "is not whole" in said
    assert bench.report()["result"] == "failed"
    assert "OMP_MAX_ACTIVE_LEVELS" not in bench.host.file("/etc/sglang/qwen.env").content_string
    row.right = True


def test_a_foreign_holder_of_a_gpu(bench: Bench) -> None:
    stranger(bench, "--uid=nobody")
    refused(bench, "foreign holder of a GPU", ["GPU 0", "40000 MiB", "lab-test-stranger.service"])


def test_memory_that_nobody_holds_any_more(bench: Bench) -> None:
    bench.on("pve1", "echo '{\"3\": 624}' > /run/lab-gpus/stuck.json")
    refused(bench, "GPU memory of a wedged process", ["GPU 3", "624 MiB", "cannot be seen from here"])


def test_a_foreign_server_on_the_port(bench: Bench) -> None:
    bench.host.check_output(
        "systemd-run --collect --unit=lab-test-stranger python3 -m http.server 30001 --bind 127.0.0.1"
    )
    assert bench.until(
        lambda: (
            "30001" in bench.host.check_output("cat /proc/net/tcp | awk '{print $2}'")
            or bench.host.socket("tcp://127.0.0.1:30001").is_listening
        ),
        10,
    )
    refused(
        bench,
        "foreign server on the port",
        ["port 30001 is answered by", "lab-test-stranger.service"],
        args={"port": 30001},
    )


def broken(bench: Bench, change: str) -> str:
    """A copy of the checkpoint with something wrong; its folder."""
    bench.host.check_output(f"rm -rf /srv/broken && cp -r {MODEL} /srv/broken && cd /srv/broken && {change}")
    return "/srv/broken"


def test_a_checkpoint_whose_shard_was_cut(bench: Bench) -> None:
    shard = bench.host.check_output(f"ls {MODEL} | grep safetensors$ | sort | tail -1")
    path = broken(bench, f"truncate -s -100 {shard}")
    refused(bench, "broken checkpoint", ["is not whole", shard], model_path=path)


def test_a_checkpoint_with_a_missing_shard(bench: Bench) -> None:
    shard = bench.host.check_output(f"ls {MODEL} | grep safetensors$ | sort | tail -1")
    path = broken(bench, f"rm {shard}")
    refused(bench, "missing shard", ["is not whole", shard], model_path=path)


def test_a_server_that_is_killed(bench: Bench) -> None:
    started = time.monotonic()
    before = bench.show("InvocationID")
    bench.host.check_output(f"kill -9 {bench.show('MainPID')}")
    again = bench.until(lambda: bench.proved_again(before), 90)
    row = bench.note(
        "kill -9 of the server",
        "systemd starts it again; the verifier proves the new start",
        f"restarts {bench.show('NRestarts')}, proof by {bench.proof()['by']}, {bench.serves() or 'serves'}",
        started,
    )
    assert again, bench.host.check_output(f"journalctl -n 60 --no-pager -u {UNIT} -u sglang-verify@qwen")
    row.right = True


def test_a_server_that_crashes_later(bench: Bench) -> None:
    started = time.monotonic()
    run = bench.serve({"fault": "crash_later", "seconds": 25, "times": 1, "counter": "/var/cache/sglang/qwen/.count"})
    assert run.rc == 0, run.output
    before = bench.show("InvocationID")
    again = bench.until(
        lambda: (
            bench.show("InvocationID") != before
            and bench.proof()["invocation_id"] == bench.show("InvocationID")
            and bench.proof()["passed"]
        ),
        120,
    )
    row = bench.note(
        "crash_later",
        "the gate passes; the crash is seen, systemd starts it again, the verifier proves it",
        f"restarts {bench.show('NRestarts')}, proof by {bench.proof()['by']}",
        started,
    )
    assert again, bench.host.check_output(f"journalctl -n 60 --no-pager -u {UNIT} -u sglang-verify@qwen")
    assert bench.proof()["by"] == "verifier"
    row.right = True
    bench.host.run("rm -f /var/cache/sglang/qwen/.count")


def test_a_server_that_computes_nonsense_after_a_restart_at_night(bench: Bench) -> None:
    started = time.monotonic()
    bench.host.check_output("echo %s > /etc/sglang-standin.json", json.dumps({"fault": "nan"}))
    bench.host.check_output(f"systemctl restart {UNIT}")
    seen = bench.until(lambda: bench.show("Result", "sglang-verify@qwen.service") == "exit-code", 60)
    status = bench.playbooks.run("playbooks/status.yml")
    said = " ".join(status.output.split())
    row = bench.note(
        "nan after a restart without Ansible",
        "the verifier's unit fails, proof.json says no, status names it",
        f"verifier failed: {seen}; proof passed: {bench.proof()['passed']}; status: {'computes NaN' in said}",
        started,
    )
    assert seen
    assert not bench.proof()["passed"]
    assert "computes NaN" in said, status.output
    assert status.changed == {}
    row.right = True
    bench.host.check_output("rm /etc/sglang-standin.json")
    bench.host.check_output(f"systemctl restart {UNIT}")
    assert bench.until(lambda: bench.serves() == [], 90)


def test_a_guest_that_does_not_answer(bench: Bench) -> None:
    started = time.monotonic()
    bench.power("pct exec 101 -- systemctl stop ssh.socket ssh.service")
    bench.on("pve1", "pct exec 101 -- pkill -x sshd; pct exec 101 -- pkill -f ^sshd:")
    wrong = bench.playbooks.run("playbooks/stop.yml", variables={"sglang_vmid": 999})
    still = bench.on("pve1", f"pct exec 101 -- systemctl is-active {UNIT}").strip()
    run = bench.playbooks.run("playbooks/stop.yml")
    state = bench.on("pve1", f"pct exec 101 -- systemctl is-active {UNIT}").strip()
    boot = bench.on("pve1", f"pct exec 101 -- systemctl is-enabled {UNIT}").strip()
    used = bench.on("pve1", "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits").split()
    bench.on(
        "pve1", "pct exec 101 -- systemctl start ssh.socket ssh.service || pct exec 101 -- systemctl start ssh.service"
    )
    row = bench.note(
        "stop of a guest whose ssh is dead",
        "stopped and disabled from the hypervisor, GPUs free; by a wrong number nothing is, and that is said",
        f"wrong number: status {wrong.rc}, unit {still}; then status {run.rc}; unit {state}, {boot}; "
        f"most memory in use {max(map(int, used))} MiB",
        started,
    )
    assert run.rc == 0, run.output
    assert (state, boot) == ("inactive", "disabled")
    assert max(map(int, used)) < 512
    assert "does not answer" in run.output
    assert f"stopped and disabled {UNIT}" in " ".join(run.output.split())
    assert (wrong.rc, still) == (2, "active"), wrong.output
    assert f"{UNIT} could not be stopped through pct exec 999 on pve1" in " ".join(wrong.output.split()), wrong.output
    row.right = True


def test_the_guest_is_booted_again(bench: Bench) -> None:
    started = time.monotonic()
    before = bench.show("InvocationID")
    bench.power("pct reboot 101")
    again = bench.until(lambda: bench.proved_again(before), 150)
    row = bench.note(
        "reboot of the guest",
        "the service is back, proved by the verifier",
        f"back: {again}, proof by {bench.proof()['by']}",
        started,
    )
    assert again, bench.serves()
    row.right = True


def test_a_start_that_systemd_refuses(bench: Bench) -> None:
    """No process of the engine ever runs, so no log of its own can say why."""
    started = time.monotonic()
    options = {
        "sglang_service_unit_options": {"ReadWritePaths": "-/run/lab-gpus", "SupplementaryGroups": "no-such-group"}
    }
    run = bench.playbooks.run(str(SCENARIO / "serve.yml"), variables=options)
    said = " ".join(run.output.split())
    (served,) = bench.report()["instances"]
    diagnosis = (served["diagnosis"] or {}).get("id")
    left = bench.serves()
    row = bench.note(
        "a unit that systemd cannot start",
        "status 2, the diagnosis names the step of systemd; the old service is back",
        f"status {run.rc}, {diagnosis}; {left or 'serves'}",
        started,
    )
    assert run.rc == 2, run.output
    assert diagnosis == "unit_user", run.output
    assert "systemd said: " in said, run.output
    assert "is back and passed its gate" in said
    assert left == []
    row.right = True


def test_a_way_back_that_fails_too(bench: Bench) -> None:
    """The old unit names a group that is gone by now: both results are told, and nothing that is not proved runs."""
    started = time.monotonic()
    bench.host.check_output("groupadd --system lab-passing")
    options = {"ReadWritePaths": "-/run/lab-gpus", "SupplementaryGroups": "lab-passing"}
    first = bench.playbooks.run(str(SCENARIO / "serve.yml"), variables={"sglang_service_unit_options": options})
    assert first.rc == 0, first.output
    bench.host.check_output("groupdel lab-passing")
    run = bench.serve({"fault": "nan"})
    said = " ".join(run.output.split())
    told = "was put back and did not pass its gate either" in said and "does not start at boot" in said
    seen, used = bench.look(), max(bench.used_mib())
    (served,) = bench.report()["instances"]
    row = bench.note(
        "neither the new one nor the old one can serve",
        "status 2 with both results; stopped, out of the boot, GPUs free",
        f"status {run.rc}, told: {told}; {seen['ActiveState']} and {seen['UnitFileState']}; {used} MiB",
        started,
    )
    assert run.rc == 2, run.output
    assert "right.logprobs" in said
    assert told, run.output
    assert served["rollback"]["gate"]["passed"] is False
    assert (seen["ActiveState"], seen["UnitFileState"], seen["pending"]) == ("inactive", "disabled", False)
    assert used < 512
    row.right = True

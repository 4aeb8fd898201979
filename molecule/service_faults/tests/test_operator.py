"""What an operator does beside deployments: look, stop what hangs, hand out a bundle, give a wrong argument."""

from __future__ import annotations

import json
import pathlib
import subprocess
import tarfile
import time

import pytest
from bench import CARDS, UNIT, Bench, Row

from playbooks import ROOT, Playbooks

SECRET = "k3y-that-must-never-be-seen"
TOKEN = "t0ken-that-must-never-be-seen"
# Deaf to TERM, keeps memory of a card and its node open; joins the control groups of a guest if a pattern finds them.
HOLDER = """
import json, os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for group in pathlib.Path("/sys/fs/cgroup").glob("{group}"):
    (group / "left").mkdir(exist_ok=True)
    (group / "left/cgroup.procs").write_text(str(os.getpid()))
node = os.open("/dev/nvidia{card}", os.O_PATH)
start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
entry = {{"pid": os.getpid(), "starttime": start, "name": "sglang::scheduler_TP0", "gpus": {{"{card}": {mib}}}}}
pathlib.Path(f"/run/lab-gpus/holders/{{os.getpid()}}.json").write_text(json.dumps(entry))
time.sleep(600)
"""


@pytest.fixture
def stopped(host: object, playbooks: Playbooks, table: list[Row]) -> Bench:
    """The host with its instance stopped and its GPUs free."""
    one = Bench(host, playbooks, table)
    one.tidy()
    one.host.check_output(f"systemctl disable --now --quiet {UNIT}")
    assert one.until(lambda: max(one.used_mib()) < 512, 20)
    return one


def test_status_is_quick_and_also_json(bench: Bench, tmp_path: pathlib.Path) -> None:
    ansible = [str(ROOT / ".venv/bin/ansible"), "sglang1", "-i", str(bench.playbooks.inventory), "-m", "ping"]
    started = time.monotonic()
    subprocess.run(ansible, cwd=ROOT, check=True, capture_output=True)
    ping = time.monotonic() - started
    run = bench.playbooks.run("playbooks/status.yml", variables={"sglang_status_json": str(tmp_path)})
    calls = [call[2].rsplit(".", 1)[-1] for call in run.module_calls]
    kept = json.loads((tmp_path / "sglang1.json").read_text())
    row = bench.note(
        "no fault: status of one host",
        "one call, nothing changed; the same as JSON; under 4 s on a quiet machine",
        f"status {run.rc}; {run.seconds:.1f} s ({run.seconds / ping:.1f} times a ping of {ping:.1f} s); "
        f"{', '.join(calls)}",
        started,
    )
    assert (run.rc, run.changed) == (0, {}), run.output
    assert calls == ["sglang_status_info"]
    assert "KV cache bfloat16 (ok)" in run.output
    gate = kept["gates"]["qwen"]
    assert gate["passed"]
    assert gate["proof"]["invocation_id"] == bench.show("InvocationID")
    assert len(kept["gpus"]["gpus"]) == CARDS
    assert all(gpu["used_mib"] > 10_000 for gpu in kept["gpus"]["gpus"])
    row.right = True


def test_an_argument_that_only_the_engines_own_parser_refuses(bench: Bench) -> None:
    started = time.monotonic()
    before = bench.look()
    run = bench.serve(
        extra_args=["--only-in-a-fork"],
        exceptions=[{"id": "unknown_argument", "reason": "a fork knows it", "until": "2099-01-01"}],
    )
    after = bench.look()
    said = " ".join(run.output.split())
    row = bench.note(
        "argument that the installed engine refuses",
        "allowed by exception in the table, refused by the release's parser; the service is not touched",
        f"status {run.rc}; {(bench.report().get('failure') or {}).get('task')}; {bench.serves(after) or 'serves'}",
        started,
    )
    assert run.rc == 2, run.output
    assert "does not take its arguments" in said, run.output
    assert "--only-in-a-fork" in said
    assert "Fix: put args or extra_args of the instance right" in said
    assert after["InvocationID"] == before["InvocationID"]
    assert bench.serves(after) == []
    assert bench.report()["result"] == "failed"
    row.right = True


def test_a_bundle_for_the_vendor_holds_no_secret(bench: Bench, tmp_path: pathlib.Path) -> None:
    started = time.monotonic()
    secrets = {"api_key": SECRET, "env": {"HF_TOKEN": TOKEN, "SGLANG_STANDIN": '{"time_scale": 0.02}'}}
    served = bench.serve(**secrets)
    assert served.rc == 0, served.output
    # In the unit's own log, as an access line has it: the token as it is, the key masked by the launcher already.
    url = f"http://127.0.0.1:30000/v1/models?token={TOKEN}&key={SECRET}"
    with_key = f"Request('{url}', headers={{'Authorization': 'Bearer {SECRET}'}})"
    ask = f"from urllib.request import *; print(urlopen({with_key}).status)"
    assert bench.host.check_output("python3 -c %s", ask) == "200"
    assert bench.until(lambda: TOKEN in bench.host.check_output(f"journalctl --no-pager -u {UNIT}"), 10)
    variables = {**bench.variables(**secrets), "support_bundle": True}
    run = bench.playbooks.run("playbooks/status.yml", variables=variables)
    assert (run.rc, run.changed) == (0, {}), run.output
    assert bench.playbooks.reports is not None
    archive = bench.playbooks.reports / "support-sglang1.tar.gz"
    with tarfile.open(archive) as opened:
        texts = {
            member.name.partition("/")[2]: file.read().decode()
            for member in opened
            if (file := opened.extractfile(member))
        }
    found = [name for name, text in texts.items() if SECRET in text or TOKEN in text]
    row = bench.note(
        "no fault: support bundle",
        "log, unit, proof and GPUs of the host in one archive for its owner alone; no key, no token",
        f"status {run.rc}; {len(texts)} files, {archive.stat().st_size // 1024} KiB, "
        f"mode {archive.stat().st_mode & 0o777:o}; secrets in {found or 'none'}",
        started,
    )
    assert found == []
    assert "/v1/models?token=REDACTED&key=" in texts["qwen/start_0.log"]
    assert SECRET not in run.output
    assert archive.stat().st_mode & 0o077 == 0
    assert "server_args=" in texts["qwen/start_0.log"]
    assert "HF_TOKEN=REDACTED" in texts["qwen/environment_names.txt"]
    assert bench.show("InvocationID") in texts["qwen/proof.json"]
    assert "RTX PRO 6000" in texts["gpu/query.txt"]
    row.right = True


def test_an_orphan_outside_of_the_unit_is_ended_by_stop(bench: Bench) -> None:
    started = time.monotonic()
    text = HOLDER.format(group="none", card=2, mib=70000)
    bench.host.check_output("systemd-run --collect --unit=lab-test-ours --uid=sglang python3 -c %s", text)
    assert bench.until(lambda: bench.strangers() == ["lab-test-ours.service"], 10)
    used = bench.used_mib()
    run = bench.playbooks.run("playbooks/stop.yml")
    free = bench.used_mib()
    state = (bench.show("ActiveState"), bench.show("UnitFileState"))
    row = bench.note(
        "stop beside an orphan of the service user, deaf to TERM",
        "unit stopped and out of the boot; the orphan killed; every GPU free",
        f"status {run.rc}; {' and '.join(state)}; held {min(used)} MiB and more a GPU, now at most {max(free)}",
        started,
    )
    assert min(used) > 10_000
    assert run.rc == 0, run.output
    assert state == ("inactive", "disabled")
    assert max(free) < 512
    assert bench.strangers() == []
    row.right = True


def test_memory_that_the_guest_cannot_see_is_freed_from_the_hypervisor(stopped: Bench) -> None:
    started = time.monotonic()
    # A process of the container in a namespace that the guest cannot see into; with cgroup v1 the group is there twice.
    text = HOLDER.format(group="**/lxc/101", card=5, mib=70000)
    stopped.on(
        "pve1", f"cat > /run/left.py <<'END'\n{text}\nEND\nsystemd-run --collect --unit=lab-left python3 /run/left.py"
    )
    assert stopped.until(lambda: stopped.used_mib()[5] > 60_000, 10)
    assert stopped.look()["holders"] == []  # the guest sees memory and no process
    # Somebody else of the guest has a card open too, with too little to stand in the way.
    text = HOLDER.format(group="none", card=1, mib=300)
    stopped.host.check_output("systemd-run --collect --unit=lab-test-stranger --uid=nobody python3 -c %s", text)
    assert stopped.until(lambda: stopped.strangers() == ["lab-test-stranger.service"], 10)
    run = stopped.playbooks.run("playbooks/stop.yml")
    free = stopped.used_mib()
    left = stopped.strangers()
    said = " ".join(run.output.split())
    row = stopped.note(
        "GPU memory that the guest cannot free",
        "stop.yml asks the hypervisor, which ends it and not the process of another user; every GPU free",
        f"status {run.rc}; at most {max(free)} MiB in use; said: {'pve1 was asked' in said}; "
        f"the other lives: {bool(left)}",
        started,
    )
    stopped.on("pve1", "systemctl kill -s KILL lab-left")
    assert run.rc == 0, run.output
    assert max(free) < 512
    assert left == ["lab-test-stranger.service"]
    assert "GPU 5: 70000 MiB held by a process that cannot be seen from here" in said
    assert "pve1 was asked: it ended" in said
    row.right = True


def test_stop_names_a_foreign_holder_and_leaves_it(stopped: Bench) -> None:
    started = time.monotonic()
    text = HOLDER.format(group="none", card=0, mib=70000)
    stopped.host.check_output("systemd-run --collect --unit=lab-test-stranger --uid=nobody python3 -c %s", text)
    assert stopped.until(lambda: stopped.strangers() == ["lab-test-stranger.service"], 10)
    stopped.on("pve1", "echo '{\"5\": 624}' > /run/lab-gpus/stuck.json")  # which alone would be told to the hypervisor
    run = stopped.playbooks.run("playbooks/stop.yml")
    said = " ".join(run.output.split())
    left = stopped.strangers()
    row = stopped.note(
        "stop beside a foreign holder",
        "fails, names process, user and unit, and leaves it alone",
        f"status {run.rc}; named: {'lab-test-stranger.service' in said}; it lives: {bool(left)}",
        started,
    )
    assert run.rc == 2, run.output
    for word in ("GPU 0", "70000 MiB", "lab-test-stranger.service", "nobody"):
        assert word in said, run.output
    assert left == ["lab-test-stranger.service"]
    assert stopped.show("ActiveState") == "inactive"
    row.right = True
    stopped.host.run("systemctl kill -s KILL lab-test-stranger")

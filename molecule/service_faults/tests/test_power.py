"""The power goes at each step of a deployment, with a controller that goes too or lives on: what was good serves."""

from __future__ import annotations

import time

import pytest
from bench import Bench, Row

# Task after whose end the power goes, and seconds later. A header shows when its task has ended, since only then it is
# known whether it was skipped.
STEPS = {
    "unit and environment are written": ("Mark the deployment", 0.2),
    "what runs is stopped": ("Write the environment", 0.5),
    "the gate waits": ("Start the unit", 1.0),
    "what failed is stopped": ("Put the files of the last good one back", 0.3),
    "the last good one is started": ("Stop what failed", 0.3),
    "the gate waits for the last good one": ("Start the last good one", 1.0),
}
SITE = ("site.yml", "--tags", "sglang_service")
NAN = {"fault": "nan"}


def require_back(bench: Bench, row: Row) -> None:
    """The boot brought back what was good, and it stays so; the next run finds nothing to change."""
    journal = bench.host.check_output("journalctl -b -n 600 --no-pager")
    assert bench.serves() == [], journal
    assert "is back" in bench.host.check_output("journalctl -b --no-pager -u sglang-recover.service"), journal
    invocation = bench.show("InvocationID")
    after = bench.serve()
    assert after.rc == 0, after.output
    assert after.changed == {}, after.output
    assert bench.show("InvocationID") == invocation, journal
    row.right = True


@pytest.mark.parametrize("step", STEPS)
def test_the_power_goes_and_the_controller_too(bench: Bench, step: str) -> None:
    started = time.monotonic()
    before = bench.show("InvocationID")
    header, seconds = STEPS[step]
    run = bench.playbooks.run(*SITE, variables=bench.variables(NAN), kill_at=f" : {header}]", kill_after=seconds)
    assert run.killed, run.output
    marked = bench.host.file("/var/lib/sglang/qwen/pending.json").exists
    bench.power("pct stop 101; pct start 101")
    again = bench.until(lambda: bench.proved_again(before), 150)
    row = bench.note(
        f"power cut while {step}",
        "the boot serves the last good one, proved by the verifier",
        f"mark was there: {marked}; back: {again}; {bench.serves() or 'serves'}",
        started,
    )
    assert marked, run.output
    require_back(bench, row)


@pytest.mark.parametrize("step", STEPS)
def test_the_power_goes_and_the_controller_lives_on(bench: Bench, step: str) -> None:
    """Its connection comes back to a host that serves the last good one already, and it must leave that alone."""
    started = time.monotonic()
    header, seconds = STEPS[step]

    def cut() -> None:
        time.sleep(seconds)
        bench.on("pve1", "pct stop 101; pct start 101")

    # More retries than by default: the guest must be up again before they end.
    variables = {**bench.variables(NAN), "ansible_ssh_retries": 6}
    run = bench.playbooks.run(*SITE, variables=variables, at=f" : {header}]", act=cut)
    told = "the host was booted since this deployment of qwen began" in " ".join(run.output.split())
    again = bench.until(lambda: bench.serves() == [], 150)
    row = bench.note(
        f"power cut while {step}; the controller lives on",
        "the run ends as failed and says why; the boot serves the last good one, proved",
        f"status {run.rc}, told: {told}; back: {again}; {bench.serves() or 'serves'}",
        started,
    )
    assert run.rc == 2, run.output
    assert told, run.output
    assert bench.report()["result"] == "failed"
    require_back(bench, row)


@pytest.mark.parametrize("lives", [False, True], ids=["the controller goes too", "the controller lives on"])
def test_the_power_goes_while_another_instance_takes_the_place(bench: Bench, lives: bool) -> None:
    """The new one was never good, so the boot must bring back what made room for it."""
    started = time.monotonic()
    before = bench.show("InvocationID")
    (qwen,) = bench.variables()["sglang_instances"]
    (other,) = bench.variables(NAN)["sglang_instances"]
    other["name"] = "other"
    both = [{**qwen, "state": "stopped"}, other]
    variables = {"sglang_instances": both, "ansible_ssh_retries": 6}
    header = " : Start the unit]"

    def cut() -> None:
        time.sleep(1)
        bench.on("pve1", "pct stop 101; pct start 101")

    if lives:
        run = bench.playbooks.run(*SITE, variables=variables, at=header, act=cut)
    else:
        run = bench.playbooks.run(*SITE, variables=variables, kill_at=header, kill_after=1.0)
        bench.power("pct stop 101; pct start 101")
    again = bench.until(lambda: bench.serves() == [] and bench.show("InvocationID") != before, 150)
    said = " ".join(run.output.split())
    told = "qwen, which had made room, serves again and passed its gate" in said
    row = bench.note(
        f"power cut while another instance takes the place; {'the controller lives on' if lives else 'it goes too'}",
        "the boot serves the one that made room, proved",
        f"status {run.rc}, told: {told}; back: {again}; {bench.serves() or 'serves'}",
        started,
    )
    assert again, bench.host.check_output("journalctl -b -n 600 --no-pager")
    assert bench.show("ActiveState", "sglang-other.service") == "inactive"
    assert bench.show("UnitFileState", "sglang-other.service") == "disabled"
    assert told == lives, run.output
    assert run.rc == 2 if lives else run.killed, run.output
    after = bench.playbooks.run(*SITE, variables={"sglang_instances": [qwen, {**other, "state": "stopped"}]})
    assert after.rc == 0, after.output
    assert bench.serves() == []
    row.right = True

"""Each fault of the engine: found by the right check, named, reported, and the old service serves again."""

from __future__ import annotations

import time

import pytest
from bench import Bench
from table import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_gate_finds_it_and_the_old_service_comes_back(bench: Bench, fault: Fault) -> None:
    started = time.monotonic()
    run = bench.serve(fault.engine, **fault.keys)
    report = bench.report()
    (served,) = report["instances"]
    failed = [check["id"] for check in served["gate"]["checks"] if check["passed"] is False]
    diagnosis = (served["diagnosis"] or {}).get("id")
    left = bench.serves()
    back = bool(served["rollback"] and served["rollback"]["gate"]["passed"])
    row = bench.note(
        fault.name,
        f"{fault.check} fails, {fault.diagnosis}; rolled back, GPUs free",
        f"{', '.join(failed)} fails, {diagnosis}, status {run.rc}; "
        + ("rolled back and proved" if back and not left else f"rolled back: {back}, {left}"),
        started,
    )
    assert run.rc != 0, run.output
    assert fault.check in failed, run.output
    assert diagnosis == fault.diagnosis, run.output
    assert back, run.output
    assert left == []
    assert report["result"] == "failed"
    page = bench.page()
    assert served["diagnosis"]["what"][:40] in " ".join(page.split()), page
    assert "passed its gate" in run.output
    row.right = True


@pytest.mark.parametrize("name", ["ignore_sigterm", "orphan"])
def test_what_does_not_end_by_itself_is_ended_by_the_next_deployment(bench: Bench, name: str) -> None:
    started = time.monotonic()
    first = bench.serve({"fault": name})
    assert first.rc == 0, first.output
    pid = bench.show("MainPID")
    second = bench.serve()
    gone = not bench.host.file(f"/proc/{pid}").exists
    left = bench.serves()
    row = bench.note(
        name,
        "the gate passes; the next deployment ends it, frees the GPUs and serves",
        f"status {first.rc} and {second.rc}; old process gone: {gone}; {left or 'serves, proved, GPUs its own'}",
        started,
    )
    assert second.rc == 0, second.output
    assert gone
    assert left == []
    row.right = True

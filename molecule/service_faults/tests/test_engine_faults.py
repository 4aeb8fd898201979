"""Each fault of the engine: found by the right check, named, reported, and the old service serves again."""

from __future__ import annotations

import time

import pytest
from bench import UNIT, Bench
from table import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}-{fault.diagnosis}")
def test_the_gate_finds_it_and_the_old_service_comes_back(bench: Bench, fault: Fault) -> None:
    started = time.monotonic()
    before = bench.look()
    run = bench.serve(fault.engine, **fault.keys)
    report = bench.report()
    (served,) = report["instances"]
    failed = [check["id"] for check in served["gate"]["checks"] if check["passed"] is False]
    diagnosis = (served["diagnosis"] or {}).get("id")
    after = bench.look()
    left = bench.serves(after)
    gib = bench.failed_gib(before, after)
    down = report["timings"]["downtime_seconds"].get("qwen", 0)
    back = bool(served["rollback"] and served["rollback"]["gate"]["passed"])
    row = bench.note(
        fault.name,
        f"status 2, {fault.check} fails, {fault.diagnosis}; rolled back, GPUs free of it",
        f"status {run.rc}, {', '.join(failed)} fails, {diagnosis}; "
        + ("rolled back and proved" if back and not left else f"rolled back: {back}, {left}")
        + f"; it held {gib:.0f} GiB",
        started,
    )
    assert run.rc == 2, run.output
    assert after["InvocationID"] != before["InvocationID"]
    assert (gib > 1) == fault.holds, after["watched"]
    assert fault.check in failed, run.output
    assert diagnosis == fault.diagnosis, run.output
    assert back, run.output
    assert left == []
    assert report["result"] == "failed"
    page = bench.page()
    if fault.diagnosis == "unknown":
        assert fault.settings["message"] in served["diagnosis"]["what"]
    assert served["diagnosis"]["what"][:40] in " ".join(page.split()), page
    assert 0 < down < run.seconds, report["timings"]
    assert "passed its gate, after" in " ".join(run.output.split())
    row.right = True


# Takes the port as soon as the old server is gone, and lets it go when the start that it beat is over.
SQUATTER = """
import http.server, subprocess, threading, time
def start():
    words = ["systemctl", "show", "-P", "InvocationID", "UNIT"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip()
class Yes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    do_POST = do_GET
before = start()
while True:
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 30000), Yes)
        break
    except OSError:
        time.sleep(0.02)
threading.Thread(target=server.serve_forever, daemon=True).start()
while start() in ("", before):
    time.sleep(0.2)
beaten = start()
while start() == beaten:
    time.sleep(0.2)
""".replace("UNIT", UNIT)


def test_another_server_takes_the_port_while_ours_loads(bench: Bench) -> None:
    started = time.monotonic()
    before = bench.look()
    bench.host.check_output("systemd-run --collect --unit=lab-test-stranger python3 -c %s", SQUATTER)
    run = bench.serve(env={"OMP_MAX_ACTIVE_LEVELS": "1"})
    (served,) = bench.report()["instances"]
    failed = [check["id"] for check in served["gate"]["checks"] if check["passed"] is False]
    diagnosis = (served["diagnosis"] or {}).get("id")
    after = bench.look()
    left = bench.serves(after)
    back = bool(served["rollback"] and served["rollback"]["gate"]["passed"])
    row = bench.note(
        "port_in_use",
        "status 2, ready.started fails, gate_port or port_in_use names the other; rolled back, GPUs free of it",
        f"status {run.rc}, {', '.join(failed)} fails, {diagnosis}; "
        + ("rolled back and proved" if back and not left else f"rolled back: {back}, {left}")
        + f"; it held {bench.failed_gib(before, after):.0f} GiB",
        started,
    )
    assert run.rc == 2, run.output
    assert failed == ["ready.started"], run.output
    assert "lab-test-stranger.service" in " ".join(run.output.split())
    assert diagnosis in ("gate_port", "port_in_use")
    assert back, run.output
    assert left == []
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

"""What a guest left on the cards is ended from the hypervisor while others serve."""

from __future__ import annotations

from box import Box

# Ignores TERM, has a child in its group, keeps a card's node open and its memory.
ORPHAN = r"""
import json, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
child = os.fork()
node = os.open("/dev/nvidia0", os.O_PATH)
if child:
    start = int(open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[19])
    row = {"pid": os.getpid(), "starttime": start, "name": "sglang::scheduler_TP0", "gpus": {"0": 700}}
    json.dump(row, open(f"/run/lab-gpus/holders/{os.getpid()}.json", "w"))
    open("/run/orphans", "w").write(f"{os.getpid()} {child}")
time.sleep(600)
"""


def test_stuck_memory_of_one_guest_is_cleared_while_both_serve(box: Box) -> None:
    serving = {vmid: box.invocation(vmid) for vmid in (101, 102)}
    assert all(serving.values())
    box.inside(101, "rm -f /run/orphans; cat > /run/orphan.py <<'END'\n" + ORPHAN + "END")
    box.inside(101, "systemd-run -q --scope python3 /run/orphan.py > /dev/null 2>&1 &")
    box.inside(101, "for n in $(seq 100); do test -s /run/orphans && exit 0; sleep 0.1; done; exit 1")
    pids = box.inside(101, "cat /run/orphans").split()
    check = box.playbooks.run("playbooks/gpu_release.yml", "--limit", "sglang1", "--check")
    assert check.rc == 0, check.output
    assert box.inside(101, f"ls -d /proc/{pids[0]} /proc/{pids[1]} | wc -l") == "2"
    run = box.playbooks.run("playbooks/gpu_release.yml", "--limit", "sglang1")
    assert run.rc == 0, run.output
    assert run.changed == {"sglang1": 1}, run.output
    assert box.inside(101, f"ls -d /proc/{pids[0]} /proc/{pids[1]} 2>/dev/null | wc -l") == "0"
    assert {vmid: box.invocation(vmid) for vmid in (101, 102)} == serving
    again = box.playbooks.run("playbooks/gpu_release.yml", "--limit", "sglang1")
    assert (again.rc, again.changed) == (0, {}), again.output


def test_memory_that_nobody_holds_is_told_with_the_reset(box: Box) -> None:
    box.sh("echo '{\"5\": 624}' > /run/lab-gpus/stuck.json")
    try:
        run = box.playbooks.run("playbooks/gpu_release.yml", "--limit", "sglang2")
    finally:
        box.sh("rm -f /run/lab-gpus/stuck.json")
    assert run.rc != 0
    assert "GPU 5 of pve1: memory in use that no process holds" in " ".join(run.output.split())

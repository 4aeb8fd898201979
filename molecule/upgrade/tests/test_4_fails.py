"""Starts that fail again and again, starts that fail with a key set, and what uninstall leaves."""

from __future__ import annotations

import json

from conftest import MODEL, UNIT, Fleet, said, until

SECRET = "k3y-that-must-never-be-seen"
TOKEN = "t0ken-that-must-never-be-seen"
CONFIG = "/etc/sglang-standin.json"


def test_systemd_itself_ends_a_crash_loop_and_the_next_run_starts_it(fleet: Fleet) -> None:
    host = fleet.two.host
    host.check_output(f"printf %%s %s > {CONFIG}", json.dumps({"fault": "crash_loop"}))
    host.run(f"systemctl restart {UNIT}")
    ended = until(lambda: fleet.two.show("ActiveState") == "failed", 60)
    host.check_output(f"rm {CONFIG}")
    assert ended, host.check_output(f"journalctl -n 40 --no-pager -u {UNIT}")
    assert fleet.two.show("Result") in ("start-limit-hit", "exit-code")
    # Starts before this one count too, so there may be one less than the limit.
    assert 1 <= int(fleet.two.show("NRestarts")) <= int(fleet.two.show("StartLimitBurst"))
    assert "Start request repeated too quickly" in host.check_output(f"journalctl --no-pager -u {UNIT}")
    assert "0 MiB" in host.check_output("nvidia-smi -i 4 --query-gpu=memory.used --format=csv,noheader")
    run = fleet.run("playbooks/restart.yml", "--limit", "sglang2", stack="april")
    assert run.rc == 0, run.output
    assert fleet.two.serves() == []


def test_a_start_that_fails_with_a_key_set_shows_it_nowhere(fleet: Fleet) -> None:
    """The engine says its key itself, in the line of its arguments and here in its last words too."""
    before = fleet.two.link()
    fault = {"fault": "crash_loading", "message": f"no such key: {SECRET}", "only": {"args": {"api_key": SECRET}}}
    fleet.two.host.check_output(f"printf %%s %s > {CONFIG}", json.dumps({"faults": [fault]}))
    keys = {"api_key": SECRET, "env": {"SGLANG_STANDIN": '{"time_scale": 0.02}', "HF_TOKEN": TOKEN}}
    only = ("--limit", "localhost,sglang2")
    run = fleet.run("site.yml", *only, "--diff", stack="april", keys=keys)
    fleet.two.host.check_output(f"rm {CONFIG}")
    assert run.rc == 2, run.output
    assert "qwen did not pass its gate. ready.started failed" in said(run)
    assert fleet.two.link() == before
    assert fleet.two.serves() == []
    report = fleet.report("sglang2")
    (instance,) = report["instances"]
    assert instance["diagnosis"]["id"]
    assert fleet.playbooks.reports is not None
    written = {
        path.name: path.read_text()
        for path in fleet.playbooks.reports.iterdir()
        if path.is_file() and path.name != ".lock"
    }
    assert {"sglang2.json", "sglang2.md", "sglang2.html"} <= set(written)
    shown = {"the screen": run.output, **written}
    for command in (
        f"journalctl --no-pager --all -u {UNIT}",
        "journalctl --no-pager --all -b",
        "cat /var/lib/sglang/qwen/*.json",
        "cat /var/lib/sglang/runs.jsonl",
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ",
        f"systemctl cat {UNIT}; systemctl show {UNIT}",
    ):
        shown[command] = fleet.two.host.run(command).stdout
    assert all(len(text) > 50 for text in shown.values()), {name: len(text) for name, text in shown.items()}
    assert "no such key: " in shown[f"journalctl --no-pager --all -u {UNIT}"], "it said it"
    assert [name for name, text in shown.items() if SECRET in text] == []
    for name in ("the screen", "sglang2.json", "journalctl --no-pager --all -b", "cat /var/lib/sglang/runs.jsonl"):
        assert TOKEN not in shown[name], name


def test_uninstall_keeps_releases_and_checkpoints_and_says_so(fleet: Fleet) -> None:
    host = fleet.two.host
    releases = host.check_output("ls /opt/sglang/releases")
    variables = {"sglang_uninstall_confirm": True}
    run = fleet.run("playbooks/uninstall.yml", "--limit", "sglang2", variables=variables)
    assert run.rc == 0, run.output
    assert host.run(f"systemctl cat {UNIT}").rc != 0
    for gone in (
        "/etc/sglang/qwen.env",
        "/opt/sglang/instances/qwen",
        "/var/lib/sglang/qwen",
        "/var/cache/sglang/qwen",
    ):
        assert not host.file(gone).exists, gone
    assert host.check_output("ls /opt/sglang/releases") == releases
    assert host.file(f"{MODEL}/config.json").exists
    assert (
        f"sglang2 keeps the checkpoints ({MODEL}), /opt/sglang with its releases, wheels and sources, the user sglang"
        in said(run)
    ), run.output

"""The action deploy_report in a real run of ansible-playbook, on this machine alone."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "plugins" / "module_utils"))

from report_facts import failed, quiet

PLAY = """
- hosts: sglang_hosts
  gather_facts: false
  connection: local
  tasks:
    - name: Write the report
      blackwell.sglang.deploy_report:
        folder: "{{ folder }}"
        record: false
      register: written
    - name: Show the result
      ansible.builtin.debug:
        var: written
"""


def play(place: pathlib.Path, variables: dict[str, t.Any], *options: str) -> str:
    """Output of a run in ``place``; the inventory has two hosts."""
    (place / "play.yml").write_text(PLAY)
    (place / "hosts.yml").write_text(json.dumps({"sglang_hosts": {"hosts": {"sglang1": {}, "sglang2": {}}}}))
    (place / "vars.json").write_text(json.dumps({**variables, "folder": str(place / "out" / "reports")}))
    program = pathlib.Path(sys.executable).parent / "ansible-playbook"
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
    }
    (place / "ansible.cfg").write_text("[defaults]\nlocalhost_warning = false\n")
    words = [str(program), "-i", "hosts.yml", "-e", "@vars.json", *options, "play.yml"]
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_report_of_two_hosts_at_once(tmp_path: pathlib.Path) -> None:
    instances = [{"name": "qwen", "api_key": "a-very-secret-word"}]
    shown = play(tmp_path, {**failed(), "sglang_instances": instances})
    reports = tmp_path / "out" / "reports"
    assert {path.name for path in reports.iterdir()} >= {
        "sglang1.md",
        "sglang1.json",
        "sglang2.md",
        "README.md",
        "summary.json",
    }
    assert "sglang1: failed; report written: out/reports/sglang1.md" in shown
    assert "changed=0" in shown
    report = json.loads((reports / "sglang1.json").read_text())
    assert report["failure"]["task"] == "Gate the instance"
    assert report["timings"]["run_seconds"] > 0
    again = play(tmp_path, {**failed(), "sglang_instances": instances})
    assert "report written" in again, "a run that changed something is told even when the state is the same"


def test_secret_of_an_instance_is_taken_out_of_a_message(tmp_path: pathlib.Path) -> None:
    found = quiet()
    found["sglang_failure"] = {"host": "sglang1", "task": "Start", "msg": "refused: a-very-secret-word"}
    shown = play(tmp_path, {**found, "sglang_instances": [{"name": "qwen", "api_key": "a-very-secret-word"}]})
    written = "".join(path.read_text() for path in (tmp_path / "out" / "reports").iterdir())
    assert "refused: REDACTED" in written
    assert "a-very-secret-word" not in written + shown


def test_quiet_run_leaves_the_page_alone(tmp_path: pathlib.Path) -> None:
    play(tmp_path, quiet())
    before = (tmp_path / "out" / "reports" / "sglang1.md").stat().st_mtime_ns
    assert "report unchanged: out/reports/sglang1.md" in play(tmp_path, quiet())
    assert (tmp_path / "out" / "reports" / "sglang1.md").stat().st_mtime_ns == before


def test_check_mode_writes_nothing(tmp_path: pathlib.Path) -> None:
    assert "check mode: no report" in play(tmp_path, quiet(), "--check")
    assert not (tmp_path / "out").exists()


def test_run_that_knew_next_to_nothing_still_has_a_report(tmp_path: pathlib.Path) -> None:
    failure = {"host": "sglang1", "task": "Read the host", "msg": "no"}
    shown = play(tmp_path, {"sglang_instances": "no list", "sglang_resolved": None, "sglang_failure": failure})
    assert "sglang1: failed" in shown
    assert (tmp_path / "out" / "reports" / "sglang1.md").is_file()

"""python_stack_plan as a process, as Ansible runs it, with a lock, so that no index is needed."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[4]
LOCK = """sglang==0.5.9 \\
    --hash=sha256:aa11
    # via sglang-stack
    # from http://default.example/simple/
torch==2.9.1 \\
    --hash=sha256:bb22
    # via sglang
    # from http://default.example/simple/
"""


def plan(tmp_path: pathlib.Path, **params: t.Any) -> dict[str, t.Any]:
    installed = tmp_path / "packages"
    for name in ("torch-2.12.0.dev20260307+cu130", "tqdm-4.67.3"):
        (installed / f"{name}.dist-info").mkdir(parents=True)
    arguments = {
        "stack": {
            "indexes": {"default": "http://ann:s3cret-word@default.example/simple"},
            "requirements": {"sglang": {}},
        },
        "python": sys.executable,
        "lock": LOCK,
        "current": str(installed),
        **params,
    }
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.blackwell.sglang.plugins.modules.python_stack_plan"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        check=False,
    )
    assert done.stdout, done.stderr
    return t.cast(dict[str, t.Any], json.loads(done.stdout))


def test_changes_name_source_and_hashes_and_the_downgrade_is_refused(tmp_path: pathlib.Path) -> None:
    answer = plan(tmp_path)
    assert answer["failed"]
    assert "[downgrade:torch]" in answer["msg"]
    changes = {change["name"]: change for change in answer["changes"]}
    assert {name: change["action"] for name, change in changes.items()} == {
        "sglang": "add",
        "torch": "downgrade",
        "tqdm": "remove",
    }
    assert (changes["torch"]["source"], changes["torch"]["hashes"]) == ("default", ["sha256:bb22"])
    assert (changes["tqdm"]["source"], changes["tqdm"]["hashes"]) == (None, [])
    assert "downgrade  torch  2.12.0.dev20260307+cu130 -> 2.9.1  [default]" in answer["table"]


def test_a_plan_that_is_only_shown_does_not_fail(tmp_path: pathlib.Path) -> None:
    answer = plan(tmp_path, enforce=False)
    assert not answer.get("failed")
    assert answer["refused"]
    assert answer["changed"] is False

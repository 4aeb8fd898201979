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


def run_action(folder: pathlib.Path, keep: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The action plugin by ansible-playbook, with a uv of two lines that answers with LOCK."""
    uv = folder / "uv"
    answer = LOCK.replace("    # from http://default.example/simple/\n", "")
    (folder / "export.txt").write_text(answer, encoding="utf-8")
    source = '{ registry = "http://default.example/simple" }'
    locked = "version = 1\n" + "".join(
        f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {source}\n'
        for name, version in (("sglang", "0.5.9"), ("torch", "2.9.1"))
    )
    (folder / "uv.lock").write_text(locked, encoding="utf-8")
    uv.write_text(f'#!/bin/sh\n[ "$1" = lock ] && cp {folder}/uv.lock . || cat {folder}/export.txt\n', encoding="utf-8")
    uv.chmod(0o755)
    task = {
        "stack": {"indexes": {"default": "http://default.example/simple"}, "requirements": {"sglang": {}}},
        "python": sys.executable,
        "uv": str(uv),
        "root": str(folder),
        "keep": str(keep),
    }
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"blackwell.sglang.python_stack_plan": task}]}]
    (folder / "play.yml").write_text(json.dumps(play), encoding="utf-8")
    return subprocess.run(
        [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), str(folder / "play.yml"), *words],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_lock_is_kept_on_the_controller(tmp_path: pathlib.Path) -> None:
    keep = tmp_path / "locks" / "nightly.txt"
    shown = run_action(tmp_path, keep, "--check", "--diff")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "changed=1" in shown.stdout
    assert "+torch==2.9.1" in shown.stdout
    assert not keep.parent.exists(), "check mode"

    kept = run_action(tmp_path, keep)
    assert "changed=1" in kept.stdout, kept.stdout
    assert "torch==2.9.1" in keep.read_text(encoding="utf-8")
    assert keep.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in keep.parent.iterdir()] == [keep.name]

    written = keep.stat().st_mtime_ns
    assert "changed=0" in run_action(tmp_path, keep).stdout
    assert keep.stat().st_mtime_ns == written


def test_a_folder_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    failed = run_action(tmp_path, tmp_path / "file" / "nightly.txt")
    assert failed.returncode == 2
    said = " ".join(failed.stdout.split())
    assert f"{tmp_path}/file/nightly.txt" in said
    assert "Fix: set nightly_stack_lock_dir to one." in said

"""kv_cache_need_assert in a play: no connection, the same in check mode, warnings on the screen."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[4]
sys.path.insert(0, str(HERE.parents[1] / "module_utils"))

import kv_models

# Of the documentation range: a connection would fail.
HOST = "host ansible_host=192.0.2.1 ansible_connection=ssh ansible_ssh_timeout=1"
PLAY = """
- hosts: host
  gather_facts: false
  tasks:
    - blackwell.sglang.kv_cache_need_assert: "{{ lookup('ansible.builtin.file', given) | from_json }}"
"""
GIVEN = {
    "checkpoint": {"config": kv_models.CAPTURED, "engine_version": "0.5.12.post1", "weight_algo": "NVFP4"},
    "args": {"tp_size": 1, "kv_cache_dtype": "bf16"},
    "cards": [{"index": 0, "total_mib": 97887}],
    "engine_version": "0.5.12.post1",
}


@pytest.mark.parametrize("check", [[], ["--check"]])
@pytest.mark.parametrize(
    ("need", "status", "words"),
    [
        ({"context": 100000}, 0, "counted as nothing"),
        ({"context": 10**8}, 2, "100000000 are needed"),
        ({}, 0, "ok=1"),
    ],
)
def test_on_the_controller(
    tmp_path: pathlib.Path, need: dict[str, t.Any], status: int, words: str, check: list[str]
) -> None:
    (tmp_path / "play.yml").write_text(PLAY, encoding="utf-8")
    (tmp_path / "hosts").write_text(HOST + "\n", encoding="utf-8")
    (tmp_path / "given.json").write_text(json.dumps({**GIVEN, "need": need}), encoding="utf-8")
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).with_name("ansible-playbook"),
            "play.yml",
            *("-i", "hosts", "-e", f"given={tmp_path / 'given.json'}", "-v"),
            *check,
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    out = done.stdout + done.stderr
    assert done.returncode == status, out
    assert words in out
    assert "unreachable=0" in out

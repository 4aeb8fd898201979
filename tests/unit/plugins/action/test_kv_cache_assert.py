"""kv_cache_assert on the controller: the same answer as the module's, without a connection."""

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
from kv_shapes import FLOAT8, flat

# Of the documentation range: a connection would fail.
HOST = "host ansible_host=192.0.2.1 ansible_connection=ssh ansible_ssh_timeout=1"
PLAY = """
- hosts: host
  gather_facts: false
  tasks:
    - blackwell.sglang.kv_cache_assert: "{{ lookup('ansible.builtin.file', given) | from_json }}"
      register: judged
      ignore_errors: true
      ignore_unreachable: true
    - ansible.builtin.copy:
        content: "{{ judged | to_json }}"
        dest: "{{ given }}.answer"
        mode: "0644"
      delegate_to: localhost
      vars: {ansible_connection: local, ansible_python_interpreter: "{{ ansible_playbook_python }}"}
"""
CONFIG = {**kv_models.CAPTURED, "quantization_config": flat("FP8", kv_cache_scheme=FLOAT8)}


def on_controller(folder: pathlib.Path, params: dict[str, t.Any]) -> dict[str, t.Any]:
    (folder / "play.yml").write_text(PLAY, encoding="utf-8")
    (folder / "hosts").write_text(HOST + "\n", encoding="utf-8")
    given = folder / "given.json"
    given.write_text(json.dumps(params), encoding="utf-8")
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).with_name("ansible-playbook"),
            "play.yml",
            *("-i", "hosts"),
            *("-e", f"given={given}"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    answer = pathlib.Path(f"{given}.answer")
    assert answer.exists(), done.stdout + done.stderr
    return t.cast(dict[str, t.Any], json.loads(answer.read_text(encoding="utf-8")))


def by_module(params: dict[str, t.Any]) -> dict[str, t.Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.blackwell.sglang.plugins.modules.kv_cache_assert"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": params}),
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        capture_output=True,
        text=True,
        check=False,
    )
    return t.cast(dict[str, t.Any], json.loads(done.stdout))


OLD = {"id": "kv_cache_dtype", "reason": "measured", "until": "2020-01-01"}
IN_FORCE = {**OLD, "until": "2099-01-01"}


@pytest.mark.parametrize(
    ("params", "failed", "verdict"),
    [
        ({"args": ["--kv-cache-dtype", "bf16"]}, False, "ok"),
        ({"args": ["--kv-cache-dtype", "auto"]}, True, "violated"),
        ({"args": ["--kv-cache-dtype", "auto"], "exceptions": [IN_FORCE]}, False, "violated"),
        ({"args": ["--kv-cache-dtype", "auto"], "exceptions": [OLD]}, True, "violated"),
    ],
)
def test_as_the_module_and_without_a_connection(
    tmp_path: pathlib.Path, params: dict[str, t.Any], failed: bool, verdict: str
) -> None:
    params = {"checkpoint": CONFIG, "engine_version": "0.5.12.post1", **params}
    here, there = on_controller(tmp_path, params), by_module(params)
    assert (here["failed"], here["verdict"]) == (failed, verdict), here
    same = set(there) - {"invocation", "exception", "failed", "warnings"}
    assert {"evidence", "effective_dtype", "changed" if not failed else "msg"} <= same
    assert {key: here.get(key) for key in same} == {key: there[key] for key in same}
    assert len(here.get("warnings", [])) == len(there.get("warnings", [])) == (OLD in params.get("exceptions", []))
    assert all("no longer counts" in str(warning) for warning in here.get("warnings", []))


def test_an_input_that_makes_no_sense_is_named_as_by_the_module(tmp_path: pathlib.Path) -> None:
    params = {"checkpoint": CONFIG, "args": ["--kv-cache-dtype", "auto"], "exceptions": [{"id": "kv_cache_dtype"}]}
    here, there = on_controller(tmp_path, params), by_module(params)
    assert here["failed"]
    assert here["msg"] == there["msg"]
    assert "has no reason" in here["msg"]


def test_a_folder_of_the_host_is_read_there(tmp_path: pathlib.Path) -> None:
    answer = on_controller(tmp_path, {"path": "/models/none", "args": []})
    assert answer.get("unreachable"), answer

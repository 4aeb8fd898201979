# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The three KV modules as processes, as Ansible runs them, against files, a real HTTP server and a real process."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import typing as t

import pytest

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[4]
sys.path.insert(0, str(HERE.parents[1] / "module_utils"))

import kv_models
from kv_logs import info, log
from kv_shapes import FLOAT8, flat


def run(module: str, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
    arguments = {"ANSIBLE_MODULE_ARGS": {**params, "_ansible_check_mode": check}}
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.blackwell.sglang.plugins.modules.{module}"],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def checkpoint(tmp_path: pathlib.Path) -> str:
    folder = tmp_path / "model"
    folder.mkdir()
    quantization = flat("FP8", kv_cache_scheme=FLOAT8)
    (folder / "config.json").write_text(json.dumps({**kv_models.CAPTURED, "quantization_config": quantization}))
    return str(folder)


class Engine:
    """Answers /server_info, to those who know the key."""

    def __init__(self, answer: dict[str, t.Any], key: str | None = None) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                allowed = key is None or self.headers.get("Authorization") == f"Bearer {key}"
                body = json.dumps(answer if allowed else {"error": "Unauthorized"}).encode()
                self.send_response(200 if allowed else 401)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: t.Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def process() -> t.Iterator[int]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    yield child.pid
    child.kill()
    child.wait()


# --- hf_quant_config_info --------------------------------------------------------------------------------------------

DOCUMENTED = {
    *("weight_algo", "weight_algos", "group_size", "kv_cache_algo", "kv_cache_sources", "conflicts", "kv_scales"),
    *("exclude_modules", "producer", "architectures", "model_type", "model_dtype", "engine_auto_kv_cache_dtype"),
    *("quantization_argument", "explanation", "files", "folder", "config", "engine_version"),
}


def test_quant_info_returns_what_it_documents(checkpoint: str) -> None:
    result = run("hf_quant_config_info", check=True, path=checkpoint, engine_version="0.5.12.post1", verify_files=True)
    assert set(result) - {"invocation"} == DOCUMENTED | {"changed"} and result["changed"] is False
    assert result["engine_auto_kv_cache_dtype"] == "fp8_e4m3"
    assert result["files"] == {
        "complete": False,
        "missing": [],
        "truncated": [],
        "bytes": None,
    }  # there are no shards at all


def test_quant_info_names_what_is_wrong(checkpoint: str) -> None:
    pathlib.Path(checkpoint, "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"')
    result = run("hf_quant_config_info", path=checkpoint)
    assert result["failed"] and "hf_quant_config.json line 1 column" in result["msg"]


# --- kv_cache_assert -----------------------------------------------------------------------------------------------


def test_assert_before_a_start(checkpoint: str) -> None:
    good = run("kv_cache_assert", path=checkpoint, args="--kv-cache-dtype bf16", engine_version="0.5.12.post1")
    assert (good["verdict"], good["judged"], good["changed"]) == ("ok", "static", False)
    bad = run("kv_cache_assert", path=checkpoint, args=["--tp-size", "8"], engine_version="0.5.12.post1")
    assert bad["failed"] and (bad["verdict"], bad["recommendation"]) == ("violated", "--kv-cache-dtype bf16")
    assert "--kv-cache-dtype bf16" in bad["msg"] and "fp8_e4m3" in bad["msg"]


def test_assert_takes_a_registered_result(checkpoint: str) -> None:
    registered = run("hf_quant_config_info", path=checkpoint, engine_version="0.5.12.post1")
    bad = run("kv_cache_assert", checkpoint=registered, args="", engine_version="0.5.12.post1")
    assert (bad["verdict"], bad["effective_dtype"]) == ("violated", "fp8_e4m3")
    other = run("kv_cache_assert", checkpoint=registered, args="", engine_version="0.5.9")
    assert other["verdict"] == "unproved"
    budget = run("kv_cache_budget_info", config=registered, tp_size=8)
    assert budget["bytes_per_token"] == 15360


def test_assert_on_a_running_server_behind_a_key(checkpoint: str, process: int, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("\n".join(log(["bfloat16"], pid=process)))
    engine = Engine(info(), key="secret")
    common = {"path": checkpoint, "url": engine.url, "log_file": str(path), "tp_size": 1}
    proved = run("kv_cache_assert", **common, pid=process, api_key="secret")
    assert (proved.get("msg"), proved["verdict"], proved["judged"]) == (None, "ok", "live")
    assert "secret" not in json.dumps(proved)
    # Without the key the log still proves, by its own sizes.
    keyless = run("kv_cache_assert", **common, pid=process)
    assert keyless["verdict"] == "ok" and any("api_key" in item["says"] for item in keyless["evidence"])
    foreign = run("kv_cache_assert", **common, pid=1, api_key="secret", args="--kv-cache-dtype bf16")
    assert foreign["failed"] and foreign["verdict"] == "unproved"


def test_assert_finds_a_violation_that_the_arguments_hide(
    checkpoint: str, process: int, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "server.log"
    path.write_text("\n".join(log(["float8_e4m3fn"], tokens=2502982, pid=process)))
    engine = Engine(info("bf16", tokens=2502982))
    bad = run(
        "kv_cache_assert",
        path=checkpoint,
        args="--kv-cache-dtype bf16",
        url=engine.url,
        log_file=str(path),
        pid=process,
    )
    assert bad["failed"] and (bad["verdict"], bad["effective_dtype"]) == ("violated", "fp8_e4m3")


def test_check_mode_judges_the_arguments_alone_where_nothing_runs(checkpoint: str) -> None:
    nothing = {"path": checkpoint, "url": "http://127.0.0.1:1", "engine_version": "0.5.12.post1"}
    checked = run("kv_cache_assert", check=True, args="--kv-cache-dtype bf16", **nothing)
    assert (checked["verdict"], checked["judged"]) == ("ok", "static") and checked["warnings"]
    assert run("kv_cache_assert", args="--kv-cache-dtype bf16", **nothing)["verdict"] == "unproved"


@pytest.mark.parametrize(
    ("exception", "lifted"),
    [
        ({"id": "kv_cache_dtype", "reason": "memory comes first", "until": "2999-01-01"}, True),
        ({"id": "kv_cache_dtype_violated", "reason": "memory comes first"}, True),
        ({"id": "kv_cache_dtype_impossible", "reason": "another verdict"}, False),
        ({"id": "kv_cache_dtype", "reason": "over", "until": "2020-01-01"}, False),
        ({"id": "something_else", "reason": "no"}, False),
    ],
)
def test_exceptions_are_honoured_and_recorded(checkpoint: str, exception: dict[str, str], lifted: bool) -> None:
    result = run("kv_cache_assert", path=checkpoint, args="", engine_version="0.5.12.post1", exceptions=[exception])
    assert result["verdict"] == "violated" and bool(result.get("failed")) is not lifted
    if lifted:
        assert result["excepted_by"]["reason"] == exception["reason"]
        assert any(exception["reason"] in item["says"] for item in result["evidence"])


def test_an_exception_without_a_reason_is_refused(checkpoint: str) -> None:
    result = run(
        "kv_cache_assert", path=checkpoint, engine_version="0.5.12.post1", exceptions=[{"id": "kv_cache_dtype"}]
    )
    assert result["failed"] and "exceptions[0]" in result["msg"]


# --- kv_cache_budget_info ------------------------------------------------------------------------------------------


def test_budget_from_a_folder_and_from_a_dictionary(checkpoint: str) -> None:
    memory = {"available_before_load_gib": 139.13, "available_after_load_gib": 137.42, "mem_fraction_static": 0.5}
    folder = run("kv_cache_budget_info", path=checkpoint, engine_version="0.5.12.post1", **memory)
    assert (folder["state_slots"], folder["max_running_requests"]) == (179, 59)
    given = run("kv_cache_budget_info", config=kv_models.CAPTURED, engine_version="0.5.12.post1", **memory)
    assert given["tokens"] == folder["tokens"]


def test_budget_names_what_is_wrong() -> None:
    result = run("kv_cache_budget_info", config={"num_hidden_layers": "many"})
    assert result["failed"] and "num_hidden_layers" in result["msg"]
    result = run(
        "kv_cache_budget_info", config=kv_models.CAPTURED, available_after_load_gib=10.0, mem_fraction_static=1.5
    )
    assert result["failed"] and "mem_fraction_static" in result["msg"]

"""Servers that were started, or will start, by hand: found before anything stops, and named with the way to adopt."""

from __future__ import annotations

import json
import typing as t

import pytest
from conftest import Fleet, said, until

# Holds memory of GPU 1 under the command line of an engine.
SERVER = """
import json, os, pathlib, time
start = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
entry = {"pid": os.getpid(), "starttime": start, "name": "python3", "gpus": {"1": 9000}}
pathlib.Path(f"/run/lab-gpus/holders/{os.getpid()}.json").write_text(json.dumps(entry))
time.sleep(3600)
"""
RUNS = """
[Service]
Environment=CUDA_VISIBLE_DEVICES=1
ExecStart=python3 /srv/hand/server.py -m sglang.launch_server --model-path /models/Runs --port 31000
"""
# Shows on no port and no GPU until the next boot.
WAITS = """
[Service]
EnvironmentFile=/srv/hand/waits.env
ExecStart=/srv/hand/waits.sh
[Install]
WantedBy=multi-user.target
"""
SCRIPT = """#!/bin/bash
source /opt/venv/bin/activate
export CUDA_VISIBLE_DEVICES=2,3
exec python3 -m sglang.launch_server --model-path /models/Waits \\
    --tp 2 --port $PORT --api-key h4nd-made-k3y
"""
# Nothing of it is on this host's half of the cards, or on the port.
ELSEWHERE = """
[Service]
ExecStart=sglang serve --model-path /models/Elsewhere --port=31001 --base-gpu-id 6
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def by_hand(fleet: Fleet) -> t.Iterator[None]:
    """Three such units on the first host."""
    host = fleet.one.host
    host.check_output("mkdir -p /srv/hand /usr/local/lib/systemd/system")
    files = {
        "/srv/hand/server.py": SERVER,
        "/srv/hand/waits.sh": SCRIPT,
        "/srv/hand/waits.env": "PORT=30000\n",
        "/etc/systemd/system/runs.service": RUNS,
        "/etc/systemd/system/waits.service": WAITS,
        "/usr/local/lib/systemd/system/elsewhere.service": ELSEWHERE,
    }
    for path, text in files.items():
        host.check_output("printf %%s %s > %s", text, path)
    host.check_output("chmod +x /srv/hand/waits.sh; systemctl daemon-reload; systemctl start runs.service")
    host.check_output("systemctl enable waits.service elsewhere.service")
    held = "nvidia-smi --query-compute-apps=used_memory --format=csv,noheader,nounits"
    assert until(lambda: "9000" in host.check_output(held).split(), 10)
    yield
    host.run("systemctl disable --now runs.service waits.service elsewhere.service")
    host.run(f"rm -r {' '.join(files)}; systemctl daemon-reload")


def adopts(text: str, name: str) -> dict[str, t.Any]:
    """The entry that is to be written for a unit, out of a message."""
    start = text.index('{"name": "' + name + '"')
    entry: dict[str, t.Any] = json.JSONDecoder().raw_decode(text[start:])[0]
    return entry


@pytest.mark.usefixtures("by_hand")
def test_who_would_be_in_the_way_is_named_before_anything_stops(fleet: Fleet) -> None:
    before = (fleet.one.touched(), fleet.two.touched())
    run = fleet.upgrade(stack="april")
    assert run.rc == 2, run.output
    assert (fleet.one.touched(), fleet.two.touched()) == before
    # The drain is undone, and the second host's turn never came.
    assert [(hook.name, hook.host) for hook in fleet.hooks()] == [("before", "sglang1"), ("after", "sglang1")]
    assert not fleet.reported("sglang2")
    report = fleet.report("sglang1")
    assert report["result"] == "failed"
    words = report["failure"]["msg"]
    assert "qwen was not touched" in words
    assert "GPU 1: 9000 MiB held by" in words
    assert "runs.service" in words
    assert adopts(words, "runs") == {
        "name": "runs",
        "model_path": "/models/Runs",
        "gpus": [1],
        "args": {"port": 31000},
    }
    assert "then systemctl disable --now runs.service, then site.yml" in words
    assert (
        "waits.service, which was made by hand (/etc/systemd/system/waits.service), starts at boot and would take"
        " port 30000 and GPU 2, 3" in words
    )
    assert adopts(words, "waits") == {
        "name": "waits",
        "model_path": "/models/Waits",
        "gpus": [2, 3],
        "args": {"tp": 2, "port": 30000},
        "api_key": "{{ vault_sglang_api_key }}",
    }
    assert "elsewhere" not in words
    assert "h4nd-made-k3y" not in said(run) + json.dumps(report)
    status = fleet.run("playbooks/status.yml", "--limit", "sglang1")
    for shown in (
        "runs.service was made by hand (/etc/systemd/system/runs.service), is active, uses port 31000 and GPU 1",
        "waits.service was made by hand (/etc/systemd/system/waits.service), is inactive, starts at boot, uses port"
        " 30000 and GPU 2, 3",
        "elsewhere.service was made by hand (/usr/local/lib/systemd/system/elsewhere.service), is inactive, starts at"
        " boot, uses port 31001 and GPU 6",
    ):
        assert shown in said(status), status.output


def test_nothing_is_in_the_way_of_what_serves_already(fleet: Fleet) -> None:
    assert fleet.one.serves() == []
    assert fleet.two.serves() == []

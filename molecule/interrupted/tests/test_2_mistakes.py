"""Mistakes that only the host can know: one clear error each, and the service is not touched."""

from __future__ import annotations

import pathlib
import shutil
import typing as t

import pytest

from playbooks import Playbooks

BASE = {"name": "qwen", "profile": "qwen3_5_397b_nvfp4", "model_path": "/models/Qwen3.5-397B-A17B-NVFP4"}
# What makes the folder on the host, and what the message must say beside the path.
CHECKPOINTS = {
    "no config.json": ("mkdir -p /srv/bad/empty", "/srv/bad/empty", "config.json"),
    "broken JSON": (
        "mkdir -p /srv/bad/broken && cp /models/Qwen3.5-397B-A17B-NVFP4/config.json /srv/bad/broken/ && "
        "head -c 900 /models/Qwen3.5-397B-A17B-NVFP4/config.json >/srv/bad/broken/config.json",
        "/srv/bad/broken",
        "line",
    ),
    "no such folder": ("true", "/srv/bad/nowhere", "model_path"),
}


def invocation(host: t.Any) -> str:
    """The InvocationID of the running service: it changes with every start."""
    return str(host.check_output("systemctl show -P InvocationID sglang-qwen.service"))


@pytest.mark.parametrize("mistake", CHECKPOINTS)
def test_a_bad_checkpoint_is_refused_while_the_service_runs_on(host: t.Any, playbooks: Playbooks, mistake: str) -> None:
    make, path, word = CHECKPOINTS[mistake]
    host.check_output(make)
    before = invocation(host)
    run = playbooks.run(variables={"sglang_instances": [{**BASE, "model_path": path}]})
    assert run.rc != 0
    said = " ".join(run.output.split())
    assert path in said
    assert word in said
    assert invocation(host) == before
    assert host.service("sglang-qwen").is_running


def test_an_unreachable_host_is_named(playbooks: Playbooks, tmp_path: pathlib.Path) -> None:
    inventory = tmp_path / "inventory"
    shutil.copytree(playbooks.inventory, inventory)
    hosts = inventory / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("}}.11", "}}.77"))
    run = playbooks.run(inventory=inventory)
    assert run.rc != 0
    assert "sglang1" in run.output
    assert "10.213.7.77" in run.output
    attempts = [call for call in run.module_calls if call[1] == "10.213.7.77"]
    assert len(attempts) == 1, attempts

"""Two instances on the same GPUs: switching is one variable, and a switch that fails is taken back."""

from __future__ import annotations

import json
import typing as t

import pytest

from playbooks import Playbooks, Run

CONVERGE = "molecule/sglang_service/converge.yml"
QWEN = {
    "name": "qwen",
    "profile": "qwen3_5_397b_nvfp4",
    "stack": "lab",
    "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
}
OTHER = {**QWEN, "name": "other", "args": {"port": 30001}}


def serve(playbooks: Playbooks, name: str, **keys: t.Any) -> Run:
    """Run with one of the two started; further keys are of that one."""
    instances = [
        {**each, **(keys if each["name"] == name else {}), "state": "started" if each["name"] == name else "stopped"}
        for each in (QWEN, OTHER)
    ]
    return playbooks.run(CONVERGE, variables={"sglang_instances": instances})


def state(host: t.Any, name: str) -> tuple[str, str]:
    """Whether a unit runs, and whether it starts at boot."""
    shown = host.run(f"systemctl show -P ActiveState -P UnitFileState sglang-{name}.service").stdout.split()
    return shown[0], shown[1] if len(shown) > 1 else ""


def proved(host: t.Any, name: str) -> bool:
    """Whether this very start of an instance passed its gate."""
    proof = json.loads(host.file(f"/var/lib/sglang/{name}/proof.json").content_string)
    shown = host.check_output(f"systemctl show -P InvocationID sglang-{name}.service")
    return bool(proof["passed"] and proof["invocation_id"] == shown)


def holders(host: t.Any) -> set[str]:
    """Instances whose processes hold GPU memory."""
    pids = host.check_output("nvidia-smi --query-compute-apps=pid --format=csv,noheader").split()
    units = [host.file(f"/proc/{pid}/cgroup").content_string.strip().rsplit("/", 1)[-1] for pid in set(pids)]
    return {unit.removeprefix("sglang-").removesuffix(".service") for unit in units}


def test_a_further_entry_leaves_what_runs_alone(host: t.Any, playbooks: Playbooks, service: t.Any) -> None:
    first = serve(playbooks, "qwen")  # as an earlier test left it, it may differ from this entry
    assert first.rc == 0, first.output
    before = service.show("InvocationID")
    alone = playbooks.run(CONVERGE, variables={"sglang_instances": [QWEN]})
    assert alone.rc == 0, alone.output
    assert "Conflicts" not in host.check_output("systemctl cat sglang-qwen.service")
    both = serve(playbooks, "qwen")
    assert both.rc == 0, both.output
    assert service.show("InvocationID") == before
    assert "sglang-other.service" in service.show("Conflicts")
    assert serve(playbooks, "qwen").changed == {}


def test_the_switch_stops_the_one_and_proves_the_other(host: t.Any, playbooks: Playbooks) -> None:
    run = serve(playbooks, "other")
    assert run.rc == 0, run.output
    assert state(host, "other") == ("active", "enabled")
    assert state(host, "qwen") == ("inactive", "disabled")
    assert proved(host, "other")
    assert holders(host) == {"other"}
    again = serve(playbooks, "other")
    assert again.changed == {}, again.output


def test_started_by_hand_the_one_ends_the_other(host: t.Any) -> None:
    host.check_output("systemctl start sglang-qwen.service")
    assert state(host, "other")[0] == "inactive"
    host.check_output("systemctl stop sglang-qwen.service")
    host.check_output("systemctl start sglang-other.service")


@pytest.mark.parametrize("known", [False, True], ids=["never good", "good before"])
def test_a_switch_that_fails_brings_the_old_one_back(host: t.Any, playbooks: Playbooks, known: bool) -> None:
    """Also where the new one was good once: what served before the run was the other."""
    back = serve(playbooks, "other")
    assert back.rc == 0, back.output
    if not known:
        host.check_output("rm -rf /var/lib/sglang/qwen")
    fault = json.dumps({"fault": "nan", "time_scale": 0.02})
    run = serve(playbooks, "qwen", env={"SGLANG_STANDIN": fault})
    said = " ".join(run.output.split())
    assert run.rc == 2, run.output
    assert "right.logprobs" in said
    assert "other, which had made room, serves again and passed its gate" in said
    assert state(host, "other") == ("active", "enabled")
    assert state(host, "qwen") == ("inactive", "disabled")
    assert proved(host, "other")
    assert holders(host) == {"other"}
    at_rest = serve(playbooks, "other")
    assert at_rest.changed == {}, at_rest.output


def test_the_switch_back(host: t.Any, playbooks: Playbooks) -> None:
    run = serve(playbooks, "qwen")
    assert run.rc == 0, run.output
    assert state(host, "qwen") == ("active", "enabled")
    assert state(host, "other") == ("inactive", "disabled")
    assert holders(host) == {"qwen"}


def test_an_entry_that_goes_leaves_what_runs_alone(playbooks: Playbooks, service: t.Any) -> None:
    before = service.show("InvocationID")
    run = playbooks.run(CONVERGE)
    assert run.rc == 0, run.output
    assert service.show("Conflicts") == "shutdown.target"
    assert service.show("InvocationID") == before
    assert playbooks.run(CONVERGE).changed == {}

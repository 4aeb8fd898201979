"""site.yml killed at five points is finished by the next run; no link ever points at an unverified release."""

from __future__ import annotations

import json
import typing as t

import pytest

from playbooks import Playbooks

# Task after whose end the run dies, seconds later; in the order of the chain, so each run gets further than the last.
POINTS = {
    "the venv": ("Begin the release", 1.0),
    "the build": ("Install CMake, ninja and scikit-build-core", 12.0),
    "the files of the service": ("Mark the deployment", 0.5),
    "the start": ("Point the instance at its release", 0.7),
    "the gate": ("Start the unit", 1.5),
}


def linked_state(host: t.Any) -> str | None:
    """State of the release that the instance's link points at; None without a link."""
    release = host.check_output("readlink -f /opt/sglang/instances/qwen/release 2>/dev/null || true")
    if not release or not host.file(release).exists:
        return None
    return str(json.loads(host.file(f"{release}/release.json").content_string)["state"])


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_leaves_no_link_to_a_release_that_is_not_verified(
    host: t.Any, playbooks: Playbooks, point: str
) -> None:
    task, seconds = POINTS[point]
    run = playbooks.run(kill_at=f": {task}]", kill_after=seconds)
    assert run.killed, f"the run ended before {task}:\n{run.output}"
    assert linked_state(host) in (None, "verified")


def test_the_next_run_finishes(host: t.Any, playbooks: Playbooks) -> None:
    run = playbooks.run()
    assert run.rc == 0, run.output
    assert linked_state(host) == "verified"
    assert host.service("sglang-qwen").is_running
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    assert proof["passed"]


def test_and_the_one_after_it_changes_nothing(playbooks: Playbooks) -> None:
    run = playbooks.run()
    assert run.rc == 0, run.output
    assert run.changed == {}

"""What plan and check mode refuse, and the unit as systemd has it."""

from __future__ import annotations

import re
import typing as t

import pytest
from conftest import MODEL, Fleet, said

# What is wrong with the instance, and what is said about it.
MISTAKES: dict[str, tuple[dict[str, t.Any], str]] = {
    "an argument that no engine has": (
        {"args": {"kv_cache_dtypo": "bf16"}},
        "write kv_cache_dtype",
    ),
    "a KV cache that follows the checkpoint": (
        {"args": {"kv_cache_dtype": "auto"}},
        "write kv_cache_dtype: bf16",
    ),
    "an argument that only the release's parser knows to be wrong": (
        {
            "keys": {
                "extra_args": ["--only-in-a-fork"],
                "exceptions": [{"id": "unknown_argument", "reason": "a fork has it", "until": "2099-01-01"}],
            }
        },
        "does not take its arguments",
    ),
}


def refusal(text: str) -> str:
    """The message of the task that failed, without who ran it."""
    found = re.search(r"fatal: \[\w+\]: FAILED! => (.*?)(?:PLAY RECAP|TASK \[)", text)
    assert found, text
    return found[1]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_plan_and_check_mode_refuse_in_the_same_words_and_touch_nothing(fleet: Fleet, mistake: str) -> None:
    changes, words = MISTAKES[mistake]
    before = fleet.one.touched()
    limit = ("--limit", "localhost,sglang1")
    plan = fleet.run("playbooks/plan.yml", *limit, **changes)
    check = fleet.run("site.yml", *limit, "--check", **changes)
    assert (plan.rc, check.rc) == (2, 2), plan.output + check.output
    assert words in said(plan), plan.output
    assert words in said(check), check.output
    assert refusal(said(plan)) == refusal(said(check))
    assert fleet.one.touched() == before
    assert not fleet.reported("sglang1"), "check mode reports nothing"


def test_plan_shows_a_new_release_and_changes_nothing(fleet: Fleet) -> None:
    before = fleet.one.touched()
    releases = fleet.one.host.check_output("ls /opt/sglang/releases")
    run = fleet.run("playbooks/plan.yml", "--limit", "localhost,sglang1", stack="april")
    assert run.rc == 0, run.output
    assert "sglang1: stack april for qwen: The lab's engine as it is" in run.output
    assert "qwen: deploy, since" in said(run), run.output
    assert fleet.one.touched() == before
    assert fleet.one.host.check_output("ls /opt/sglang/releases") == releases


def test_the_unit_waits_for_network_driver_and_mounts(fleet: Fleet) -> None:
    after = fleet.one.show("After").split()
    assert {"network-online.target", "nvidia-persistenced.service"} <= set(after)
    assert "network-online.target" in fleet.one.show("Wants").split()
    assert {MODEL, "/opt/sglang"} <= set(fleet.one.show("RequiresMountsFor").split())


def test_an_option_of_the_unit_is_replaced_and_one_taken_away(fleet: Fleet) -> None:
    assert fleet.one.show("LimitNOFILE") == "524288"
    assert fleet.one.show("ProtectClock") == "no"
    # Their neighbours in the same tables are as the role has them.
    assert fleet.one.show("LimitMEMLOCK") == "infinity"
    assert fleet.one.show("ProtectKernelLogs") == "yes"

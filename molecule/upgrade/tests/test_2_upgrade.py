"""From one release to the next on two hosts: proved before the next one's turn, put back where it fails."""

from __future__ import annotations

import datetime
import re
import typing as t

from conftest import Fleet, said

APRIL: dict[str, t.Any] = {"stack": "april", "args": {"schedule_policy": "lpm"}}


def test_host_by_host_each_proved_before_the_next(fleet: Fleet) -> None:
    old = {each.name: each.link() for each in (fleet.one, fleet.two)}
    before = {each.name: each.show("InvocationID") for each in (fleet.one, fleet.two)}
    seen: dict[str, t.Any] = {}

    def look() -> None:
        seen.update(serves=fleet.one.serves(), first=fleet.one.link(), second=fleet.two.touched())

    untouched = fleet.two.touched()
    run = fleet.upgrade(**APRIL, at="Do what has to be done once the host is back", act=look)
    assert run.rc == 0, run.output
    # As it was when the first host's turn ended.
    assert seen["serves"] == []
    assert seen["first"] != old["sglang1"]
    assert seen["second"] == untouched
    for each in (fleet.one, fleet.two):
        assert each.serves() == []
        assert (each.stack(), each.stack(old[each.name])) == ("april", "march")
        assert each.show("InvocationID") != before[each.name]
    hooks = fleet.hooks()
    assert [(hook.name, hook.host) for hook in hooks] == [
        ("before", "sglang1"),
        ("after", "sglang1"),
        ("before", "sglang2"),
        ("after", "sglang2"),
    ]
    assert [hook.invocation for hook in hooks] == [
        before["sglang1"],
        fleet.one.show("InvocationID"),
        before["sglang2"],
        fleet.two.show("InvocationID"),
    ]
    shown = re.findall(r"qwen is proved, after ([\d.]+) s without service", said(run))
    assert len(shown) == 2, run.output
    for each, (before_hook, after_hook), on_screen in zip(
        (fleet.one, fleet.two), (hooks[:2], hooks[2:]), shown, strict=True
    ):
        down = fleet.report(each.name)["timings"]["downtime_seconds"]["qwen"]
        assert 0 < float(on_screen) <= down < after_hook.at - before_hook.at
        assert fleet.report(each.name)["result"] == "serving"
        proved = datetime.datetime.fromisoformat(each.proof()["at"]).timestamp()
        assert int(before_hook.at) <= proved <= after_hook.at


def test_rollback_of_one_host_goes_to_the_release_before(fleet: Fleet) -> None:
    new, untouched = fleet.one.link(), fleet.two.touched()
    run = fleet.run("playbooks/rollback.yml", "--limit", "sglang1", **APRIL)
    assert run.rc == 0, run.output
    assert fleet.one.stack() == "march"
    assert f"qwen: {new} goes, {fleet.one.link()} comes" in said(run)
    assert "s without service" in said(run)
    assert fleet.one.serves() == []
    assert fleet.two.touched() == untouched
    report = fleet.report("sglang1")
    assert report["result"] == "serving"
    (instance,) = report["instances"]
    assert instance["release_id"] == fleet.one.link()
    assert "--schedule-policy" not in instance["argv"], "the arguments of what came back, not of the inventory"
    assert 0 < report["timings"]["downtime_seconds"]["qwen"] < run.seconds


def test_a_pinned_release_stays(fleet: Fleet) -> None:
    """The inventory still asks for the newer stack; of its arguments, those that are new with it are out again."""
    before = fleet.one.touched()
    only = ("--limit", "localhost,sglang1")
    pin = {"sglang_service_releases": {"qwen": fleet.one.link()}}
    run = fleet.run("site.yml", *only, stack="april", variables=pin)
    assert (run.rc, run.changed) == (0, {}), run.output
    assert fleet.one.touched() == before
    free = fleet.run("site.yml", *only, "--check", stack="april")
    assert f"release {fleet.one.link()} is to become" in said(free), free.output


def test_a_release_that_fails_its_gate_is_put_back_and_ends_the_run(fleet: Fleet) -> None:
    """After the tests above the first host has the older release, linked, and the newer one beside it."""
    old, before, untouched = fleet.one.link(), fleet.one.show("InvocationID"), fleet.two.touched()
    unit = fleet.one.host.file("/etc/systemd/system/sglang-qwen.service").content_string
    run = fleet.upgrade(stack="april", fault={"fault": "nan"})
    assert run.rc == 2, run.output
    assert fleet.one.link() == old
    assert fleet.one.host.file("/etc/systemd/system/sglang-qwen.service").content_string == unit
    assert "nan" not in fleet.one.host.file("/etc/sglang/qwen.env").content_string
    assert fleet.one.serves() == []
    assert fleet.one.show("InvocationID") != before
    # It serves again what was good, so it gets people again; the other never lost them.
    hooks = fleet.hooks()
    assert [(hook.name, hook.host) for hook in hooks] == [("before", "sglang1"), ("after", "sglang1")]
    assert [hook.invocation for hook in hooks] == [before, fleet.one.show("InvocationID")]
    assert fleet.two.touched() == untouched
    report = fleet.report("sglang1")
    assert not fleet.reported("sglang2")
    (instance,) = report["instances"]
    for words in (said(run), report["failure"]["msg"]):
        assert "qwen did not pass its gate. right.logprobs" in words
        assert f"The last good release {old} is back and passed its gate, after" in words
    assert report["result"] == "failed"
    assert not instance["gate"]["passed"]
    assert instance["rollback"]["to_release"] == old
    assert instance["rollback"]["gate"]["passed"]
    assert 0 < report["timings"]["downtime_seconds"]["qwen"] < hooks[1].at - hooks[0].at

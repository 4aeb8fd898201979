"""Links, good entries and the plan: state on a disk, cut off at every point."""

from __future__ import annotations

import json
import os
import pathlib
import socket
from typing import Any

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _procs,
    _service,
    _service_gpus,
    _service_plan,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


@pytest.fixture
def places(tmp_path: pathlib.Path) -> _service.Places:
    roots = {name: str(tmp_path / name) for name in ("root", "state_root", "config_root", "unit_root")}
    return _service.Places("qwen", **roots)


def release(places: _service.Places, name: str, state: str = "verified", digest: str = "d1") -> str:
    folder = places.release(name)
    folder.mkdir(parents=True)
    content = {"id": name, "state": state, "stack": "nightly", "stack_digest": digest}
    (folder / "release.json").write_text(json.dumps(content), encoding="utf-8")
    return name


def install(places: _service.Places, name: str, text: str) -> None:
    _service.write_text(places.unit_file, f"[Service]\n# {text}\n", 0o644)
    _service.write_text(places.env_file, f"A={text}\n", 0o600)
    _service.switch(places, name)


def test_the_link_goes_to_verified_releases_only(places: _service.Places) -> None:
    release(places, "1-good")
    release(places, "2-building", state="building")
    assert _service.switch(places, "1-good") is True
    assert _service.switch(places, "1-good") is False
    for bad in ("2-building", "3-absent"):
        with pytest.raises(SglangError, match="no instance may use it"):
            _service.switch(places, bad)
    assert _service.linked_release(places) == "1-good"
    assert (places.link / "release.json").exists(), "the link is relative and leads to the release"
    assert [path.name for path in places.link.parent.iterdir()] == ["release"]


def test_the_last_good_comes_back_whole(places: _service.Places) -> None:
    for name in ("1", "2"):
        release(places, name)
    install(places, "1", "old")
    _service.record_good(places, {"at": "t1"}, {"name": "qwen", "tp_size": 8, "env": {"TOKEN": "x"}})
    assert _service.is_good(places)
    assert _service.last_good(places) is None, "what is installed is the last good one"
    _service.begin_pending(places, "2", "t2")
    install(places, "2", "new")
    entry = _service.last_good(places)
    assert entry is not None
    changed = _service.restore(places, entry)
    assert sorted(changed) == sorted(map(str, (places.unit_file, places.env_file, places.link)))
    assert _service.is_good(places)
    assert places.env_file.stat().st_mode & 0o777 == 0o600
    assert places.good.stat().st_mode & 0o777 == 0o600
    assert "TOKEN" not in json.dumps(entry["instance"])


def test_an_operators_step_back_goes_further_than_a_failed_gate(places: _service.Places) -> None:
    for name in ("1", "2"):
        release(places, name)
        install(places, name, name)
        _service.record_good(places, {"at": name}, {"name": "qwen"})
    assert _service.last_good(places) is None
    step = _service.last_good(places, previous=True)
    assert step is not None
    assert step["release"] == "1"


def test_a_step_back_under_a_pinned_release_goes_to_its_arguments_before(places: _service.Places) -> None:
    """Seen on a real host: the pin of the inventory named what was installed, which was started again as it was."""
    release(places, "0")
    release(places, "1")
    for name, arguments in (("0", "first"), ("1", "before"), ("1", "now")):
        install(places, name, arguments)
        _service.record_good(places, {"at": arguments}, {"name": "qwen"})
    entry = _service.last_good(places, previous=True, release="1")
    assert entry is not None
    assert entry["at"] == "before"
    planned = _service.restore(places, entry, dry=True)
    assert planned == [str(places.unit_file), str(places.env_file)]
    assert _service.last_good(places, previous=True, release="1") == entry, "a look changes nothing"
    assert _service.restore(places, entry) == planned
    first = _service.last_good(places, previous=True, release="0")
    assert first is not None
    assert first["at"] == "first"
    assert _service.restore(places, first, dry=True) == [str(places.unit_file), str(places.env_file), str(places.link)]
    assert _service.last_good(places, previous=True, release="2") is None


def test_a_release_that_is_named_may_be_what_is_installed(places: _service.Places) -> None:
    release(places, "1")
    install(places, "1", "now")
    _service.record_good(places, {"at": "t"}, {"name": "qwen"})
    for named in ({"release": "1"}, {"booted": True}):
        entry = _service.last_good(places, **named)
        assert entry is not None
        assert _service.restore(places, entry) == []
    assert _service.last_good(places, previous=True, release="1") is None, "there is nothing else to go back to"


def test_good_entries_are_few_and_the_newest_first(places: _service.Places) -> None:
    for name in "12345":
        release(places, name)
        install(places, name, name)
        _service.record_good(places, {"at": name}, {"name": "qwen"})
    assert [entry["release"] for entry in _service.good_entries(places)] == ["5", "4", "3"]


def test_half_a_file_is_no_state(places: _service.Places) -> None:
    places.good.parent.mkdir(parents=True)
    places.good.write_text('{"version": 1, "entries": [{"rel', encoding="utf-8")
    assert _service.good_entries(places) == []
    assert not _service.is_good(places)


RUNNING = {
    "active": "active",
    "sub": "running",
    "load": "loaded",
    "enabled": True,
    "invocation_id": "i1",
    "needs_reload": False,
}
PROVED = {"invocation_id": "i1", "passed": True}


def state(**changes: Any) -> dict[str, Any]:
    base = {
        "unit": RUNNING,
        "link": "r",
        "release": "r",
        "files": [],
        "drop_ins": [],
        "pending": None,
        "proof": PROVED,
        "is_good": True,
    }
    return {**base, **changes}


@pytest.mark.parametrize(
    ("wanted", "changes", "action"),
    [
        ("started", {}, "none"),
        ("started", {"link": ""}, "deploy"),
        ("started", {"release": "s"}, "deploy"),
        ("started", {"files": [{"path": "/x", "current": False}]}, "deploy"),
        ("started", {"pending": {"release": "r"}}, "deploy"),
        ("started", {"drop_ins": [{"path": "/r/90-backend-matrix.conf", "kind": "trial", "sets": []}]}, "deploy"),
        ("started", {"drop_ins": [{"path": "/e/mine.conf", "kind": "other", "sets": ["ExecStart"]}]}, "deploy"),
        ("started", {"drop_ins": [{"path": "/e/mine.conf", "kind": "other", "sets": ["Environment"]}]}, "none"),
        ("started", {"drop_ins": [{"path": "/e/10-nccl.conf", "kind": "role", "sets": ["Environment"]}]}, "none"),
        ("started", {"unit": {**RUNNING, "active": "failed"}}, "deploy"),
        ("started", {"unit": {**RUNNING, "active": "activating", "sub": "auto-restart"}}, "deploy"),
        ("started", {"unit": {**RUNNING, "needs_reload": True}}, "deploy"),
        ("started", {"unit": {**RUNNING, "enabled": False}}, "gate"),
        ("started", {"proof": None}, "gate"),
        ("started", {"proof": {**PROVED, "invocation_id": "i0"}}, "gate"),
        ("started", {"proof": {**PROVED, "passed": False}}, "gate"),
        ("started", {"is_good": False}, "gate"),
        ("stopped", {}, "stop"),
        ("stopped", {"unit": {**RUNNING, "active": "inactive", "enabled": False}}, "none"),
        ("stopped", {"unit": {**RUNNING, "active": "inactive"}}, "stop"),
    ],
)
def test_the_action_follows_from_the_state(wanted: str, changes: dict[str, Any], action: str) -> None:
    decided, reasons = _service_plan.decide(wanted, state(**changes))
    assert decided == action
    assert bool(reasons) == (action != "none")


def test_the_release_of_the_stack_is_found(places: _service.Places) -> None:
    release(places, "1")
    release(places, "2")
    release(places, "3", state="building")
    release(places, "4", digest="other")
    known = _service.releases(places.root)
    assert [item["id"] for item in known] == ["4", "3", "2", "1"]
    assert _service_plan.choose_release({"stack_digest": "d1"}, "1", known) == "1"
    assert _service_plan.choose_release({"stack_digest": "d1"}, "4", known) == "2"
    assert _service_plan.choose_release({"stack_digest": "nope"}, "1", known) == ""


def test_a_bare_host_is_read_without_a_failure(places: _service.Places) -> None:
    roots = {"state_root": places.state_root, "config_root": places.config_root, "unit_root": places.unit_root}
    files = [{"path": str(places.unit_file), "sha256": "0", "mode": "0644"}]
    wanted = {"name": "qwen", "state": "started", "port": 1, "gpus": "all", "files": files}
    found = _service_plan.probe(lambda words: (127, "", "not found"), [wanted], places.root, [], roots)
    assert found["instances"]["qwen"]["action"] == "deploy"
    assert found["instances"]["qwen"]["release"] == ""
    assert found["gpus"]["error"]


def test_who_listens_is_found_with_name_and_user() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        found = _procs.listeners(server.getsockname()[1])
    assert [(each["pid"], each["address"]) for each in found] == [(os.getpid(), "127.0.0.1")]


def holder(index: int, mib: int | None, unit: str, pid: int = 7) -> dict[str, Any]:
    return {"index": index, "mib": mib, "unit": unit, "pid": pid, "name": "python", "user": "u"}


def test_memory_of_others_is_seen_even_where_nobody_can_be_named() -> None:
    gpus = [
        {"index": n, "uuid": f"GPU-{n}", "used_mib": used, "total_mib": 97887} for n, used in enumerate((0, 800, 90000))
    ]
    own = "sglang-qwen.service"
    seen = {"error": "", "gpus": gpus, "holders": [holder(2, 89000, own)]}
    taken = _service_gpus.taken(seen, "all", {own})
    assert [(each["index"], each["others_mib"]) for each in taken] == [(1, 800), (2, 1000)]
    assert "cannot be seen from here" in _service_gpus.sentence(taken[:1])
    assert _service_gpus.taken(seen, [0], {own}) == []
    hidden = {"error": "", "gpus": gpus, "holders": [holder(1, None, own), holder(2, None, own)]}
    assert _service_gpus.taken(hidden, "all", {own}) == [], "how much is ours is not known before it stopped"
    foreign = {"error": "", "gpus": gpus, "holders": [holder(2, 90000, "user.scope")]}
    assert "python (pid 7, user u, user.scope, 90000 MiB)" in _service_gpus.sentence(
        _service_gpus.taken(foreign, [2], {own})
    )

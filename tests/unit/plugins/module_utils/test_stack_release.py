"""Releases and the run lock: states, what survives an interruption, what pruning spares."""

from __future__ import annotations

import json
import pathlib
import time
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _stack_host,
    _stack_lock,
    _stack_probe,
    _stack_release,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

LOCK = "torch==2.11.0 \\\n    --hash=sha256:aa\n    # via sglang\n"
FACTS = {"stack": "nightly", "stack_digest": "0123456789ab", "python": "3.12"}
STACK: dict[str, t.Any] = {"digest": "0123456789ab", "python": ["3.12"], "kernel": {"build": "source"}}


def begin(root: pathlib.Path, day: int, **facts: t.Any) -> dict[str, t.Any]:
    """A release that was begun on some day of November 2026."""
    return _stack_release.begin(root, {**FACTS, **facts}, LOCK, f"2026-11-{day:02d}T10:00:00Z")


def verified(root: pathlib.Path, day: int, **facts: t.Any) -> dict[str, t.Any]:
    """A release that was verified, with an interpreter in it."""
    release = begin(root, day, **facts)
    python = pathlib.Path(release["path"], "venv", "bin", "python")
    python.parent.mkdir(parents=True)
    python.touch()
    return _stack_release.update(release["path"], {"state": "verified"})[1]


def probe(root: pathlib.Path) -> dict[str, t.Any]:
    """What the roles see of the stack nightly."""
    result = _stack_probe.probe(lambda _command: (1, "", ""), str(root), {"nightly": STACK})
    stack: dict[str, t.Any] = result["stacks"]["nightly"]
    return stack


def test_comments_and_order_of_a_lock_do_not_count() -> None:
    other = "# made later\n    --hash=sha256:aa\ntorch==2.11.0 \\\n    # via flashinfer-python\n"
    assert _stack_release.lock_digest(LOCK) == _stack_release.lock_digest(other)
    assert _stack_release.lock_digest(LOCK) != _stack_release.lock_digest(LOCK.replace("aa", "ab"))


def test_id_is_the_time_and_the_lock(tmp_path: pathlib.Path) -> None:
    digest = _stack_release.lock_digest(LOCK)
    assert begin(tmp_path, 29)["id"] == f"20261129T100000Z-{digest[:8]}"


def test_todo_shrinks_step_by_step(tmp_path: pathlib.Path) -> None:
    assert probe(tmp_path)["todo"] == ["install", "kernel", "verify"]
    release = begin(tmp_path, 1)
    assert probe(tmp_path)["todo"] == ["install", "kernel", "verify"]
    _stack_release.update(release["path"], {"installed": True})
    assert probe(tmp_path)["todo"] == ["kernel", "verify"]
    _stack_release.update(release["path"], {"kernel": {"wheel": "/x.whl"}})
    assert probe(tmp_path)["todo"] == ["verify"]
    verified(tmp_path, 2)
    assert probe(tmp_path)["todo"] == []


def test_a_stack_with_a_kernel_wheel_builds_none() -> None:
    assert _stack_probe.todo({"kernel": {"build": "wheel"}}, None) == ["install", "verify"]


def test_a_verified_release_without_its_environment_does_not_count(tmp_path: pathlib.Path) -> None:
    release = verified(tmp_path, 1)
    pathlib.Path(release["path"], "venv", "bin", "python").unlink()
    assert probe(tmp_path)["release"] is None


def test_a_changed_stack_needs_a_new_release(tmp_path: pathlib.Path) -> None:
    release = verified(tmp_path, 1, stack_digest="ffffffffffff")
    assert probe(tmp_path)["release"] is None
    assert probe(tmp_path)["previous"]["id"] == release["id"]


def test_a_verified_release_is_preferred_to_one_that_is_being_built(tmp_path: pathlib.Path) -> None:
    good = verified(tmp_path, 1)
    begin(tmp_path, 2)
    assert probe(tmp_path)["release"]["id"] == good["id"]


def test_a_verified_release_is_never_changed(tmp_path: pathlib.Path) -> None:
    release = verified(tmp_path, 1)
    with pytest.raises(SglangError, match="never changed"):
        _stack_release.update(release["path"], {"versions": {"torch": "1"}})
    before, after = _stack_release.update(release["path"], {"state": "verified"})
    assert before == after


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "good"}'])
def test_an_unreadable_release_is_broken_and_serves_nobody(tmp_path: pathlib.Path, text: str) -> None:
    release = begin(tmp_path, 1)
    pathlib.Path(release["path"], "release.json").write_text(text)
    assert _stack_release.read_releases(tmp_path)[0]["state"] == "broken"
    assert probe(tmp_path)["release"] is None


def test_what_an_interrupted_beginning_leaves_is_no_release(tmp_path: pathlib.Path) -> None:
    (tmp_path / "releases" / ".20261101T100000Z-aaaa.77").mkdir(parents=True)
    assert _stack_release.read_releases(tmp_path) == []
    _stack_release.sweep(tmp_path)
    assert list((tmp_path / "releases").iterdir()) == []


def link(root: pathlib.Path, instance: str, release: str) -> None:
    """An instance's link as sglang_service makes it."""
    folder = root / "instances" / instance
    folder.mkdir(parents=True)
    (folder / "release").symlink_to(f"../../releases/{release}")


def test_pruning_spares_the_linked_the_good_the_newest_and_the_resumable(tmp_path: pathlib.Path) -> None:
    abandoned = begin(tmp_path, 1, stack="other")["id"]
    verified(tmp_path, 2, stack="other")
    ids = [verified(tmp_path, day)["id"] for day in range(3, 8)]
    stale, resumable = begin(tmp_path, 8)["id"], begin(tmp_path, 9)["id"]
    link(tmp_path, "qwen", ids[0])
    state = tmp_path / "state" / "qwen"
    state.mkdir(parents=True)
    (state / "good.json").write_text(json.dumps({"releases": [{"id": ids[1]}]}))
    gone = _stack_release.prunable(
        _stack_release.read_releases(tmp_path),
        _stack_release.linked(tmp_path),
        _stack_release.good(tmp_path / "state"),
        keep=2,
    )
    removed = [release["id"] for release in gone]
    assert removed[0] == abandoned
    assert removed[2:] == [ids[2], stale]
    assert resumable not in [release["id"] for release in gone]


def test_a_linked_release_cannot_be_removed(tmp_path: pathlib.Path) -> None:
    release = verified(tmp_path, 1)
    link(tmp_path, "qwen", release["id"])
    with pytest.raises(SglangError, match="linked"):
        _stack_release.remove(tmp_path, release["id"])
    assert pathlib.Path(release["path"]).is_dir()


def test_json_is_replaced_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.json"
    _stack_release.write_json(path, {"a": 1})
    first = path.stat().st_ino
    _stack_release.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert path.stat().st_ino != first
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_lock_names_its_owner_and_is_taken_once(tmp_path: pathlib.Path) -> None:
    mine, other = {"name": "ann@control", "token": "a"}, {"name": "bob@laptop", "token": "b"}
    assert _stack_lock.take(tmp_path, mine)
    assert not _stack_lock.take(tmp_path, mine)
    with pytest.raises(SglangError, match="ann@control") as caught:
        _stack_lock.take(tmp_path, other)
    assert caught.value.kind == "locked"
    assert not _stack_lock.release(tmp_path, "b")
    assert _stack_lock.release(tmp_path, "a")
    assert _stack_lock.take(tmp_path, other)


def test_lock_of_a_dead_run_is_taken_over(tmp_path: pathlib.Path) -> None:
    _stack_lock.take(tmp_path, {"name": "ann@control", "token": "a"})
    assert _stack_lock.take(tmp_path, {"name": "ann@control", "token": "b"}, dead="a")


def test_lock_that_nobody_renewed_is_stale_unless_its_job_runs(tmp_path: pathlib.Path) -> None:
    old = {"name": "ann@control", "token": "a", "renewed": time.time() - _stack_lock.STALE_SECONDS - 1}
    (tmp_path / _stack_lock.LOCK).write_text(json.dumps(old))
    with pytest.raises(SglangError):
        _stack_lock.take(tmp_path, {"name": "bob", "token": "b"}, jobs=["kernel-1"])
    assert _stack_lock.take(tmp_path, {"name": "bob", "token": "b"})


def test_lock_that_is_being_written_is_not_stolen(tmp_path: pathlib.Path) -> None:
    (tmp_path / _stack_lock.LOCK).touch()
    with pytest.raises(SglangError, match="unknown"):
        _stack_lock.take(tmp_path, {"name": "bob", "token": "b"})


@pytest.mark.parametrize(("cores", "gib", "jobs"), [(32, 512, 32), (32, 40, 8), (2, 24, 2), (8, 3, 1)])
def test_jobs_fit_cores_and_memory(cores: int, gib: int, jobs: int) -> None:
    assert _stack_host.build_jobs(cores, gib * 2**30) == jobs


def test_wheel_without_its_stamp_does_not_count(tmp_path: pathlib.Path) -> None:
    for name, stamp in (("aaaa", True), ("bbbb", False)):
        folder = tmp_path / "wheels" / name
        folder.mkdir(parents=True)
        (folder / "k.whl").touch()
        if stamp:
            (folder / "stamp.json").write_text('{"commit": "1"}')
    wheels = _stack_probe.wheels(tmp_path)
    assert wheels == [{"commit": "1", "stamp": "aaaa", "file": str(tmp_path / "wheels/aaaa/k.whl")}]

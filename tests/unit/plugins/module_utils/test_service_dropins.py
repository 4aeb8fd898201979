"""Drop-ins of an instance's unit: found wherever systemd reads them, told apart, and a trial's taken away whole."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_dropins, _service_plan

MINE = "# by hand\n[Unit]\nAfter=x\n[Service]\nEnvironment=A=1\nExecStart=\nExecStart=/usr/bin/env \\\n  sglang serve\n"
NCCL = '# Written by the role blackwell.sglang.gpu_host.\n[Service]\nEnvironment="A=1"\n'


@pytest.fixture
def places(tmp_path: pathlib.Path) -> _service.Places:
    names = ("root", "state_root", "config_root", "unit_root", "runtime_root")
    return _service.Places("qwen", **{name: str(tmp_path / name) for name in names})


def write(root: str, name: str, text: str) -> str:
    """One file below a root; its path."""
    path = pathlib.Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_each_is_found_and_told_apart(places: _service.Places, tmp_path: pathlib.Path) -> None:
    mine = write(places.unit_root, "sglang-qwen.service.d/mine.conf", MINE)
    nccl = write(places.unit_root, "sglang-.service.d/10-nccl.conf", NCCL)
    trial = write(places.runtime_root, f"sglang-qwen.service.d/{_service_dropins.TRIAL}", MINE)
    lxc = write(str(tmp_path), "service.d/zzz-lxc-service.conf", "[Service]\nProcSubset=all\n")
    write(places.unit_root, "sglang-other.service.d/mine.conf", MINE)
    found = {each["path"]: each for each in _service_dropins.find(places, [lxc, nccl, "/gone/x.conf"])}
    assert {path: each["kind"] for path, each in found.items()} == {
        mine: "other",
        nccl: "role",
        trial: "trial",
        lxc: "other",
    }
    assert found[mine]["sets"] == ["Environment", "ExecStart"]
    assert [each["path"] for each in _service_dropins.overriding(list(found.values()))] == [mine]


def test_emptying_the_command_line_alone_replaces_nothing() -> None:
    assert _service_dropins.options("[Service]\nExecStart=\n[Unit]\nExecStart=/bin/true\n") == []


def probe(places: _service.Places, drop_ins: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """What the probe says of a running instance of which systemd shows given drop-ins."""

    def run(words: list[str]) -> tuple[int, str, str]:
        shown = f"Id=sglang-qwen.service\nLoadState=loaded\nActiveState=active\nDropInPaths={' '.join(drop_ins)}\n"
        return (0, shown, "") if words[0] == "systemctl" else (127, "", "not found")

    roots = {name: getattr(places, name) for name in ("state_root", "config_root", "unit_root", "runtime_root")}
    wanted = {"name": "qwen", "state": "started", "port": None, "gpus": "all", "files": []}
    state: dict[str, t.Any] = _service_plan.probe(run, [wanted], places.root, [], roots)["instances"]["qwen"]
    return state


def test_an_operators_command_line_is_named_before_anything_stops(
    places: _service.Places, tmp_path: pathlib.Path
) -> None:
    # Somewhere that only systemd knows of.
    mine = write(str(tmp_path), "usr/lib/systemd/system/sglang-qwen.service.d/mine.conf", MINE)
    state = probe(places, [mine])
    assert f"{mine} replaces ExecStart" in state["reasons"]
    (obstacle,) = [each for each in state["obstacles"] if each["id"] == "exec_start_replaced"]
    assert obstacle["what"].startswith(mine)
    assert "sglang_service_unit_options" in obstacle["fix"]


def test_a_trial_that_was_left_is_a_reason_and_no_obstacle(places: _service.Places) -> None:
    trial = write(places.runtime_root, f"sglang-qwen.service.d/{_service_dropins.TRIAL}", MINE)
    state = probe(places, [trial])
    assert f"{trial} of an interrupted backend_matrix is there" in state["reasons"]
    assert not [each for each in state["obstacles"] if each["id"] == "exec_start_replaced"]


def test_a_trial_is_taken_away_whole_and_nothing_else(places: _service.Places) -> None:
    mine = write(places.runtime_root, "sglang-qwen.service.d/mine.conf", NCCL)
    for path in _service_dropins.trial_files(places):
        write(str(path.parent), path.name, MINE)
    assert len(_service_dropins.clear_trial(places)) == 2
    assert [str(path) for path in pathlib.Path(places.runtime_root).rglob("*.conf")] == [mine]
    assert not pathlib.Path(places.runtime_root, "sglang-verify@qwen.service.d").exists()
    assert _service_dropins.clear_trial(places) == []


def test_instances_that_exclude_each_other_say_so_to_systemd(tmp_path: pathlib.Path) -> None:
    places = _service.Places("qwen", unit_root=str(tmp_path))
    wanted = _service_dropins.exclusive(places, ["kimi", "other"])
    assert wanted["path"] == str(tmp_path / "sglang-qwen.service.d/20-conflicts.conf")
    assert "Conflicts=sglang-kimi.service sglang-other.service\n" in wanted["text"]
    assert not wanted["current"]
    path = pathlib.Path(wanted["path"])
    path.parent.mkdir()
    path.write_text(wanted["text"], encoding="utf-8")
    assert _service_dropins.exclusive(places, ["kimi", "other"])["current"]
    assert not _service_dropins.exclusive(places, ["kimi"])["current"]
    assert _service_dropins.exclusive(places, []) == {"path": str(path), "text": "", "current": False}
    (found,) = _service_dropins.find(places)
    assert found["kind"] == "role", "it is no reason to deploy"
    path.unlink()
    assert _service_dropins.exclusive(places, [])["current"]

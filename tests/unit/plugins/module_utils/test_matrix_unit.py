"""The drop-in of a trial, and that nothing of it is left."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _matrix_unit
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places

UNIT = """[Unit]
Description=SGLang, instance qwen

[Service]
User=sglang
ExecStart=/opt/sglang/lib/sglang_launch.py \\
    --release /opt/sglang/instances/qwen/release \\
    --cache /var/cache/sglang/qwen \\
    -- \\
    --model-path /models/qwen --tp-size 8
"""


class Control:
    """Remembers what systemctl was told; the unit is active once it was started."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.active = True

    def __call__(self, words: list[str]) -> tuple[int, str, str]:
        """One command."""
        self.said.append(" ".join(words[1:]))
        if words[1] in ("start", "stop") and words[-1] == "sglang-qwen.service":
            self.active = words[1] == "start"
        state = "active" if self.active else "inactive"
        return 0, f"Id=sglang-qwen.service\nActiveState={state}\nInvocationID=abc\n", ""


@pytest.fixture
def places(tmp_path: pathlib.Path) -> Places:
    unit_root = tmp_path / "etc"
    unit_root.mkdir()
    (unit_root / "sglang-qwen.service").write_text(UNIT, encoding="utf-8")
    return Places("qwen", unit_root=str(unit_root), runtime_root=str(tmp_path / "run"))


def test_only_the_engine_s_arguments_are_replaced(places: Places) -> None:
    control = Control()
    words = ["--model-path", "/models/qwen", "--tp-size", "4", '"a b"']
    assert _matrix_unit.start(control, places, words, {"NCCL_P2P_LEVEL": "SYS"}) == "abc"
    text = _matrix_unit.drop_in(places).read_text(encoding="utf-8")
    joined = " ".join(text.replace("\\\n", " ").split())
    launcher = "/opt/sglang/lib/sglang_launch.py --release /opt/sglang/instances/qwen/release"
    assert f"ExecStart= ExecStart={launcher} --cache /var/cache/sglang/qwen -- --model-path" in joined
    assert '--tp-size 4 "a b"' in joined
    assert 'Environment="NCCL_P2P_LEVEL=SYS"' in text
    assert "Restart=no" in text
    assert places.unit_file.read_text(encoding="utf-8") == UNIT
    assert control.said.index("stop sglang-qwen.service") < control.said.index("daemon-reload")
    assert control.said.index("daemon-reload") < control.said.index("start --no-block sglang-qwen.service")


def test_systemd_itself_finds_no_fault_in_it(places: Places) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here: the drop-in is not read by systemd")
    unit = UNIT.replace("/opt/sglang/lib/sglang_launch.py", "/bin/true").replace("User=sglang\n", "")
    places.unit_file.write_text(unit, encoding="utf-8")
    places = dataclasses.replace(places, runtime_root=str(places.unit_file.parent))
    _matrix_unit.start(Control(), places, ["--ratio", "50%%"], {"A": "b"})
    done = subprocess.run(
        [analyze, "verify", str(places.unit_file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "90-backend-matrix" not in done.stderr, done.stderr


def test_the_verifier_is_quiet_while_a_trial_runs(places: Places) -> None:
    _matrix_unit.start(Control(), places, [], {})
    text = _matrix_unit.quiet_verifier(places).read_text(encoding="utf-8")
    assert f"ConditionPathExists=!{_matrix_unit.drop_in(places)}" in text
    assert "sglang-verify@qwen.service.d" in str(_matrix_unit.quiet_verifier(places))


@pytest.mark.parametrize("running", [True, False])
def test_restoring_leaves_nothing_and_a_second_time_does_nothing(
    places: Places, tmp_path: pathlib.Path, running: bool
) -> None:
    run = tmp_path / "run"
    control = Control()
    _matrix_unit.start(control, places, [], {})
    control.said.clear()
    assert _matrix_unit.restore(control, places, running) is True
    assert list(run.iterdir()) == []
    assert ("start --no-block sglang-qwen.service" in control.said) is running
    control.said.clear()
    assert _matrix_unit.restore(control, places, running) is False
    assert not any(word.startswith(("start", "stop")) for word in control.said)


def test_a_unit_that_is_not_ours_is_refused_before_anything_is_stopped(places: Places, tmp_path: pathlib.Path) -> None:
    places.unit_file.write_text("[Service]\nExecStart=/usr/bin/sglang serve\n", encoding="utf-8")
    control = Control()
    with pytest.raises(SglangError, match=r"run site\.yml first"):
        _matrix_unit.start(control, places, [], {})
    assert control.said == []
    assert not (tmp_path / "run").exists()


def test_what_a_kill_between_two_files_left_is_taken_away_too(places: Places) -> None:
    control = Control()
    _matrix_unit.start(control, places, [], {})
    _matrix_unit.drop_in(places).unlink()
    assert _matrix_unit.left(places)
    assert _matrix_unit.restore(control, places, True) is True
    assert list(pathlib.Path(places.runtime_root).iterdir()) == []


def test_an_operators_command_line_would_be_tried_under_every_name_so_nothing_is(places: Places) -> None:
    own = pathlib.Path(places.unit_root, "sglang-qwen.service.d/99-mine.conf")
    own.parent.mkdir()
    own.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/sglang serve\n", encoding="utf-8")
    control = Control()
    with pytest.raises(SglangError, match=r"99-mine\.conf replaces ExecStart"):
        _matrix_unit.start(control, places, [], {})
    assert control.active
    assert not _matrix_unit.left(places)

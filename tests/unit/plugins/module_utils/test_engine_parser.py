"""The installed engine's own parser, asked in the interpreter of a release (the stand-in engine, a real venv)."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import venv

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _engine_parser, _service

ROOT = pathlib.Path(__file__).resolve().parents[4]
GOOD = ["--model-path", "/models/X", "--tp-size", "8", "--attention-backend", "triton"]
calls: list[list[str]] = []


def run(words: list[str]) -> tuple[int, str, str]:
    calls.append(words)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def places(tmp_path: pathlib.Path) -> _service.Places:
    """A host with a release r1 whose interpreter sees the stand-in engine."""
    found = _service.Places("qwen", root=str(tmp_path / "opt"), state_root=str(tmp_path / "state"))
    target = found.release("r1") / "venv"
    venv.create(target, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (target / "lib" / version / "site-packages" / "engine.pth").write_text(f"{ROOT / 'tests/lab/engine'}\n")
    calls.clear()
    return found


def test_what_it_takes_is_asked_once(places: _service.Places) -> None:
    first = _engine_parser.confirm(run, places, "r1", GOOD)
    again = _engine_parser.confirm(run, places, "r1", GOOD)
    assert first == {"asked": True, "accepted": True, "error": "", "cached": False}
    assert again["accepted"]
    assert again["cached"]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model-path", "/m", "--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["--model-path", "/m", "--attention-backend", "tritn"], "invalid choice: 'tritn'"),
        (["--model-path", "/m", "--tp-size", "many"], "invalid int value: 'many'"),
        (["--tp-size", "8"], "required: --model-path"),
    ],
)
def test_what_it_refuses_is_said_in_its_own_words_and_not_kept(
    places: _service.Places, words: list[str], said: str
) -> None:
    answer = _engine_parser.confirm(run, places, "r1", words)
    assert answer["asked"]
    assert answer["accepted"] is False
    assert said in answer["error"]
    assert not places.proof.with_name("arguments.json").exists()


def test_another_release_is_asked_anew(places: _service.Places) -> None:
    _engine_parser.confirm(run, places, "r1", GOOD)
    answer = _engine_parser.confirm(run, places, "r2", GOOD)
    assert not answer["asked"]
    assert answer["accepted"] is None
    assert "r2" in answer["error"]


def test_check_mode_keeps_nothing(places: _service.Places) -> None:
    assert _engine_parser.confirm(run, places, "r1", GOOD, keep=False)["accepted"]
    assert not places.proof.with_name("arguments.json").exists()


def test_an_engine_that_cannot_be_imported_is_no_refusal(places: _service.Places) -> None:
    package = places.release("r1") / "broken" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('noise'); raise ImportError('undefined symbol: _ZN3c10')")
    (site,) = (places.release("r1") / "venv" / "lib").glob("python*/site-packages")
    (site / "engine.pth").write_text(f"{package.parent}\n")
    answer = _engine_parser.confirm(run, places, "r1", GOOD)
    assert not answer["asked"]
    assert "undefined symbol" in answer["error"]


def test_nothing_is_written_into_the_release(places: _service.Places) -> None:
    before = sorted(places.release("r1").rglob("*"))
    _engine_parser.confirm(run, places, "r1", GOOD)
    assert sorted(places.release("r1").rglob("*")) == before

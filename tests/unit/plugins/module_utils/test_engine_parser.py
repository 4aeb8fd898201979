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
    assert first == {
        "asked": True,
        "accepted": True,
        "importable": True,
        "error": "",
        "cached": False,
        "diagnosis": None,
    }
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
    assert answer["importable"] is False


def test_check_mode_keeps_nothing(places: _service.Places) -> None:
    assert _engine_parser.confirm(run, places, "r1", GOOD, keep=False)["accepted"]
    assert not places.proof.with_name("arguments.json").exists()


def engine(places: _service.Places, **files: str) -> None:
    """Another engine in the release: modules of a package sglang, by dotted names under it."""
    folder = places.release("r1") / "other"
    for dotted, text in files.items():
        path = folder.joinpath("sglang", *dotted.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    for path in [folder / "sglang", *(folder / "sglang").rglob("*/")]:
        (path / "__init__.py").touch()
    (site,) = (places.release("r1") / "venv" / "lib").glob("python*/site-packages")
    (site / "engine.pth").write_text(f"{folder}\n")


LOADER = "import ctypes; ctypes.CDLL('libcudart.so.99')"
ABI = "raise ImportError('/opt/x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda29c10_cuda_check')"


@pytest.mark.parametrize(
    ("text", "said", "known"),
    [
        (ABI, "undefined symbol: _ZN3c10", "undefined_symbol"),
        (LOADER, "libcudart.so.99: cannot open shared object file", "shared_library_missing"),
        ("import torch_that_is_not_there", "No module named 'torch_that_is_not_there'", "module_missing"),
        ("import json; json.gone", "AttributeError: module 'json' has no attribute 'gone'", ""),
        ("class A: pass\nfrom sglang.srt.server_args import ServerArgs", "partially initialized module", ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it ended with", ""),
        ("import os; os._exit(3)", "it ended with 3", ""),
        ("this is no Python", "SyntaxError", ""),
    ],
)
def test_an_engine_that_cannot_be_imported_is_said_to_be(
    places: _service.Places, text: str, said: str, known: str
) -> None:
    engine(places, srt__server_args=text)
    answer = _engine_parser.confirm(run, places, "r1", GOOD)
    assert (answer["asked"], answer["accepted"], answer["importable"]) == (False, None, False), answer
    assert said in answer["error"]
    words = _engine_parser.unimportable("r1", answer)
    assert said in words
    assert "release r1 cannot be imported" in words
    assert "Fix: " in words
    assert (answer["diagnosis"] or {"id": ""})["id"] == known, answer
    if known:
        assert answer["diagnosis"]["fix"].rstrip(".") in words


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"srt__arguments": "class ServerArgs: pass"}, "No module named 'sglang.srt.server_args'"),
        ({"launch_server": ""}, "No module named 'sglang.srt'"),
        ({"srt__server_args": "class Arguments: pass"}, "cannot import name 'ServerArgs'"),
        ({"srt__server_args": "class ServerArgs: pass"}, "no attribute 'add_cli_args'"),
        ({"srt__server_args": "class ServerArgs:\n  add_cli_args = staticmethod(lambda a, b: 0)"}, "missing 1"),
    ],
)
def test_a_parser_that_moved_is_no_engine_that_cannot_be_imported(
    places: _service.Places, files: dict[str, str], said: str
) -> None:
    engine(places, **files)
    answer = _engine_parser.confirm(run, places, "r1", GOOD)
    assert (answer["asked"], answer["accepted"], answer["importable"]) == (False, None, True), answer
    assert said in answer["error"]


def test_a_complaint_on_gpus_may_be_due_to_hiding_them(places: _service.Places) -> None:
    engine(places, srt__server_args="raise RuntimeError('No CUDA GPUs are available')")
    answer = _engine_parser.confirm(run, places, "r1", GOOD)
    assert (answer["asked"], answer["importable"]) == (False, None)


def test_an_engine_that_is_not_installed_cannot_be_imported(places: _service.Places) -> None:
    (site,) = (places.release("r1") / "venv" / "lib").glob("python*/site-packages")
    (site / "engine.pth").unlink()
    answer = _engine_parser.confirm(run, places, "r1", GOOD)
    assert answer["importable"] is False
    assert "No module named 'sglang'" in answer["error"]


def test_nothing_is_written_into_the_release(places: _service.Places) -> None:
    before = sorted(places.release("r1").rglob("*"))
    _engine_parser.confirm(run, places, "r1", GOOD)
    assert sorted(places.release("r1").rglob("*")) == before

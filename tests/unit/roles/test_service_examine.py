"""What examine.yml refuses before a server is stopped, in a real play on this host in check mode (nothing is kept)."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t
import venv

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances, _service

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "plugins" / "module_utils"))

import kv_models
from test_checkpoint_files import shard

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: blackwell.sglang.sglang_service
        tasks_from: examine.yml
    - ansible.builtin.debug:
        msg: the old server would be stopped now
"""
STACK = {"channel": "stable", "requirements": {"sglang": {"version": "==0.5.12.post1"}}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A host with a release r1 whose interpreter sees the stand-in engine, r2 whose engine cannot be imported."""
    found = tmp_path_factory.mktemp("opt")
    broken = found / "engine" / "sglang" / "srt"
    broken.mkdir(parents=True)
    for folder in (broken, broken.parent):
        (folder / "__init__.py").touch()
    (broken / "server_args.py").write_text("import ctypes; ctypes.CDLL('libcudart.so.99')")
    for release, engine in (("r1", ROOT / "tests/lab/engine"), ("r2", found / "engine")):
        target = _service.Places("qwen", root=str(found)).release(release) / "venv"
        venv.create(target, with_pip=False, symlinks=True)
        (site,) = (target / "lib").glob("python*/site-packages")
        (site / "engine.pth").write_text(f"{engine}\n")
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A small whole checkpoint with the geometry of the captured model."""
    folder = tmp_path_factory.mktemp("models") / "Tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(kv_models.CAPTURED))
    shard(folder / "model.safetensors", {"lm_head.weight": ("BF16", b"\0" * 64)})
    return folder


def examine(
    folder: pathlib.Path, root: pathlib.Path, model: pathlib.Path, release: str = "r1", **keys: t.Any
) -> tuple[bool, str]:
    """Whether the old server would be stopped, and what the play said."""
    args = {"kv_cache_dtype": "bf16", "attention_backend": "triton", **keys.pop("args", {})}
    instance = {"name": "qwen", "stack": "s", "model_path": str(model), "args": args, **keys}
    resolved = _instances.resolve({"sglang_instances": [instance], "sglang_root": str(root)}, {"s": STACK}, {})
    assert resolved["problems"] == []
    given = {
        "sglang_resolved": resolved,
        "__sglang_service_todo": resolved["instances"],
        "__sglang_service_state": {
            "instances": {"qwen": {"action": "deploy", "release": release, "release_state": "verified"}},
            "gpus": {"gpus": [{"index": 0, "total_mib": 97887}]},
        },
    }
    (folder / "play.yml").write_text(PLAY, encoding="utf-8")
    (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    done = subprocess.run(
        [
            pathlib.Path(sys.executable).with_name("ansible-playbook"),
            *("play.yml", "-i", "localhost,", "-e", "@given.json", "--check"),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "COLUMNS": "5000",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    out = " ".join((done.stdout + done.stderr).split())
    passed = "the old server would be stopped now" in out
    assert passed == (done.returncode == 0), done.stdout + done.stderr
    return passed, out


NEED = {"context": 262144, "concurrent": 64}


def test_what_is_right_passes_without_a_word(tmp_path: pathlib.Path, root: pathlib.Path, model: pathlib.Path) -> None:
    passed, out = examine(tmp_path, root, model, need={"context": 4096, "concurrent": 2})
    assert passed, out
    assert "WARNING" not in out.replace("[WARNING]: Deprecation", ""), out


def test_a_need_that_cannot_fit_is_refused(tmp_path: pathlib.Path, root: pathlib.Path, model: pathlib.Path) -> None:
    passed, out = examine(tmp_path, root, model, need=NEED)
    assert not passed, out
    assert "qwen was not touched: need.context 262144 and need.concurrent 64 cannot fit: at most " in out
    assert f"tokens fit, {262144 * 64} are needed" in out
    lifted = [{"id": "capacity", "reason": "measured otherwise"}]
    passed, out = examine(tmp_path, root, model, need=NEED, exceptions=lifted)
    assert passed, out
    assert "measured otherwise" in out


def test_an_engine_that_cannot_be_imported_is_refused(
    tmp_path: pathlib.Path, root: pathlib.Path, model: pathlib.Path
) -> None:
    passed, out = examine(tmp_path, root, model, "r2")
    assert not passed, out
    assert "qwen was not touched: The engine of release r2 cannot be imported" in out
    assert "libcudart.so.99: cannot open shared object file" in out
    assert "was built for another CUDA" in out
    lifted = [{"id": "engine_import", "reason": "the library comes with a mount"}]
    passed, out = examine(tmp_path, root, model, "r2", exceptions=lifted)
    assert passed, out
    assert "the library comes with a mount" in out


def test_arguments_that_the_installed_engine_does_not_take_are_refused(
    tmp_path: pathlib.Path, root: pathlib.Path, model: pathlib.Path
) -> None:
    lifted = [{"id": "unknown_argument", "reason": "a fork"}]
    passed, out = examine(tmp_path, root, model, extra_args=["--of-a-fork", "1"], exceptions=lifted)
    assert not passed, out
    assert "does not take its arguments (unrecognized arguments: --of-a-fork 1)" in out


def test_an_exception_of_the_stack_lifts_the_judgement_of_the_cache_too(
    tmp_path: pathlib.Path, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = {"kv_cache_dtype": "auto"}
    other = tmp_path / "Other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**kv_models.CAPTURED, "quantization_config": FP8}))
    shard(other / "model.safetensors", {"lm_head.weight": ("BF16", b"\0" * 64)})
    passed, out = examine(tmp_path, root, other, args=args)
    assert not passed, out
    monkeypatch.setitem(STACK, "exceptions", [{"id": "kv_cache_dtype", "reason": "measured on this stack"}])
    passed, out = examine(tmp_path, root, other, args=args)
    assert passed, out


FP8 = {
    "quant_method": "modelopt",
    "quant_algo": "FP8",
    "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    "ignore": [],
}

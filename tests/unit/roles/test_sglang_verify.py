"""The archive that systemd runs on a host: what it holds, and what it does after a power cut."""

from __future__ import annotations

import ast
import json
import pathlib
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _verifier

ROOT = pathlib.Path(__file__).resolve().parents[3]
MAIN = ROOT / "roles" / "sglang_service" / "files" / "sglang_verify.py"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("lib") / "sglang_verify.pyz"
    path.write_bytes(_verifier.archive(MAIN))
    return path


@pytest.fixture
def places(tmp_path: pathlib.Path) -> _service.Places:
    """A host on which release 1 was good and release 2 was just switched to."""
    roots = {name: str(tmp_path / name) for name in ("root", "state_root", "config_root", "unit_root")}
    places = _service.Places("qwen", **roots)
    for name, text in (("1", "old"), ("2", "new")):
        places.release(name).mkdir(parents=True)
        (places.release(name) / "release.json").write_text(json.dumps({"state": "verified"}), encoding="utf-8")
        if name == "2":
            _service.begin_pending(places, "2", "2026-11-29T18:00:00Z")
        _service.write_text(places.unit_file, f"# {text}\n", 0o644)
        _service.write_text(places.env_file, f"A={text}\n", 0o600)
        _service.switch(places, name)
        if name == "1":
            _service.record_good(places, {"at": "t"}, {"name": "qwen"})
    return places


def run(archive: pathlib.Path, places: _service.Places, *words: str) -> subprocess.CompletedProcess[str]:
    names = ("root", "state_root", "config_root", "unit_root")
    roots = [word for name in names for word in (f"--{name.replace('_', '-')}", getattr(places, name))]
    command = [sys.executable, "-I", str(archive), *roots, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def cut_power(places: _service.Places) -> None:
    """What the next boot sees: the mark of a deployment of another boot."""
    mark = json.loads(places.pending.read_text(encoding="utf-8"))
    _service.write_json(places.pending, {**mark, "boot_id": "another"})


def test_the_archive_is_the_same_for_the_same_sources_and_needs_nothing_else(archive: pathlib.Path) -> None:
    assert _verifier.archive(MAIN) == archive.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    assert any(name.endswith("module_utils/_gate_run.py") for name in names)
    assert not any("/modules/" in name for name in names)
    done = subprocess.run([sys.executable, "-I", str(archive), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_import_of_the_collection_anywhere_in_a_packed_source_is_packed(archive: pathlib.Path) -> None:
    """The packer reads only statements at the top of a source: what a function imports would be missing on a host."""
    with zipfile.ZipFile(archive) as packed:
        present = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in packed.namelist()}
        sources = {name: packed.read(name).decode() for name in packed.namelist()}
    wanted = 0
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ansible_collections"):
                wanted += len(node.names)
                for alias in node.names:
                    path = f"{node.module}.{alias.name}".replace(".", "/").partition("plugins/")[2]
                    is_module = (ROOT / "plugins" / f"{path}.py").exists() or (ROOT / "plugins" / path).is_dir()
                    needed = f"{node.module}.{alias.name}" if is_module else node.module
                    assert needed in present, f"{name}: {ast.unparse(node)}"
            assert not isinstance(node, ast.Import) or "ansible_collections" not in ast.unparse(node), name
    assert wanted > 50


def test_after_a_power_cut_the_last_good_one_is_back(archive: pathlib.Path, places: _service.Places) -> None:
    cut_power(places)
    done = run(archive, places, "recover")
    assert done.returncode == 0, done.stderr
    assert _service.linked_release(places) == "1"
    assert places.unit_file.read_text(encoding="utf-8") == "# old\n"
    assert places.env_file.read_text(encoding="utf-8") == "A=old\n"
    assert not places.pending.exists()
    assert json.loads((places.pending.parent / "interrupted.json").read_text(encoding="utf-8"))["release"] == "2"
    assert run(archive, places, "recover").stdout == "", "a second boot has nothing to do"


def test_a_deployment_of_this_boot_is_left_alone(archive: pathlib.Path, places: _service.Places) -> None:
    done = run(archive, places, "recover")
    assert done.returncode == 0, done.stderr
    assert _service.linked_release(places) == "2"
    assert places.pending.exists()


def test_where_nothing_was_good_nothing_is_put_back(archive: pathlib.Path, places: _service.Places) -> None:
    places.good.unlink()
    cut_power(places)
    done = run(archive, places, "recover")
    assert "nothing was good yet" in done.stdout
    assert _service.linked_release(places) == "2"
    assert not places.pending.exists()


def test_a_good_release_that_is_gone_is_an_error_that_says_so(archive: pathlib.Path, places: _service.Places) -> None:
    (places.release("1") / "release.json").unlink()
    cut_power(places)
    done = run(archive, places, "recover")
    assert done.returncode == 1
    assert "release 1 is missing" in done.stderr
    assert places.pending.exists(), "the next boot tries again"


def test_what_does_not_run_needs_no_proof(archive: pathlib.Path, places: _service.Places) -> None:
    done = run(archive, places, "verify", "qwen")
    assert done.returncode == 0
    assert "there is nothing to prove" in done.stdout


def ended_by(places: _service.Places, deployment: str) -> str:
    found = _service.interruption(places, deployment)
    return found["by"] if found else ""


def test_a_deployment_knows_the_boot_that_ended_it(archive: pathlib.Path, places: _service.Places) -> None:
    deployment = json.loads(places.pending.read_text(encoding="utf-8"))["deployment"]
    assert ended_by(places, deployment) == ""
    _service.require_deployment(places, deployment)
    cut_power(places)
    assert ended_by(places, deployment) == "boot", "before the recovery looked"
    run(archive, places, "recover")
    with pytest.raises(SglangError, match="the boot put back what was good before") as caught:
        _service.require_deployment(places, deployment)
    assert caught.value.kind == "interrupted"
    assert ended_by(places, "") == "", "who deploys nothing has nothing to lose"
    later = _service.begin_pending(places, "2", "2026-11-29T19:00:00Z")
    assert ended_by(places, later) == "", "the mark of an earlier boot is no matter of the next deployment"
    assert ended_by(places, deployment) == "deployment"


def test_a_deployment_knows_the_run_that_ended_it(places: _service.Places) -> None:
    deployment = json.loads(places.pending.read_text(encoding="utf-8"))["deployment"]
    _service.end_pending(places)
    assert ended_by(places, deployment) == "deployment"
    second = _service.begin_pending(places, "2", "2026-11-29T19:00:00Z")
    assert second != deployment
    with pytest.raises(SglangError, match=r"another run began to deploy qwen at 2026-11-29T19:00:00Z"):
        _service.require_deployment(places, deployment)

"""What goes into a support bundle, and what never does."""

from __future__ import annotations

import json
import pathlib
import subprocess
import tarfile

import pytest
from ansible_collections.blackwell.sglang.plugins.action import sglang_support_bundle
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _support

KEY = "k3y-of-the-instance"
TOKEN = "hf_abcdefghijklmnop"
PASSWORD = "pass-of-the-index"
PLAIN = "a plain word in WANDB_API_KEY"
STARTS = ("a" * 32, "b" * 32)


def run(words: list[str]) -> tuple[int, str, str]:
    """A journal of two starts whose lines hold secrets; other programs are the real ones."""
    if words[0] == "journalctl" and "--output=json" in words:
        rows = [{"_SYSTEMD_INVOCATION_ID": start} for start in (STARTS[0], STARTS[0], STARTS[1])]
        return 0, "\n".join(json.dumps(row) for row in rows), ""
    if words[0] == "journalctl":
        said = f"Authorization: Bearer {TOKEN}\nlogged in with {PLAIN}\n"
        return 0, f"server_args=ServerArgs(api_key='{KEY}') for {words[-1]}\n{said}", ""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as exc:
        return 127, "", str(exc)
    return done.returncode, done.stdout, done.stderr


def release(places: _service.Places) -> None:
    """A release in use as uv and the kernel's build leave it, and one that nobody uses."""
    for name in ("r1", "r0"):
        folder = places.release(name)
        site = folder / "venv" / "lib" / "python3.12" / "site-packages"
        for package in (
            "torch-2.12.0.dev20260307+cu130",
            "flashinfer_python-0.6.11.post1",
            "sglang_kernel-0.4.2.post2",
        ):
            (site / f"{package}.dist-info").mkdir(parents=True)
        origin = {
            "url": f"https://builder:{PASSWORD}@wheels.example/sglang_kernel-0.4.2.post2-cp310-abi3-linux_x86_64.whl"
        }
        (site / "sglang_kernel-0.4.2.post2.dist-info" / "direct_url.json").write_text(json.dumps(origin))
        (folder / "release.json").write_text(json.dumps({"state": "verified", "python": "3.12.9"}))
        (folder / "requirements.lock").write_text(f"--index-url https://u:{PASSWORD}@index.example/\ntorch==2.12.0\n")
        # A long log whose kept end begins in the middle of the password.
        half, line = f"{PASSWORD[5:]}@index.example/\n", "Linking CXX shared module\n"
        filler = "x" * (_support.LONGEST - len(half) - len(line) - 1)
        (folder / "kernel.log").write_text(f"https://u:{PASSWORD[:5]}{half}{filler}\n{line}")
    _service.switch(places, "r1")


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, str]:
    roots = {name: str(tmp_path / name) for name in ("root", "state_root", "config_root", "unit_root")}
    places = _service.Places("qwen", **roots)
    _service.write_text(places.key_file, KEY + "\n", 0o600)
    _service.write_text(
        places.env_file, f'HF_TOKEN={TOKEN}\nWANDB_API_KEY="{PLAIN}"\nNCCL_P2P_LEVEL=private-value\n', 0o600
    )
    _service.write_text(places.unit_file, f"[Service]\nExecStart=/x --api-key {KEY}\n", 0o644)
    _service.write_json(places.proof, {"passed": False, "text": f"said {KEY}"})
    entry = {"release": "r1", "env_text": f"A={TOKEN}", "unit_text": "u", "at": "t", "invocation_id": "i"}
    _service.write_json(places.good, {"entries": [entry]})
    release(places)
    (tmp_path / "runs.jsonl").write_text("".join(f'{{"number": {number}}}\n' for number in range(30)))
    return _support.collect(run, [places], roots["root"], str(tmp_path / "runs.jsonl"))


def test_no_secret_and_no_value_of_an_environment_is_in_it(files: dict[str, str]) -> None:
    whole = "\n".join(files.values())
    for secret in (KEY, TOKEN, PLAIN, PASSWORD, "private-value"):
        assert secret not in whole
    assert "NCCL_P2P_LEVEL=..." in files["qwen/environment_names.txt"]
    assert json.loads(files["qwen/proof.json"])["passed"] is False


def test_the_last_starts_come_each_in_a_file(files: dict[str, str]) -> None:
    assert STARTS[0] in files["qwen/start_0.log"]
    assert STARTS[1] in files["qwen/start_1.log"]
    assert "qwen/start_2.log" not in files


def test_the_release_in_use_names_its_versions(files: dict[str, str]) -> None:
    of = "releases/r1/"
    packages = files[f"{of}packages.txt"].splitlines()
    assert packages[0] == "flashinfer-python==0.6.11.post1"
    assert packages[1].startswith("sglang-kernel==0.4.2.post2 @ https://")
    assert packages[2] == "torch==2.12.0.dev20260307+cu130"
    assert json.loads(files[f"{of}release.json"])["python"] == "3.12.9"
    assert "torch==2.12.0" in files[f"{of}requirements.lock"]
    log = files[f"{of}kernel.log"]
    assert log.endswith("Linking CXX shared module\n"), "the end of a log is where a build fails"
    assert PASSWORD[5:] not in log, "half of a secret is not known as one"
    assert _support.LONGEST - 100 < len(log) <= _support.LONGEST
    assert f"{of}build.log" not in files, "there is none"
    assert not [name for name in files if name.startswith("releases/r0")], "nobody uses it"


def test_what_every_vendor_asks_for_is_there(files: dict[str, str]) -> None:
    assert "Linux" in files["host/uname.txt"]
    assert files["runs.jsonl"].count("number") == 20
    assert "nvidia-smi" in files["gpu/query.txt"] or "Driver" in files["gpu/query.txt"]


def test_the_archive_is_for_its_owner_alone(tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    target = tmp_path / "support-llm1.tar.gz"
    target.touch(mode=0o644)  # of an earlier time
    sglang_support_bundle.write(target, files)
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as archive:
        names = archive.getnames()
        member = archive.extractfile("support-llm1/qwen/start_0.log")
        assert member is not None
        assert STARTS[0].encode() in member.read()
    assert sorted(names) == sorted(f"support-llm1/{name}" for name in files)

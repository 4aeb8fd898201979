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
    (tmp_path / "runs.jsonl").write_text("".join(f'{{"number": {number}}}\n' for number in range(30)))
    return _support.collect(run, [places], roots["root"], str(tmp_path / "runs.jsonl"))


def test_no_secret_and_no_value_of_an_environment_is_in_it(files: dict[str, str]) -> None:
    whole = "\n".join(files.values())
    for secret in (KEY, TOKEN, PLAIN, "private-value"):
        assert secret not in whole
    assert "NCCL_P2P_LEVEL=..." in files["qwen/environment_names.txt"]
    assert json.loads(files["qwen/proof.json"])["passed"] is False


def test_the_last_starts_come_each_in_a_file(files: dict[str, str]) -> None:
    assert STARTS[0] in files["qwen/start_0.log"]
    assert STARTS[1] in files["qwen/start_1.log"]
    assert "qwen/start_2.log" not in files


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

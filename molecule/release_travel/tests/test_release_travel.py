"""What is built once serves every host: kernels and locks within the fleet, whole releases without a network."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
from conftest import NET, SCENARIO, VERSION, lab, requests_of

from playbooks import Playbooks

BUILD = "molecule/release_faults/build.yml"
INVENTORY = SCENARIO / "inventory"
INSTANCE = {"profile": "qwen3_5_397b_nvfp4", "model_path": "/models/Qwen3.5-397B-A17B-NVFP4"}
FLEET = {"name": "qwen", "stack": "fleet", **INSTANCE}
TRAVEL = {"name": "travel", "stack": "travel", "state": "stopped", **INSTANCE}
# What says where a file came from, and the scripts in which the folder of the release stands, differ by nature.
PACKAGES = (
    "find . -type f ! -name '*.pyc' ! -name RECORD ! -name uv_cache.json -print0"
    " | sort -z | xargs -0 sha256sum | sha256sum"
)


def releases(host: t.Any, stack: str) -> list[dict[str, t.Any]]:
    """The releases of a stack with their folders, oldest first."""
    paths = host.check_output("ls -d /opt/sglang/releases/*").split()
    found = [{**json.loads(host.file(f"{path}/release.json").content_string), "path": path} for path in paths]
    return [each for each in found if each["stack"] == stack]


def site_packages(host: t.Any, release: dict[str, t.Any]) -> str:
    """One sum over all that is installed in a release."""
    return str(host.check_output(f"cd {release['path']}/venv/lib/python3*/site-packages && {PACKAGES}"))


def said(output: str) -> str:
    """The output as one line, however it was wrapped."""
    return re.sub(r"\s+", " ", output)


def test_the_kernel_was_built_once_for_both(host: t.Any, other: t.Any) -> None:
    (mine,), (theirs,) = releases(host, "fleet"), releases(other, "fleet")
    assert (mine["state"], theirs["state"]) == ("verified", "verified")
    assert mine["kernel"]["stamp"] == theirs["kernel"]["stamp"]
    logs = [each.file(f"{release['path']}/kernel.log").exists for each, release in ((host, mine), (other, theirs))]
    assert sorted(logs) == [False, True]
    assert host.file(mine["kernel"]["wheel"]).sha256sum == other.file(theirs["kernel"]["wheel"]).sha256sum
    # The host that did not build has not even fetched what builds.
    assert not other.file("/opt/sglang/build-tools").exists


def test_both_installed_the_one_lock_with_hashes(host: t.Any, other: t.Any) -> None:
    (mine,), (theirs,) = releases(host, "fleet"), releases(other, "fleet")
    (lock,) = (INVENTORY / ".locks").glob("fleet-*")
    text = lock.read_text(encoding="utf-8")
    for release, each in ((mine, host), (theirs, other)):
        assert each.file(f"{release['path']}/requirements.lock").content_string == text
    pinned = re.findall(r"^([a-z0-9._-]+)==.*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))
    assert {"torch", "sglang", *pinned} <= set(mine["versions"])
    assert site_packages(host, mine) == site_packages(other, theirs)
    # One host resolved, for which uv reads metadata; the other knew every file by its hash.
    resolved = [
        any(row["agent"].startswith("uv/") and row["path"].endswith(".metadata") for row in requests_of(address))
        for address in (f"{NET}.11", f"{NET}.12")
    ]
    assert resolved == [True, False]


def test_a_release_that_is_gone_comes_back_from_lock_and_wheel(other: t.Any, playbooks: Playbooks) -> None:
    (before,) = releases(other, "fleet")
    packages = site_packages(other, before)
    other.check_output("rm -rf /opt/sglang/releases /opt/sglang/wheels /opt/sglang/cache/uv")
    (kept,) = (INVENTORY / ".locks").glob("fleet-*")
    written = kept.stat().st_mtime_ns
    asked = len(requests_of(f"{NET}.12"))
    run = playbooks.run(BUILD, "--limit", "sglang2")
    assert run.rc == 0, run.output
    assert "Build the wheel without build isolation" not in {task.split(" : ")[-1] for task in run.tasks}
    assert kept.stat().st_mtime_ns == written, "the lock that is there was not resolved anew"
    (after,) = releases(other, "fleet")
    assert after["lock_digest"] == before["lock_digest"]
    assert site_packages(other, after) == packages
    # It was downloaded anew, so the hashes were compared with bytes from the index.
    wheels = [row["path"] for row in requests_of(f"{NET}.12")[asked:] if row["path"].endswith(".whl")]
    lock = other.file(f"{after['path']}/requirements.lock").content_string
    assert len(wheels) >= len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE))


def test_a_wheel_that_the_lock_does_not_know_is_not_installed(
    other: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    (lock,) = (INVENTORY / ".locks").glob("fleet-*")
    text = lock.read_text(encoding="utf-8")
    changed = re.sub(r"(?m)(^xgrammar==\S+ \\\n    --hash=sha256:)[0-9a-f]{8}", r"\g<1>00000000", text)
    assert changed != text
    (tmp_path / lock.name).write_text(changed, encoding="utf-8")
    (kept,) = releases(other, "fleet")
    other.check_output(f"mv {kept['path']} /opt/sglang/kept && rm -rf /opt/sglang/cache/uv")
    run = playbooks.run(BUILD, "--limit", "sglang2", variables={"nightly_stack_lock_dir": str(tmp_path)})
    other.check_output(f"rm -rf /opt/sglang/releases/* && mv /opt/sglang/kept {kept['path']}")
    assert run.rc != 0
    assert "xgrammar" in said(run.output), run.output
    assert "hash" in said(run.output).lower()


def test_a_build_that_is_repeated_is_answered_by_ccache(host: t.Any, playbooks: Playbooks) -> None:
    cache = "CCACHE_DIR=/opt/sglang/cache/ccache ccache --print-stats"

    def hits() -> int:
        counts = dict(line.split("\t") for line in host.check_output(cache).splitlines())
        return int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])

    before = hits()
    (release,) = releases(host, "fleet")
    host.check_output("rm -rf /opt/sglang/releases /opt/sglang/wheels")
    run = playbooks.run(BUILD, "--limit", "sglang1", variables={"sgl_kernel_wheel_dir": ""})
    assert run.rc == 0, run.output
    (again,) = releases(host, "fleet")
    assert again["kernel"]["stamp"] == release["kernel"]["stamp"]
    assert again["kernel"]["architectures"] == release["kernel"]["architectures"]
    # The two libraries of the kernel have two sources each.
    assert hits() - before >= 4


def test_a_run_that_fails_says_what_to_install_and_gives_the_lock_back(other: t.Any, playbooks: Playbooks) -> None:
    if other.run(f"ls /usr/bin/python{VERSION}").rc == 0:
        pytest.skip(f"the hosts have a Python {VERSION} themselves")
    variables = {"lab_managed_python": VERSION, "sglang_instances": [TRAVEL]}
    run = playbooks.run("site.yml", "--limit", "sglang2", "--tags", "nightly_stack", variables=variables)
    assert run.rc != 0
    assert f"Stack travel wants Python {VERSION}" in said(run.output), run.output
    assert "nightly_stack_managed_python: true" in said(run.output)
    # A second call takes over what the failed run of the test before left, which ran without the rescue of the chain.
    assert [call for call in run.module_calls if "Hold the lock of this host" in call[3]]
    # Another controller, which could not tell that this run is over, need not wait.
    assert not other.file("/opt/sglang/run.lock").exists


@pytest.fixture(scope="module")
def packed(host: t.Any, interpreters: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The release of the stack travel, built on the first host and packed."""
    playbooks = Playbooks(SCENARIO, tmp_path_factory.mktemp("reports"))
    variables = {"lab_managed_python": VERSION, "sglang_instances": [FLEET, TRAVEL]}
    fetch = {"nightly_stack_managed_python": True, "nightly_stack_python_downloads": interpreters}
    built = playbooks.run(BUILD, "--limit", "sglang1", variables=variables | fetch)
    assert built.rc == 0, built.output
    done = playbooks.run("playbooks/wheelhouse.yml", "--limit", "sglang1", variables=variables)
    assert done.rc == 0, done.output
    (file,) = (INVENTORY / ".wheelhouses").glob("travel-*.tar")
    return file


@pytest.mark.usefixtures("packed")
def test_the_newest_layout_is_built_on_an_interpreter_that_uv_fetched(host: t.Any) -> None:
    (release,) = releases(host, "travel")
    assert (release["state"], release["python"]) == ("verified", VERSION)
    python = host.check_output(f"readlink -f {release['path']}/venv/bin/python")
    assert python.startswith("/opt/sglang/python/cpython-")
    # What upstream has mended is told from what has to be cured, as it had to be in the layout of early 2026.
    found = {patch["id"]: (patch["status"], patch["applied"]) for patch in release["kernel"]["patches"]}
    assert found["cccl-include"] == found["fa3-option"] == ("present", False)
    assert found["gencode-sm120"] == ("needed", True)
    (early,) = releases(host, "fleet")
    assert {patch["id"]: patch["applied"] for patch in early["kernel"]["patches"]}["cccl-include"]
    assert list(release["kernel"]["architectures"]) == ["sm_120a"]


def test_a_packed_release_installs_bit_for_bit_without_a_network(
    host: t.Any, other: t.Any, playbooks: Playbooks, packed: pathlib.Path
) -> None:
    variables = {"lab_wheelhouse": str(packed), "lab_managed_python": VERSION, "sglang_instances": [TRAVEL]}
    other.check_output("rm -rf /opt/sglang")
    # The server is the only network that this host knows of: its stacks name no other index.
    lab("fault", "/", "reset")
    asked = len(requests_of(f"{NET}.12"))
    try:
        run = playbooks.run(BUILD, "--limit", "sglang2", variables=variables)
    finally:
        lab("fault")
    assert run.rc == 0, run.output
    assert len(requests_of(f"{NET}.12")) == asked
    (mine,), (theirs,) = releases(host, "travel"), releases(other, "travel")
    assert theirs["state"] == "verified"
    assert theirs["lock_digest"] == mine["lock_digest"]
    assert theirs["kernel"]["stamp"] == mine["kernel"]["stamp"]
    assert site_packages(other, theirs) == site_packages(host, mine)
    binaries = [
        each.file(each.check_output(f"readlink -f {release['path']}/venv/bin/python")).sha256sum
        for each, release in ((host, mine), (other, theirs))
    ]
    assert binaries[0] == binaries[1]


def test_a_damaged_wheelhouse_installs_nothing(
    other: t.Any, playbooks: Playbooks, packed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    damaged = tmp_path / packed.name
    data = bytearray(packed.read_bytes())
    place = data.rindex(b"sgl_kernel/sm100/common_ops")
    data[place - 2000] ^= 0xFF
    damaged.write_bytes(data)
    other.check_output("rm -rf /opt/sglang")
    variables = {"lab_wheelhouse": str(damaged), "lab_managed_python": VERSION, "sglang_instances": [TRAVEL]}
    run = playbooks.run(BUILD, "--limit", "sglang2", variables=variables)
    assert run.rc != 0
    assert "a part of it is missing or was changed. Nothing was installed." in said(run.output), run.output
    assert not other.run("ls -d /opt/sglang/releases/*").stdout

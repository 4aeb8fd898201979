"""What the tests share: playbooks, the lab's faults, and the eye on what must stay as it was."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import typing as t
import uuid

import pytest
import yaml

SCENARIO = pathlib.Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
sys.path.insert(0, str(SCENARIO.parent / "shared"))

from playbooks import Playbooks, Run

LINK = "/opt/sglang/instances/qwen/release"
# Sums of all its files; what Python compiles for itself does not count.
PACKAGES = f"cd {LINK}/venv && find . -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum"
BUILD = "molecule/release_faults/build.yml"
LAB = {
    "description": "The lab's engine with its prebuilt kernel",
    "channel": "stable",
    "python": ["3.11", "3.13", "3.12"],
    "requirements": {"sglang": {"version": "==0.5.12.post1"}},
    "overrides": [],
    "kernel": {"build": "wheel", "distribution": "sglang-kernel", "version": "0.4.2.post2"},
}


@dataclasses.dataclass(frozen=True)
class Served:
    """What an operator's service depends on."""

    link: str
    invocation: str
    release: str
    packages: str


class Host:
    """A host whose builds go wrong: runs builds, makes faults, and tells what became of it."""

    def __init__(self, host: t.Any, playbooks: Playbooks) -> None:
        self.host = host
        self.playbooks = playbooks

    def served(self) -> Served:
        """The link, this start of the service, and the bytes of the release that it names."""
        return Served(
            self.host.check_output(f"readlink {LINK}"),
            self.host.check_output("systemctl show -P InvocationID sglang-qwen.service"),
            self.host.check_output(f"cat {LINK}/release.json"),
            self.host.check_output(f"{PACKAGES} | sha256sum"),
        )

    def build(self, stack: dict[str, t.Any], **options: t.Any) -> Run:
        """Build a release of a stack named lab, as the inventory's is."""
        return self.playbooks.run(BUILD, variables={"sglang_stacks": {"lab": stack}}, **options)

    def verified(self, run: Run) -> dict[str, t.Any]:
        """The newest release, which the run must have verified."""
        assert run.rc == 0, run.output
        newest = self.host.check_output("ls -1d /opt/sglang/releases/*/ | tail -n 1").rstrip("/")
        release: dict[str, t.Any] = json.loads(self.host.file(f"{newest}/release.json").content_string)
        assert release["state"] == "verified"
        return release

    def fault(self, *words: str) -> None:
        """Make the index misbehave; without a word, make it well again."""
        lab = [sys.executable, str(ROOT / "tests/lab/lab.py"), "--lab", SCENARIO.name, "fault", *words]
        subprocess.run(lab, check=True, capture_output=True, cwd=ROOT)


@pytest.fixture
def site(host: t.Any, tmp_path: pathlib.Path) -> t.Iterator[Host]:
    """The host with an empty cache of uv, so that a build asks the index; the index is well again afterwards."""
    broken = Host(host, Playbooks(SCENARIO, tmp_path / "reports"))
    host.check_output("rm -rf /opt/sglang/cache/uv")
    before = broken.served()
    try:
        yield broken
    finally:
        broken.fault()
        # Whatever happened in between, and whatever became of the next run: nothing that serves was touched.
        assert broken.served() == before


@pytest.fixture
def stack() -> dict[str, t.Any]:
    """A stack that no release of this host has: its digest differs by the name of a kernel variable."""
    changed: dict[str, t.Any] = json.loads(json.dumps(LAB))
    changed["kernel"]["env"] = {"SGLANG_TEST": uuid.uuid4().hex}
    return changed


@pytest.fixture
def source(stack: dict[str, t.Any]) -> dict[str, t.Any]:
    """The same with a kernel that is built from source."""
    lab = yaml.safe_load((SCENARIO / "inventory/group_vars/all/scenario.yml").read_text())
    server = f"http://{lab['lab_net']}.1:8080"
    stack["kernel"] |= {
        "build": "source",
        "repository": f"{server}/git/sgl-kernel.git",
        "commit": "v0.4.2.post2",
        "subdirectory": "sgl-kernel",
        "cuda_arch_list": "12.0a",
        "cmake_args": ["-DENABLE_BELOW_SM90=OFF", "-DSGL_KERNEL_ENABLE_FA3=OFF"],
    }
    stack["requirements"] |= {
        "torch": {"version": "==2.12.0.dev20260307+cu130", "index": "pytorch", "prerelease": True},
        "torchvision": {"index": "pytorch", "prerelease": True},
        "torchaudio": {"index": "pytorch", "prerelease": True},
        "triton": {"index": "pytorch", "prerelease": True},
    }
    stack["overrides"] = ["torch", "torchvision", "torchaudio", "triton"]
    # The release that serves has the stable companions of the stable torch, and these are from before their release.
    stack["exceptions"] = [{"id": "downgrade", "reason": "the test builds for a nightly", "until": None}]
    return stack

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
PROFILE = "qwen3_5_397b_nvfp4"
MODEL = "/models/Qwen3.5-397B-A17B-NVFP4"
BUILD = "molecule/release_faults/build.yml"
Stacks = dict[str, dict[str, t.Any]]
# The release that serves is of the stack lab; source is one that builds its kernel.
LAB, SOURCE = (
    yaml.safe_load((SCENARIO / "inventory/group_vars/sglang_hosts/stack.yml").read_text())["sglang_stacks"][name]
    for name in ("lab", "source")
)


@dataclasses.dataclass(frozen=True)
class Served:
    """What an operator's service depends on."""

    link: str
    invocation: str
    release: str
    packages: str


class Host:
    """A host whose builds go wrong: runs builds, makes faults, and tells what became of it."""

    def __init__(self, host: t.Any, folder: pathlib.Path, locks: pathlib.Path) -> None:
        self.host = host
        self.playbooks = Playbooks(SCENARIO, folder / "reports")
        self.locks = locks

    def served(self) -> Served:
        """The link, this start of the service, and the bytes of the release that it names."""
        return Served(
            self.host.check_output(f"readlink {LINK}"),
            self.host.check_output("systemctl show -P InvocationID sglang-qwen.service"),
            self.host.check_output(f"cat {LINK}/release.json"),
            self.host.check_output(f"{PACKAGES} | sha256sum"),
        )

    def build(self, stacks: Stacks, **options: t.Any) -> Run:
        """Build a release of each stack: qwen asks for ``lab``, and for each other one there is a stopped instance."""
        instances = [
            {"name": "qwen" if name == "lab" else name, "stack": name, "profile": PROFILE, "model_path": MODEL}
            | ({} if name == "lab" else {"state": "stopped"})
            for name in stacks
        ]
        variables = {"sglang_stacks": stacks, "sglang_instances": instances, "nightly_stack_lock_dir": str(self.locks)}
        return self.playbooks.run(BUILD, variables=variables, **options)

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


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the locks of these tests lie: none of their stacks comes again."""
    return tmp_path_factory.mktemp("locks")


@pytest.fixture
def site(host: t.Any, tmp_path: pathlib.Path, locks: pathlib.Path) -> t.Iterator[Host]:
    """The host with an empty cache of uv, so that a build asks the index; the index is well again afterwards."""
    broken = Host(host, tmp_path, locks)
    host.check_output("rm -rf /opt/sglang/cache/uv")
    before = broken.served()
    try:
        yield broken
    finally:
        broken.fault()
        # Whatever happened in between, and whatever became of the next run: nothing that serves was touched.
        assert broken.served() == before


def changed(stack: dict[str, t.Any]) -> dict[str, t.Any]:
    """The stack as no release of this host has it: it asks for one more package, any version of which will do.

    The kernel's settings stay, so that its stamp does, and what one test has built serves the others.
    """
    more = {"packaging": {"version": f">=0.{uuid.uuid4().int % 10**9}"}}
    return {**stack, "requirements": stack["requirements"] | more, "kernel": dict(stack["kernel"])}


@pytest.fixture
def stack() -> Stacks:
    """A new release for the stack that serves."""
    return {"lab": changed(LAB)}


@pytest.fixture(scope="module")
def attempts() -> dict[str, Stacks]:
    """Stacks that several tests work on, each where the one before it was stopped: each next run has to go on.

    ``source`` has a new release for the stack that builds its kernel, beside the one that serves.
    """
    return {
        "killed": {"lab": changed(LAB)},
        "index": {"lab": changed(LAB)},
        "source": {"lab": LAB, "source": changed(SOURCE)},
        "kernel": {"lab": LAB, "source": changed(SOURCE)},
    }

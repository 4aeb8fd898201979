"""What the tests of this scenario share: both hosts, what serves on each, and runs with another stack or engine."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time
import typing as t

import pytest

SCENARIO = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCENARIO.parent / "shared"))

from hosts import connect

from playbooks import Playbooks, Run

UNIT = "sglang-qwen.service"
MODEL = "/models/Qwen3.5-397B-A17B-NVFP4"


@dataclasses.dataclass(frozen=True)
class Hook:
    """One call of a hook: which, where, what served then (InvocationID), and when (seconds since 1970)."""

    name: str
    host: str
    invocation: str
    at: float


class Served:
    """The instance on one of the hosts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.host = connect(SCENARIO, name)

    def show(self, name: str, unit: str = UNIT) -> str:
        """A property of a unit."""
        return str(self.host.check_output(f"systemctl show -P {name} {unit}"))

    def link(self) -> str:
        """The release that the instance is linked to."""
        return str(self.host.check_output("basename $(readlink /opt/sglang/instances/qwen/release)"))

    def stack(self, release: str = "") -> str:
        """The stack of a release, the linked one's if none is named."""
        text = self.host.file(f"/opt/sglang/releases/{release or self.link()}/release.json").content_string
        return str(json.loads(text)["stack"])

    def proof(self) -> dict[str, t.Any]:
        """The last proof."""
        loaded: dict[str, t.Any] = json.loads(self.host.file("/var/lib/sglang/qwen/proof.json").content_string)
        return loaded

    def touched(self) -> tuple[str, ...]:
        """What a deployment changes first or last: another value means that the instance was touched."""
        files = f"/etc/systemd/system/{UNIT} /etc/sglang/qwen.env"
        return (self.show("InvocationID"), self.link(), str(self.host.check_output(f"sha256sum {files}")))

    def serves(self) -> list[str]:
        """What is wrong with the service; empty when this very start is proved and starts at boot."""
        faults = []
        if (self.show("ActiveState"), self.show("UnitFileState")) != ("active", "enabled"):
            faults.append(f"{self.show('ActiveState')}, {self.show('UnitFileState')}")
        proof = self.proof()
        if not proof["passed"] or proof["invocation_id"] != self.show("InvocationID"):
            faults.append("this start is not proved")
        if self.host.file("/var/lib/sglang/qwen/pending.json").exists:
            faults.append("the mark of a deployment is left")
        return faults


class Fleet:
    """Both hosts, and playbooks over them."""

    def __init__(self, playbooks: Playbooks, folder: pathlib.Path) -> None:
        self.one, self.two = Served("sglang1"), Served("sglang2")
        self.playbooks = playbooks
        self.log = folder / "hooks.log"

    def run(self, playbook: str, *arguments: str, **keys: t.Any) -> Run:
        """A playbook; ``stack``, ``fault``, ``args`` and ``keys`` are of the instance, the rest is passed on."""
        changed = {f"lab_{key}": keys.pop(key) for key in ("stack", "fault", "args", "keys") if key in keys}
        return self.playbooks.run(playbook, *arguments, variables={**keys.pop("variables", {}), **changed}, **keys)

    def upgrade(self, **keys: t.Any) -> Run:
        """upgrade.yml with both hooks."""
        hooks = {f"sglang_upgrade_{name}": str(SCENARIO / "hooks" / f"{name}.yml") for name in ("before", "after")}
        return self.run("playbooks/upgrade.yml", variables={**hooks, "lab_hook_log": str(self.log)}, **keys)

    def hooks(self) -> list[Hook]:
        """The calls of hooks so far, in order."""
        rows = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [Hook(name, host, invocation, float(at)) for name, host, invocation, at in rows]

    def report(self, host: str) -> dict[str, t.Any]:
        """What the last run reported of a host."""
        assert self.playbooks.reports is not None
        loaded: dict[str, t.Any] = json.loads((self.playbooks.reports / f"{host}.json").read_text())
        return loaded

    def reported(self, host: str) -> bool:
        """Whether the last run wrote a report of a host at all."""
        assert self.playbooks.reports is not None
        return (self.playbooks.reports / f"{host}.json").exists()


def said(run: Run) -> str:
    """The output as one line, however it was wrapped."""
    return " ".join(run.output.split())


def until(what: t.Callable[[], bool], seconds: float) -> bool:
    """Whether something became true in time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


@pytest.fixture
def fleet(playbooks: Playbooks, tmp_path: pathlib.Path) -> Fleet:
    """Both hosts."""
    return Fleet(playbooks, tmp_path)

"""What the tests of this scenario share: the guest, its proof, and the scenario's playbooks."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest

SCENARIO = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCENARIO.parent / "shared"))

from hosts import connect

from playbooks import Playbooks


@pytest.fixture(scope="session")
def host() -> t.Any:
    """The scenario's guest."""
    return connect(SCENARIO)


@pytest.fixture
def playbooks(tmp_path: pathlib.Path) -> Playbooks:
    """site.yml against this scenario's hosts, with reports in a folder of the test's own."""
    return Playbooks(SCENARIO, tmp_path / "reports")


@pytest.fixture
def proof(host: t.Any) -> dict[str, t.Any]:
    """The proof of the current start of sglang-qwen.service, as the host keeps it."""
    loaded: dict[str, t.Any] = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    return loaded

"""What the tests of every scenario share: the guest, and playbooks run as an operator does."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))

from hosts import connect

from playbooks import Playbooks


@pytest.fixture(scope="module")
def scenario(request: pytest.FixtureRequest) -> pathlib.Path:
    """The scenario's folder."""
    return t.cast(pathlib.Path, request.path).parents[1]


@pytest.fixture(scope="module")
def host(scenario: pathlib.Path) -> t.Any:
    """The scenario's guest sglang1, by plain ssh."""
    return connect(scenario)


@pytest.fixture
def playbooks(scenario: pathlib.Path, tmp_path: pathlib.Path) -> Playbooks:
    """Playbooks against the scenario's hosts, with reports in a folder of the test's own."""
    return Playbooks(scenario, tmp_path / "reports")

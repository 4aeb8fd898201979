"""What the tests of this scenario share."""

from __future__ import annotations

import pathlib
import sys

import pytest

SCENARIO = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SCENARIO.parent / "shared"))

from playbooks import Playbooks


@pytest.fixture
def playbooks(tmp_path: pathlib.Path) -> Playbooks:
    """Playbooks against this scenario's hosts, with reports in a folder of the test's own."""
    return Playbooks(SCENARIO, tmp_path / "reports")

"""What the tests of this scenario share."""

from __future__ import annotations

import pathlib

import pytest
from box import Box
from hosts import connect

from playbooks import Playbooks


@pytest.fixture
def box(scenario: pathlib.Path, playbooks: Playbooks) -> Box:
    """The hypervisor."""
    return Box(connect(scenario, "pve1"), playbooks)

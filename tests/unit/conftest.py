"""Put the checkout, as the collection it is, on the path of the unit tests."""

from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / ".collections"
if not (COLLECTIONS / "ansible_collections" / "blackwell" / "sglang").exists():
    raise RuntimeError("the checkout is not linked as a collection yet: run `make setup`")
sys.path.insert(0, str(COLLECTIONS))

SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder of public cases and captures that lies beside a developer's checkout."""
    if not (SHARED / "captures").is_dir():
        pytest.skip("no folder ../shared beside this checkout: public cases and captures are not compared")
    return SHARED

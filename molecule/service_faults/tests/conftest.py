"""What the tests of this scenario share: the host under faults, and the table of what was seen."""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from bench import Bench, Row

from playbooks import ROOT, Playbooks

TABLE = pathlib.Path(os.environ.get("SGLANG_FAULT_TABLE", ROOT / "reports" / "service_faults.md"))


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """Expected and seen of each fault."""
    return []


@pytest.fixture
def bench(host: t.Any, playbooks: Playbooks, rows: list[Row]) -> t.Iterator[Bench]:
    """The host, serving as wanted before the fault and after it; the table is written anew after each."""
    one = Bench(host, playbooks, rows)
    one.require_quiet()
    yield one
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(Row.table(rows), encoding="utf-8")
    one.tidy()

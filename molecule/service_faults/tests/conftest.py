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


ROWS: list[Row] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table at the end of the run."""
    if ROWS:
        terminalreporter.section(f"{sum(row.right for row in ROWS)} of {len(ROWS)} faults as expected")
        terminalreporter.write_line(Row.table(ROWS))
        terminalreporter.write_line(f"written to {TABLE}")


@pytest.fixture
def table() -> list[Row]:
    """The table's lines so far."""
    return ROWS


@pytest.fixture
def bench(host: t.Any, playbooks: Playbooks) -> t.Iterator[Bench]:
    """The host, serving as wanted before the fault and after it; the table is written anew after each."""
    one = Bench(host, playbooks, ROWS)
    one.require_quiet()
    one.watch()
    yield one
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(Row.table(ROWS), encoding="utf-8")
    one.tidy()

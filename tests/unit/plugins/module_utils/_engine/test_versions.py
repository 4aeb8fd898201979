"""Our small PEP 440 reader, held against the packaging library."""

from __future__ import annotations

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import (
    KNOWN_VERSIONS,
    EngineVersion,
    in_range,
)
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

numbers = st.integers(0, 30)
versions = st.builds(
    lambda release, pre, post, dev: ".".join(map(str, release)) + pre + post + dev,
    st.lists(numbers, min_size=1, max_size=4),
    st.one_of(st.just(""), st.builds(lambda k, n: f"{k}{n}", st.sampled_from(["a", "b", "rc"]), numbers)),
    st.one_of(st.just(""), st.builds(lambda n: f".post{n}", numbers)),
    st.one_of(st.just(""), st.builds(lambda n: f".dev{n}", numbers)),
)


@given(versions, versions)
def test_order_is_that_of_packaging(left: str, right: str) -> None:
    ours, theirs = (EngineVersion.parse(left), EngineVersion.parse(right)), (Version(left), Version(right))
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (theirs[0] < theirs[1], theirs[0] == theirs[1])


@given(st.text(max_size=20))
def test_what_packaging_refuses_is_refused(text: str) -> None:
    try:
        Version(text)
    except ValueError:
        if text.strip().lower() not in ("main", "master", "head"):
            with pytest.raises(ValueError):
                EngineVersion.parse(text)


def test_known_versions_ascend_and_main_is_newest() -> None:
    parsed = [EngineVersion.parse(v) for v in KNOWN_VERSIONS]
    assert parsed == sorted(parsed)
    assert all(v < EngineVersion.parse("main") for v in parsed)


def test_local_part_does_not_count() -> None:
    assert EngineVersion.parse("2.12.0.dev20260307+cu130") == EngineVersion.parse("2.12.0.dev20260307")


@pytest.mark.parametrize(
    ("version", "clauses", "expected"),
    [
        ("0.5.12.post1", ">=0.5.9,<0.5.13", True),
        ("0.5.12.post1", "<=0.5.12", False),
        ("0.5.21.dev20260928+gcc012abd21", "<0.5.21", True),
        ("main", ">=0.5.23", True),
        ("main", "<0.5.23", False),
        ("0.5.9", "", True),
        ("0.5.9", "!=0.5.9", False),
    ],
)
def test_ranges(version: str, clauses: str, expected: bool) -> None:
    assert in_range(version, clauses) is expected


def test_a_clause_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="no version clause"):
        in_range("0.5.9", "~=0.5")

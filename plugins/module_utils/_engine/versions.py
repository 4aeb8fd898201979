# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of the engine and ranges of them (private to the collection).

A small PEP 440 reader of our own: targets have no ``packaging`` library before ``gpu_host`` ran, and check
mode on a bare host must work. The unit tests hold it against ``packaging``.
"""

from __future__ import annotations

import functools
import re
import typing as t

_PATTERN = re.compile(
    r"""^\s*v?
    (?:(?P<epoch>\d+)!)?
    (?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|beta|preview|a|b|c|rc|pre)[-_.]?(?P<pre_n>\d*))?
    (?P<post>-(?P<post_n1>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_n2>\d*))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    \s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_PRE = {"alpha": "a", "a": "a", "beta": "b", "b": "b", "c": "rc", "pre": "rc", "preview": "rc", "rc": "rc"}
_CLAUSE = re.compile(r"^\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*$")

# Releases whose source was read for the tables (facts of engine.md section 0 and the PyPI listing).
KNOWN_VERSIONS: tuple[str, ...] = (
    "0.5.3",
    "0.5.3.post3",
    "0.5.4",
    "0.5.4.post3",
    "0.5.5",
    "0.5.6",
    "0.5.7",
    "0.5.8",
    "0.5.9",
    "0.5.10.post1",
    "0.5.11",
    "0.5.12.post1",
    "0.5.13.post1",
    "0.5.15.post1",
    "0.5.16",
    "0.5.17",
    "0.5.18",
    "0.5.19",
    "0.5.20",
    "0.5.21",
    "0.5.23",
)


@functools.total_ordering
class EngineVersion:
    """A version in PEP 440's order; ``main`` is newer than every release.

    The local part (``+g1234``, ``+cu130``) is kept in ``text`` but does not take part in comparisons: two builds of one
    version answer the same in every table.
    """

    def __init__(self, text: str, key: tuple[t.Any, ...]) -> None:
        self.text = text
        self._key = key

    @classmethod
    def parse(cls, text: str) -> EngineVersion:
        """Read ``0.5.12.post1``, ``v0.5.9``, ``0.5.21.dev20260928+g0123abc`` or ``main``.

        Raises:
            ValueError: the text is no version.
        """
        if text.strip().lower() in ("main", "master", "head"):
            return cls("main", (float("inf"),))
        match = _PATTERN.match(text)
        if match is None:
            raise ValueError(f"{text!r} is no version of the form 0.5.12.post1, 0.5.21.dev20260928 or main")
        release = tuple(int(part) for part in match["release"].split("."))
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        pre: tuple[t.Any, ...]
        if match["pre"]:
            pre = (0, _PRE[match["pre"].lower()], int(match["pre_n"] or 0))
        elif match["dev"] and not match["post"]:
            pre = (-1,)  # a dev release of a final one sorts before its alphas
        else:
            pre = (1,)
        post = int(match["post_n1"] or match["post_n2"] or 0) if match["post"] else -1
        dev = int(match["dev_n"] or 0) if match["dev"] else float("inf")
        return cls(text.strip(), (int(match["epoch"] or 0), release, pre, post, dev))

    @classmethod
    def try_parse(cls, text: str | None) -> EngineVersion | None:
        """Like :meth:`parse`, but None for an absent or unreadable version."""
        if not text:
            return None
        try:
            return cls.parse(text)
        except ValueError:
            return None

    @property
    def is_main(self) -> bool:
        """Whether this is the moving head, of which no table can be sure."""
        return self.text == "main"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineVersion) and self._key == other._key

    def __lt__(self, other: EngineVersion) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"EngineVersion({self.text!r})"


def in_range(version: str | EngineVersion, clauses: str) -> bool:
    """Whether a version satisfies every clause of ``>=0.5.3,<0.5.17``; an empty text admits all.

    Plain ordering, unlike pip's: a post-release of the bound is above it and development versions are not special,
    since a table row says from which source state on something holds.

    Raises:
        ValueError: version or clauses cannot be read.
    """
    if isinstance(version, str):
        version = EngineVersion.parse(version)
    for clause in filter(None, (part.strip() for part in clauses.split(","))):
        match = _CLAUSE.match(clause)
        if match is None:
            raise ValueError(f"{clause!r} is no version clause such as >=0.5.9")
        bound = EngineVersion.parse(match[2])
        holds = {
            ">=": version >= bound,
            "<=": version <= bound,
            "==": version == bound,
            "!=": version != bound,
            ">": version > bound,
            "<": version < bound,
        }[match[1]]
        if not holds:
            return False
    return True

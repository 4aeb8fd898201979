# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of an entry in the catalogue of known failures (private to the collection)."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Signature:
    """One known failure.

    Attributes:
        id: short name, stable.
        pattern: regular expression that one line of the log matches; its named groups can be used in the texts.
        what: what happened, one sentence.
        why: the cause.
        fix: what to write or run.
        source: where the knowledge comes from (a capture, a field report's number or thread, the engine's source).
        example: a real line that the pattern must find.
        fixed_in: the version that fixes it; empty when none is known or none is needed.
        level: ``fatal`` explains why the server is down or wrong, ``generic`` only says that something failed and gives
            way to any fatal one, ``degraded`` is worth saying but does not stop a server.
    """

    id: str
    pattern: str
    what: str
    why: str
    fix: str
    source: str
    example: str
    fixed_in: str = ""
    level: str = "fatal"

    @property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern, for a text of many lines."""
        return re.compile(self.pattern, re.MULTILINE)

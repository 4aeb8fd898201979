# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine's parser cannot know: settings that start and are wrong on SM120 (private to the collection)."""

from __future__ import annotations

import typing as t


def check(instance: dict[str, t.Any], where: str, findings: t.Any, stack_exceptions: list[dict[str, t.Any]]) -> None:
    """Apply every rule to one instance."""

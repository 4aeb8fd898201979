# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine leaves free of a GPU where mem_fraction_static is not given (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.kv import Row, pick
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion

# MiB above which a GPU counts as a big one.
BIG_MIB = 60 * 1024
# The least that is left free, in MiB, on a big GPU and on another; batch sizes, ranks and drafts only add to it.
LEAST_RESERVE: tuple[Row, ...] = (
    Row("<0.5.16", (10 * 1024, 512 + 2048 * 1.5), "server_args.py, _handle_gpu_memory_settings (0.5.9, 0.5.12.post1)"),
    # Pools may be sized after graph capture there, which then need not be reserved for.
    Row(">=0.5.16", (512, 512), "post_capture_kv_sizing_planned of 0.5.16 and 0.5.17 (1536 in 0.5.23)"),
)
# What it usually is on a big GPU, and the share that is left to models with a vision tower.
USUAL_RESERVE_MIB = 10 * 1024
VISION_SHARE = 0.95


def most_fraction(version: EngineVersion, total_mib: float) -> float:
    """The greatest mem_fraction_static that a version chooses for a GPU of so many MiB."""
    row = pick(LEAST_RESERVE, version)
    big, small = row.value if row else (0, 0)
    return max(0.0, 1 - (big if total_mib > BIG_MIB else small) / total_mib)


def usual_fraction(total_mib: float, vision: bool) -> float:
    """The mem_fraction_static that most versions choose for a big GPU."""
    return max(0.0, 1 - USUAL_RESERVE_MIB / total_mib) * (VISION_SHARE if vision else 1.0)

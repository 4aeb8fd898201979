# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof of the KV cache's dtype from a running engine (private to the collection)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._kv_verdict import Evidence, KvVerdict
from ansible_collections.blackwell.sglang.plugins.module_utils._unit_log import UnitLog

__all__ = ["Evidence", "KvVerdict", "prove"]


def prove(
    ordered: str,
    checkpoint: t.Any,
    unit_log: UnitLog | None,
    server_info: t.Mapping[str, t.Any] | None,
    tp_size: int,
    engine_version: str | None,
    receipt: t.Mapping[str, t.Any] | None = None,
    *,
    pp_size: int = 1,
    draft_ordered: str | None = None,
    arguments: t.Mapping[str, t.Any] | None = None,
    silence: str = "",
) -> KvVerdict:
    """Judge whether the KV cache of a running engine has the dtype ordered.

    Args:
        ordered: the dtype that must hold, for instance ``bfloat16``.
        checkpoint: a :class:`_checkpoint.Checkpoint` or its config.json as a dict; bytes per token come from it.
        unit_log: the log of this start, or None.
        server_info: the JSON of ``/server_info``, or None.
        tp_size: tensor parallel size that was ordered.
        engine_version: version that was ordered; what the server says of itself wins.
        receipt: what :attr:`KvVerdict.receipt` of an earlier run held, kept under the InvocationID.
        pp_size: pipeline parallel size.
        draft_ordered: the dtype of the draft model's cache, where speculation is on and it differs.
        arguments: the arguments of the engine by field name, for settings that change the pools.
        silence: why there is no ``server_info``, for the evidence.
    """
    raise NotImplementedError

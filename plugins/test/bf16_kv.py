# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether arguments or a verdict mean a BF16 KV cache."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.blackwell.sglang.plugins.module_utils import _checkpoint, _checkpoint_info, _kv_dtype
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def bf16_kv(
    value: t.Any,
    checkpoint: t.Any = None,
    engine_version: str | None = None,
    attention_backend: str | None = None,
    compute_capability: str | None = None,
) -> bool:
    """True only where it is sure: a proved verdict, or arguments that this version, backend and model turn into
    BF16.
    """
    try:
        if isinstance(value, t.Mapping) and "verdict" in value:
            return value.get("verdict") == "ok" and value.get("effective_dtype") == "bfloat16"
        if isinstance(value, t.Mapping) and "engine_auto_kv_cache_dtype" in value:
            return value.get("engine_auto_kv_cache_dtype") == "bfloat16"
        model = _model(checkpoint, engine_version)
        return _kv_dtype.assert_static(
            model, value, engine_version, attention_backend, compute_capability=compute_capability
        ).ok
    except SglangError as exc:
        raise AnsibleFilterError(f"bf16_kv: {exc}") from exc


def _model(given: t.Any, engine_version: str | None) -> _checkpoint.Checkpoint:
    if isinstance(given, str):
        return _checkpoint.read(given, scales=False)
    if isinstance(given, t.Mapping) and "engine_auto_kv_cache_dtype" in given:
        return _checkpoint_info.rebuilt(given)
    if isinstance(given, t.Mapping):
        return _checkpoint.from_config(given)
    model = _checkpoint.from_config({})
    model.known_auto = (str(_kv_dtype.version_of(engine_version)), _kv_dtype.UNKNOWN, "No checkpoint was given.")
    return model


class TestModule:
    """The test of this file."""

    def tests(self) -> dict[str, t.Callable[..., bool]]:
        """Name to function."""
        return {"bf16_kv": bf16_kv}

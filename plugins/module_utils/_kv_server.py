# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What /server_info says, wherever a version keeps it (private to the collection)."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

try:
    import jmespath

    JMESPATH_IMPORT_ERROR: str | None = None
except ImportError as exc:  # a bare host in check mode; gpu_host installs it
    JMESPATH_IMPORT_ERROR = str(exc)

# Settings of the engine that change its pools, under their own names at the top of the answer.
_SETTINGS = (
    "dp_size",
    "enable_dp_attention",
    "swa_full_tokens_ratio",
    "speculative_algorithm",
    "mem_fraction_static",
    "page_size",
    "attention_backend",
    "quantization",
)


@dataclasses.dataclass
class ServerFacts:
    """Figures of a running server; everything that it does not say is None. ``kv_gib`` is rounded to 0.01 GiB."""

    answered: bool = False
    kv_gib: float | None = None
    tokens: int | None = None
    max_total_num_tokens: int | None = None
    state_dtypes: list[str] = dataclasses.field(default_factory=list)
    top_dtype: str | None = None
    version: str | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    random_seed: int | None = None
    model_path: str | None = None
    running_requests: int | None = None
    settings: dict[str, t.Any] = dataclasses.field(default_factory=dict)


def read_server_info(info: t.Mapping[str, t.Any] | None) -> ServerFacts:
    """Find the figures in the JSON of /server_info.

    Raises:
        SglangError: jmespath is missing on this host.
    """
    if not isinstance(info, t.Mapping):
        return ServerFacts()
    if JMESPATH_IMPORT_ERROR is not None:
        raise SglangError(
            f"the Python library jmespath is missing ({JMESPATH_IMPORT_ERROR})",
            where="/server_info",
            fix="run the role gpu_host, which installs python3-jmespath",
            kind="no_jmespath",
        )
    data = dict(info)
    states = _find("state_dtypes", data)
    top = _find("top_dtype", data)
    version, path = _find("version", data), _find("model_path", data)
    return ServerFacts(
        answered=True,
        kv_gib=_number(_find("kv_gib", data)),
        tokens=_whole(_find("tokens", data)),
        max_total_num_tokens=_whole(_find("max_total_num_tokens", data)),
        state_dtypes=[word for word in states if isinstance(word, str)] if isinstance(states, list) else [],
        top_dtype=top if isinstance(top, str) else None,
        version=version if isinstance(version, str) else None,
        tp_size=_whole(_find("tp_size", data)),
        pp_size=_whole(_find("pp_size", data)),
        random_seed=_whole(_find("random_seed", data)),
        model_path=path if isinstance(path, str) else None,
        running_requests=_whole(_find("running_requests", data)),
        settings={name: data[name] for name in _SETTINGS if data.get(name) is not None},
    )


@functools.lru_cache(maxsize=64)
def _compiled(expression: str) -> t.Any:
    return jmespath.compile(expression)


def _find(name: str, data: dict[str, t.Any]) -> t.Any:
    try:
        return _compiled(kv.SERVER_INFO[name].value).search(data)
    except jmespath.exceptions.JMESPathError:  # a field of a shape that the expression cannot walk
        return None


def _number(value: t.Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def _whole(value: t.Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

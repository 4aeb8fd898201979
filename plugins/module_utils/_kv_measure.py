# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic: which dtype the bytes per token of a pool can only be (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_cell import Cell, Parallel, cell

# One dtype for each width that a pool can have; what shares a width cannot be told apart by size.
_WIDTHS = {
    "bfloat16": ("bfloat16", "float16"),
    "fp8_e4m3": ("fp8_e4m3", "fp8_e5m2", "int8", "uint8"),
    "mxfp8": ("mxfp8",),
    "nvfp4": ("nvfp4", "fp4_e2m1", "fp4_mx_block16", "fp4"),
}
# Pools hold a page more than the tokens that are logged, and pages are rounded; 256 is the largest default page.
_PAGE = 256
_SLACK = 0.002


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Bytes per token that a pool of a dtype would have."""

    dtype: str
    pool: str
    bytes: float


class Scale:
    """What the pools of one model on one spread of GPUs would weigh, for every dtype.

    ``doubts`` is not empty where the model is not fully understood; a figure that fits nonetheless still counts, one
    that does not fit then says nothing.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        version: EngineVersion,
        parallel: Parallel,
        swa_ratio: float | None = None,
    ) -> None:
        self.candidates: list[Candidate] = []
        self.whole: list[Candidate] = []
        self.doubts: list[str] = []
        self.problem = ""
        for dtype in _WIDTHS:
            for layout in ("scaled", "raw"):
                try:
                    made = cell(
                        checkpoint.text,
                        checkpoint.architectures,
                        dtype,
                        version,
                        parallel,
                        swa_ratio=swa_ratio,
                        dsa_layout=layout,
                    )
                except SglangError as exc:
                    self.problem = str(exc)
                    return
                self.doubts = made.doubts
                self._add(dtype, made)

    def _add(self, dtype: str, made: Cell) -> None:
        whole = Candidate(dtype, "all pools", sum(pool["bytes_per_token"] * pool["share"] for pool in made.pools))
        if whole not in self.whole:
            self.whole.append(whole)
        for pool in made.pools:
            made_of = Candidate(dtype, pool["name"], pool["bytes_per_token"])
            if made_of not in self.candidates:
                self.candidates.append(made_of)
        layers = _attention_layers(made)
        if layers:  # an MTP draft is one layer of the target's shape
            draft = Candidate(dtype, "draft", made.pools[0]["bytes_per_token"] / layers)
            if draft not in self.candidates:
                self.candidates.append(draft)

    def match(self, gib: float, tokens: int, rounding: float, whole: bool = False) -> list[Candidate]:
        """Candidates that ``gib`` GiB for ``tokens`` tokens can be, the figures being rounded by up to ``rounding``
        GiB.
        """
        if tokens <= 0:
            return []
        measured = gib * 1024**3 / tokens
        slack = rounding * 1024**3 / tokens + measured * (_PAGE / tokens + _SLACK)
        places = self.whole if whole else self.candidates
        return [place for place in places if place.bytes and abs(place.bytes - measured) <= slack]


def _attention_layers(made: Cell) -> int:
    shape = made.geometry
    if shape.latent is not None:
        return len(shape.latent.layers)
    return len(shape.full[0].layers) if shape.full else 0


def same_width(dtype: str, candidate: str) -> bool:
    """Whether a dtype has the width of a candidate's."""
    return dtype in _WIDTHS.get(candidate, (candidate,))


def words(candidates: t.Iterable[Candidate]) -> str:
    """The widths of candidates, for people."""
    names = sorted({candidate.dtype for candidate in candidates})
    width = {"bfloat16": "16 bits", "fp8_e4m3": "8 bits", "mxfp8": "8.25 bits", "nvfp4": "4.5 bits"}
    return " or ".join(width.get(name, name) for name in names)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of packages that are known to be bad on SM120, as a table (private to the collection).

``refuse`` is for what is bad in every use of this collection; ``warn`` is for what is bad under some flags or loads, so
that the gate settles it. Ranges are read by ``versions.in_range``; local parts such as ``+cu130`` do not count.
"""

from __future__ import annotations

import dataclasses

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion, in_range


@dataclasses.dataclass(frozen=True)
class KnownBad:
    """A row: ``distribution`` and ``versions`` say what, ``symptom`` how it shows, ``use`` what to take instead."""

    distribution: str
    versions: str
    severity: str
    symptom: str
    use: str
    source: str


TABLE: tuple[KnownBad, ...] = (
    KnownBad(
        "flashinfer-python",
        ">=0.6.0,<0.6.5",
        "refuse",
        "the CUTLASS fused MoE returns zeros, then NaN, on SM120",
        "0.6.11 or newer",
        "flashinfer #2577",
    ),
    KnownBad(
        "flashinfer-python",
        ">=0.6.5,<0.6.8",
        "refuse",
        "kernels are compiled without the GDC flags, so FP4 GEMM and fused MoE race under load and yield NaN",
        "0.6.11 or newer",
        "flashinfer #2708, #2780 (0.6.7), #2913 (0.6.8)",
    ),
    KnownBad(
        "flashinfer-python",
        ">=0.6.8,<0.6.11",
        "warn",
        "the FP4 GEMM of flashinfer_cudnn yields NaN on SM120; flashinfer_cutlass does not",
        "0.6.11 or newer, or fp4_gemm_runner_backend flashinfer_cutlass",
        "flashinfer #2910, #3192",
    ),
    KnownBad(
        "flashinfer-python",
        "==0.6.12",
        "warn",
        "mm_fp4 of flashinfer_cutlass yields zeros at 3072 rows, or where the architecture list has no f suffix",
        "0.6.15 or newer, or fp4_gemm_runner_backend flashinfer_cudnn",
        "flashinfer #3398",
    ),
    KnownBad(
        "nvidia-cublas",
        ">=13.2,<13.4.1",
        "refuse",
        "cublasLtMatmul ignores the tensor-wide scale of NVFP4, and 13.3 accesses memory it must not",
        "13.1.0.3, or 13.4.1 and newer",
        "rtx6kpro digests 2026-04-10 and 2026-05-13",
    ),
    KnownBad(
        "nvidia-cudnn-cu13",
        "<9.15",
        "warn",
        "flashinfer_cudnn finds no execution plan for FP4 GEMM",
        "9.19.1.2",
        "flashinfer #2577, help text of sglang --fp4-gemm-backend",
    ),
    KnownBad(
        "nvidia-nccl-cu13",
        "<2.27",
        "warn",
        "illegal memory access for messages of 512 KiB and more on SM120",
        "2.28 or newer",
        "field report B073",
    ),
    KnownBad(
        "torch",
        ">=2.12.0.dev0,<2.12.0a0",
        "warn",
        "nightlies of 2.12 crashed under concurrent load in March 2026",
        "2.11.0, or a stable 2.12",
        "blackwell-llm-docker d6112ac, 2026-03-29",
    ),
    KnownBad(
        "torch",
        ">=2.9.1,<2.9.2",
        "warn",
        "its cuDNN is refused at start-up by SGLang's compatibility check",
        "nvidia-cudnn-cu13 9.15 or newer beside it",
        "sglang start-up message: PyTorch 2.9.1 & CuDNN Compatibility Issue Detected",
    ),
)


def find(distribution: str, version: str) -> list[KnownBad]:
    """Rows that apply to a version, those that refuse first; none if the version cannot be read."""
    parsed = EngineVersion.try_parse(version)
    if parsed is None:
        return []
    rows = [row for row in TABLE if row.distribution == distribution and in_range(parsed, row.versions)]
    return sorted(rows, key=lambda row: row.severity)

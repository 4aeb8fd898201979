# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of known failures: what their log looks like and what to do (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures_compute import COMPUTE
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures_cuda import CUDA
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures_host import HOST
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures_start import START

CATALOGUE: tuple[Signature, ...] = (*START, *COMPUTE, *CUDA, *HOST)

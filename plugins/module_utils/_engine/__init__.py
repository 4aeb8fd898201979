# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between versions of SGLang, FlashInfer and sgl-kernel, as tables (private to the collection).

Each row carries a version range and a source; nothing outside this package branches on an engine version.
"""

from __future__ import annotations

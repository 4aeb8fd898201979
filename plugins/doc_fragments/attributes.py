# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes that the modules of the collection share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return what would change without changing it.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description: Run a second time with the same input, it reports no change.
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details: [The module only reads.]
  diff_mode:
    support: N/A
    details: [The module changes nothing.]
  idempotent:
    support: full
    details: [The module changes nothing.]
"""

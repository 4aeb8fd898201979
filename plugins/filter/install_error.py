# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failed installation means to an operator."""

from __future__ import annotations

DOCUMENTATION = r"""
name: install_error
short_description: Turn the result of a failed installation into one message that names index, variable and fix
version_added: "1.0.0"
description:
  - Reads what uv or pip printed and says which index or package was the cause, which variable names it, and what to do.
  - User names and passwords of URLs are left out.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
positional: stack, name
options:
  _input:
    description: Result of M(blackwell.sglang.run_logged).
    type: dict
    required: true
  stack:
    description: The resolved stack.
    type: dict
    required: true
  name:
    description: The stack's name.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Say what went wrong
  ansible.builtin.fail:
    msg: "{{ ansible_failed_result | blackwell.sglang.install_error(stack, 'nightly') }}"
"""

RETURN = r"""
_value:
  description: The message, one paragraph, and where the whole log is.
  type: str
"""

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_uv


def install_error(result: t.Mapping[str, t.Any], stack: t.Mapping[str, t.Any], name: str) -> str:
    """One message for a failed installation."""
    text = str(result.get("error") or result.get("msg") or "no message")
    message = str(_stack_uv.explain(text, stack, name))
    log = result.get("log")
    return f"{message} The whole log is {log} on the host." if log else message


class FilterModule:
    """Filters of the collection about installations."""

    def filters(self) -> dict[str, t.Callable[..., str]]:
        """Names of the filters."""
        return {"install_error": install_error}

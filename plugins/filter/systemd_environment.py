# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write an environment as systemd's EnvironmentFile= reads it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_environment
short_description: Write variables as systemd's EnvironmentFile= reads them
version_added: "1.0.0"
author: "blackwell.sglang contributors (@blackwell-sglang)"
description:
  - One line a variable, sorted by name, the value in double quotes with what systemd would interpret escaped.
options:
  _input:
    description: Names and values.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: An environment file
  ansible.builtin.debug:
    msg: "{{ {'NCCL_P2P_LEVEL': 'SYS', 'OMP_NUM_THREADS': 8} | blackwell.sglang.systemd_environment }}"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
  sample: |
    NCCL_P2P_LEVEL="SYS"
    OMP_NUM_THREADS="8"
"""

import re
import typing as t

from ansible.errors import AnsibleFilterError

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def systemd_environment(variables: t.Any) -> str:
    """The text of an environment file, as systemd.exec(5) reads it."""
    if not isinstance(variables, t.Mapping):
        raise AnsibleFilterError(f"systemd_environment takes a dictionary, not {type(variables).__name__}")
    lines = []
    for name, value in sorted(variables.items()):
        if not _NAME.match(str(name)):
            raise AnsibleFilterError(f"{name!r} is no name of an environment variable")
        text = str(value)
        if "\n" in text or "\r" in text:
            raise AnsibleFilterError(f"the value of {name} has several lines; an environment file holds one a variable")
        escaped = re.sub(r'(["\\`$])', r"\\\1", text)
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"systemd_environment": systemd_environment}

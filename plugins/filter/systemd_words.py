# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quote words for a command line of a systemd unit."""

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_words
short_description: Quote words for ExecStart= of a systemd unit
version_added: "1.0.0"
author: "blackwell.sglang contributors (@blackwell-sglang)"
description:
  - Quotes each word so that systemd hands exactly it to the program. Percent signs and dollar signs lose their meaning.
options:
  _input:
    description: The words.
    type: list
    elements: raw
    required: true
"""

EXAMPLES = r"""
- name: Words that need quotes, and words that do not
  ansible.builtin.debug:
    msg: "{{ ['--model-path', '/models/a b', '--ratio', '50%'] | blackwell.sglang.systemd_words | join(' ') }}"
"""

RETURN = r"""
_value:
  description: The words, quoted where they need it.
  type: list
  elements: str
  sample: ["--model-path", '"/models/a b"', "--ratio", "50%%"]
"""

import re
import typing as t

from ansible.errors import AnsibleFilterError

_PLAIN = re.compile(r"^[A-Za-z0-9_@%+=:,./$-]+$")


def systemd_words(words: t.Any) -> list[str]:
    """Quote words as systemd.service(5) and systemd.syntax(7) read them."""
    if not isinstance(words, (list, tuple)):
        raise AnsibleFilterError(f"systemd_words takes a list of words, not {type(words).__name__}")
    return [word(str(each)) for each in words]


def word(text: str) -> str:
    """One word: C-style escapes inside double quotes; %% and $$ for a literal sign."""
    if any(ord(char) < 32 for char in text):
        raise AnsibleFilterError(f"a control character cannot be an argument of a unit: {text!r}")
    signs = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN.match(text):
        return signs
    escaped = signs.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"systemd_words": systemd_words}

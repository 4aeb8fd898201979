#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_validate
short_description: Check a whole inventory before any connection is made
version_added: "1.0.0"
description:
  - Checks the variables of every host in the groups C(sglang_hosts) and C(proxmox_hosts) on the controller and fails
    with one message that lists every problem with host, variable, what is wrong, what was expected and what to write.
  - Unknown variables with the collection's prefixes are reported with the nearest known name, engine arguments are
    checked against the option table of the stack's SGLang version and against rules for SM120, references between hosts
    are followed.
  - Values that may be secrets are never shown. An encrypted value that this run cannot open is a problem.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
options:
  hosts:
    description: Check only these hosts. Without it, every host of the two groups is checked.
    type: list
    elements: str
  fail:
    description: Fail if there is a problem. If V(false), problems are only returned.
    type: bool
    default: true
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.sglang_resolve
notes:
  - The checkpoint's files are read only for a host with C(ansible_connection=local); elsewhere the roles read them.
"""

EXAMPLES = r"""
- name: Check the inventory
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Check every variable before any connection
      blackwell.sglang.sglang_validate:
"""

RETURN = r"""
hosts:
  description: One line for each instance, by host.
  returned: always
  type: dict
  sample:
    sglang1:
      - "qwen: started, sglang 0.5.12.post1 (stack nightly), /models/X, KV cache bf16, TP 8, 127.0.0.1:30000"
problems:
  description: What must be put right.
  returned: always
  type: list
  elements: dict
  sample:
    - host: sglang1
      where: sglang_instnaces
      what: is no variable that the collection reads
      expected: a known name
      fix: write sglang_instances
      id: unknown_variable
warned:
  description: What an operator should know, in the same form.
  returned: always
  type: list
  elements: dict
  sample: []
msg:
  description: The problems as one text, or how much was checked.
  returned: always
  type: str
  sample: "1 host(s), 1 instance(s): no problem found, 0 warning(s)"
"""

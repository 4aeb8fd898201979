#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: deploy_report
short_description: Write what runs on a host, why, and what was proved
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Writes a page in Markdown, HTML and JSON for the current host, and a summary of all hosts, into a folder of
    the controller, from what the roles left in the host's variables. Parts that a run did not reach are
    left out.
  - Appends one line to F(/var/lib/sglang/runs.jsonl) on the host, by a plain command and not a module.
  - Takes out secrets (API keys, tokens, passwords in URLs) and personal folders.
  - A page is rewritten only when something other than times differs, and never counts as a change.
  - Runs on the controller as an action plugin.
options:
  folder:
    description: Folder of the controller; V(reports) below the folder in which the run was started when it is empty.
    type: str
    default: ""
  exceptions:
    description: Exceptions granted for the host itself (C(gpu_host_exceptions)), beside those of instances and stacks.
    type: list
    elements: dict
    default: []
  record:
    description: Whether to append the run's record on the host.
    type: bool
    default: true
  group:
    description: Inventory group whose hosts the summary lists.
    type: str
    default: sglang_hosts
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [Nothing is written in check mode.]
  diff_mode:
    support: none
  idempotent:
    support: full
    details: [Reports and records are no state of the host.]
"""

EXAMPLES = r"""
- name: Write the report
  blackwell.sglang.deploy_report:
    folder: "{{ playbook_dir }}/reports"
"""

RETURN = r"""
path:
  description: The host's page, relative to the folder in which the run was started if it lies there.
  returned: always
  type: str
  sample: reports/sglang1.md
summary:
  description: The summary's page.
  returned: always
  type: str
  sample: reports/README.md
written:
  description: Whether the page was written; it is not when only times differ.
  returned: always
  type: bool
  sample: true
recorded:
  description: Whether the record was appended on the host.
  returned: always
  type: bool
  sample: true
"""

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_support_bundle
short_description: Collect what a vendor would ask for into one archive, without secrets
version_added: "1.0.0"
description:
  - Reads units, proofs, the logs of the last starts, GPUs, driver messages and the records of runs on a host, and
    writes them into an archive on the controller. Nothing is written on the host.
  - Of each release in use it keeps the versions of all its packages, its lock, and the ends of its build logs.
  - The keys of the instances, tokens, passwords in URLs and names of home folders are replaced; of environments only
    the names are kept. Read it all the same before it leaves the house, since logs may hold prompts.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode no archive is written.]
  diff_mode:
    support: none
  idempotent:
    support: full
    details: [The archive never counts as a change.]
options:
  instances:
    description: Names of the instances.
    type: list
    elements: str
    required: true
  dest:
    description: Archive on the controller, ending in C(.tar.gz). Its folder is made.
    type: path
    required: true
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
seealso:
  - module: blackwell.sglang.sglang_diagnose
"""

EXAMPLES = r"""
- name: Collect what a vendor would ask for
  blackwell.sglang.sglang_support_bundle:
    instances: [qwen]
    dest: reports/support-{{ inventory_hostname }}.tar.gz
"""

RETURN = r"""
dest:
  description: The archive on the controller; empty in check mode.
  returned: always
  type: str
  sample: reports/support-llm1.tar.gz
names:
  description: What is in it.
  returned: always
  type: list
  elements: str
  sample: [gpu/nvidia-smi.txt, host/uname.txt, qwen/proof.json, qwen/start_0.log, releases/r1/packages.txt]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _support


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instances": {"type": "list", "elements": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "root": {"type": "path", "default": "/opt/sglang"},
        },
        supports_check_mode=True,
    )
    root = module.params["root"]
    places = [_service.Places(name, root=root) for name in module.params["instances"]]
    files = _support.collect(_service.runner(module), places, root)
    module.exit_json(changed=False, dest="", names=sorted(files), files=files)


if __name__ == "__main__":
    main()

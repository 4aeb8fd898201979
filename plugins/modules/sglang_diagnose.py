#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_diagnose
short_description: Turn the log of a start into what happened, why, and what to do
version_added: "1.0.0"
description:
  - Compares the log of one start with a catalogue of known failures, each with its cause, its cure and the version that
    fixes it.
  - A failure that no signature knows is given as the first exception of the first process that failed, not as the last
    lines, which only say that others followed.
  - API keys in the log are replaced by C(***).
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  unit:
    description: Unit whose last start is looked at, by its InvocationID.
    type: str
  invocation_id:
    description: Another start of O(unit) than the last one.
    type: str
    default: ""
  path:
    description: A log file on the host, of one start.
    type: path
  text:
    description: The log itself.
    type: str
"""

EXAMPLES = r"""
- name: Why does the server not come up
  blackwell.sglang.sglang_diagnose:
    unit: sglang-qwen.service
  register: sglang_diagnosis

- name: Show the answer
  ansible.builtin.debug:
    msg: "{{ sglang_diagnosis.what }}. {{ sglang_diagnosis.why }} {{ sglang_diagnosis.fix }}"
"""

RETURN = r"""
id:
  description: Id of the signature; V(unknown) where none fits, V(nothing) where the log speaks of no failure.
  returned: always
  type: str
  sample: port_in_use
what:
  description: What happened.
  returned: always
  type: str
  sample: Port 30000 on 127.0.0.1 is taken by another process
why:
  description: The cause.
  returned: always
  type: str
  sample: The engine binds only after loading; another server took the port before or meanwhile.
fix:
  description: What to write or run.
  returned: always
  type: str
  sample: status names who listens; stop it or choose another args.port.
fixed_in:
  description: The version that fixes it, where one is known.
  returned: always
  type: str
  sample: ""
source:
  description: Where the knowledge comes from.
  returned: always
  type: str
  sample: captures fail_port_in_use and tp2_auto_beaten_to_the_port
line:
  description: The line that was recognised.
  returned: always
  type: str
  sample: "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"
rank:
  description: The rank that wrote the line, where the log says it.
  returned: always
  type: str
  sample: TP0
also:
  description: What else the log says, for instance of a server that runs with less than it could.
  returned: always
  type: list
  elements: dict
  sample: [{id: moe_config_missing, level: degraded, what: There is no tuned MoE configuration for this GPU and shape}]
exception:
  description: The first exception of the first process that failed.
  returned: always
  type: dict
  sample: {text: "RuntimeError: Not enough memory.", rank: TP0, index: 212, where: "File pool_configurator.py, line 56"}
tail:
  description: The last lines.
  returned: always
  type: list
  elements: str
  sample: ["INFO:     Waiting for application shutdown."]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose, _service


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str"},
            "invocation_id": {"type": "str", "default": ""},
            "path": {"type": "path"},
            "text": {"type": "str"},
        },
        required_one_of=[("unit", "path", "text")],
        mutually_exclusive=[("unit", "path", "text")],
        supports_check_mode=True,
    )
    params = module.params
    if params["unit"]:
        run = _service.runner(module)
        module.exit_json(changed=False, **_diagnose.of_unit(run, params["unit"], params["invocation_id"]))
    text = params["text"]
    if params["path"]:
        try:
            with open(params["path"], encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError as exc:
            module.fail_json(msg=f"{params['path']}: {exc.strerror}. Give the log of one start.")
    module.exit_json(changed=False, **_diagnose.diagnose(text.splitlines()))


if __name__ == "__main__":
    main()

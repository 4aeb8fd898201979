#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_service_stop
short_description: Stop an SGLang instance and see that its GPUs are free
version_added: "1.0.0"
description:
  - Stops the unit (TERM, then KILL after the unit's stop timeout), resets its failure counter, and waits until the
    memory of its GPUs is given back.
  - Processes of the service user that hold these GPUs outside of any unit of an instance are ended, TERM first. Nothing
    else is ever killed. When somebody else holds a GPU the module fails and says who.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  name:
    description: Name of the instance; its unit is C(sglang-NAME.service).
    type: str
    required: true
  gpus:
    description: V(all) or a list of GPU indices.
    type: raw
    default: all
  user:
    description: The service user.
    type: str
    default: sglang
  wait:
    description: Seconds to wait for the memory once the processes are gone.
    type: float
    default: 60
  disable:
    description: Whether the unit is also taken out of the boot.
    type: bool
    default: false
  deployment:
    description:
      - The deployment that this stop is part of, by RV(blackwell.sglang.sglang_instance_link#module:deployment).
      - Nothing is stopped when the host was booted or another run deployed since.
    type: str
    default: ""
  require_free:
    description: Whether it is a failure when a GPU is not free in the end.
    type: bool
    default: true
  idle_mib:
    description: MiB that a GPU may show which nobody uses.
    type: int
    default: 512
"""

EXAMPLES = r"""
- name: Stop an instance for a maintenance of its GPUs
  blackwell.sglang.sglang_service_stop:
    name: qwen
    gpus: [0, 1, 2, 3]
"""

RETURN = r"""
was:
  description: State of the unit before.
  returned: always
  type: str
  sample: active
seconds:
  description: From the stop to free GPUs.
  returned: always
  type: float
  sample: 4.2
free:
  description: Whether every GPU of the instance is free.
  returned: always
  type: bool
  sample: true
killed:
  description: Orphans that were ended.
  returned: always
  type: list
  elements: dict
  sample: [{pid: 812, name: "sglang::scheduler", user: sglang, ppid: 1, index: 0, mib: 90112}]
left:
  description: GPUs that are not free, and why.
  returned: always
  type: list
  elements: dict
  sample: [{index: 2, mib: 624, kind: unseen, words: "GPU 2: 624 MiB held by a process that cannot be seen from here"}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _service,
    _service_dropins,
    _service_stop,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

_FIXES = {
    "foreign": "stop that process yourself; nothing that is not of the service user is killed here",
    "wedged": "no signal reaches it; end it from the hypervisor, or reset the GPU there",
    "orphaned": "it did not end after KILL; look at it with ps, then end it from the hypervisor",
    "releasing": "wait; if it does not become less, reset the GPU on the hypervisor",
    "unseen": "look on the hypervisor (fuser -v /dev/nvidia*): another guest, or memory of a wedged process",
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "gpus": {"type": "raw", "default": "all"},
            "user": {"type": "str", "default": "sglang"},
            "wait": {"type": "float", "default": 60},
            "disable": {"type": "bool", "default": False},
            "deployment": {"type": "str", "default": ""},
            "require_free": {"type": "bool", "default": True},
            "idle_mib": {"type": "int", "default": 512},
        },
        supports_check_mode=True,
    )
    params = module.params
    run = _service.runner(module)
    places = _service.Places(params["name"])
    try:
        _service.require_deployment(places, params["deployment"])
    except SglangError as exc:
        module.fail_json(msg=str(exc), **exc.as_dict())
    result = _service_stop.stop(
        run,
        f"sglang-{params['name']}.service",
        params["gpus"],
        params["user"],
        wait=params["wait"],
        disable=params["disable"],
        idle_mib=params["idle_mib"],
        act=not module.check_mode,
    )
    if result["error"]:
        module.fail_json(msg=result["error"], **result)
    # Whoever starts a unit by hand that was stopped for good means the unit, and no trial.
    if params["disable"] and any(path.exists() for path in _service_dropins.trial_files(places)):
        result["changed"] = True
        if not module.check_mode:
            _service_dropins.clear_trial(places)
            run(["systemctl", "daemon-reload"])
    if params["require_free"] and result["left"] and not module.check_mode:
        words = "; ".join(f"{each['words']} ({_FIXES[each['kind']]})" for each in result["left"])
        module.fail_json(msg=f"{params['name']} is stopped, but not every GPU is free. {words}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

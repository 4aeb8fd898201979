#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backend_matrix_step
short_description: One step of trying a combination of backends on a host
version_added: "1.0.0"
description:
  - Starts an instance with other arguments through a drop-in under C(/run), waits for it, asks it, stops it, and puts
    the service back. The drop-in does not survive a boot, so a power cut ends with the service as it was.
  - The action of M(blackwell.sglang.backend_matrix) uses it; by itself it serves to put a service back by hand, with
    O(step=restore), when a matrix was interrupted.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode V(start), V(stop) and V(restore) do nothing.]
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: [V(restore) changes nothing when the service is as it was.]
options:
  step:
    description:
      - V(look) reads unit, drop-in and GPUs. V(start) stops what runs and starts the trial. V(wait) waits for it.
      - V(probe) asks one group of questions. V(stop) stops the trial and waits until its GPUs are free. V(restore)
        takes the drop-in away and starts the service, if O(running).
    type: str
    choices: [look, start, wait, probe, stop, restore]
    required: true
  instance:
    description: A resolved instance with the arguments of the combination.
    type: dict
    required: true
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
  words:
    description: The engine's arguments, quoted for systemd. Needed by V(start).
    type: list
    elements: str
  env:
    description: Environment beyond the unit's own.
    type: dict
    default: {}
  invocation_id:
    description: The start that is waited for or asked.
    type: str
    default: ""
  seconds:
    description: Longest wait of V(wait), in seconds.
    type: float
    default: 5
  request_timeout:
    description: Seconds for one answer of V(probe).
    type: float
    default: 120
  part:
    description:
      - What V(probe) asks. V(gate) is the gate's own part, V(lengths) prompts of many exact lengths, V(burst) many at
        once, V(long) one long prompt.
    type: str
    choices: [gate, lengths, burst, long]
    default: gate
  lengths:
    description: Prompt lengths of V(lengths), in tokens; without it the built-in ones.
    type: list
    elements: int
  concurrent:
    description: Requests at once of V(burst).
    type: int
    default: 64
  long_tokens:
    description: Tokens of the prompt of V(long).
    type: int
    default: 40000
  token_ids:
    description: Token ids of real text, as an earlier V(probe) gave them; without it the server is asked for some.
    type: list
    elements: int
  running:
    description: Whether V(restore) leaves the service running.
    type: bool
    default: true
seealso:
  - module: blackwell.sglang.backend_matrix
"""

EXAMPLES = r"""
- name: Know what runs here
  blackwell.sglang.sglang_resolve:
  register: sglang_known

- name: Put the service back after a matrix that was interrupted
  blackwell.sglang.backend_matrix_step:
    step: restore
    instance: "{{ sglang_known.resolved.instances | first }}"
"""

RETURN = r"""
running:
  description: Whether the unit is active.
  returned: with O(step=look)
  type: bool
  sample: true
trial:
  description: Whether a drop-in of a matrix is there.
  returned: with O(step=look)
  type: bool
  sample: false
release:
  description: Release that the instance uses.
  returned: with O(step=look)
  type: str
  sample: 20261129T180112Z-3f9a1c22
invocation_id:
  description: InvocationID of the start.
  returned: with O(step=start) and O(step=wait)
  type: str
  sample: 7f1d0c9b5b7e4e0f8d4d2c5a4d1c9a10
state:
  description: Where the wait stands, V(ready), V(waiting) or V(failed).
  returned: with O(step=wait)
  type: str
  sample: ready
words:
  description: What the server did when it was looked at last.
  returned: with O(step=wait)
  type: str
  sample: "503: loaded, not yet warmed up"
checks:
  description: Checks of the gate.
  returned: with O(step=probe) and O(part=gate)
  type: list
  elements: dict
  sample: [{id: right.logprobs, passed: true, expected: a finite number for each token, seen: 16 log-probabilities}]
answers:
  description: One entry an answer.
  returned: with O(step=probe) and the other parts
  type: list
  elements: dict
  sample:
    - {probe: M=3072/1, ids: [311, 279], logprobs: [-0.31, -0.02], prompt_logprob: -2.4, faults: [], loops: [],
       lost: ""}
died:
  description: What became of the unit while it was asked; empty when it runs on.
  returned: with O(step=probe)
  type: str
  sample: ""
diagnosis:
  description: What happened, why and what to do; V(none) when nothing failed.
  returned: with O(step=wait) and O(step=probe)
  type: dict
  sample: {id: moe_trtllm_sm100, what: The MoE backend has no kernel for SM 12.0}
free:
  description: Whether the GPUs are free after the stop.
  returned: with O(step=stop)
  type: bool
  sample: true
held:
  description: Who holds their memory.
  returned: with O(step=stop)
  type: str
  sample: ""
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _diagnose,
    _gate,
    _gate_ordered,
    _gate_ready,
    _gate_right,
    _gate_run,
    _matrix_probe,
    _matrix_unit,
    _service,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def context_of(module: AnsibleModule, run: _service.Run, places: _service.Places) -> _gate.Context:
    context = _gate_run.context_of(run, module.params["instance"], places, _gate_run.read_api_key(places))
    context.settings["request_timeout"] = module.params["request_timeout"]
    context.invocation_id = module.params["invocation_id"]
    return context


def look(run: _service.Run, places: _service.Places) -> dict[str, t.Any]:
    state = _service.unit_states(run, [places.unit])[places.unit]
    return {
        "running": state["active"] in ("active", "activating"),
        "trial": _matrix_unit.left(places),
        "release": _service.linked_release(places),
    }


def wait(module: AnsibleModule, run: _service.Run, places: _service.Places) -> dict[str, t.Any]:
    context = context_of(module, run, places)
    seen = _gate_ready.wait(context, module.params["seconds"], context.invocation_id, module.params["seconds"])
    failed = seen.state == "failed"
    found = _diagnose.of_unit(run, places.unit, seen.invocation_id, seen.evidence) if failed else None
    return {"state": seen.state, "words": seen.words, "invocation_id": seen.invocation_id, "diagnosis": found}


def probe(module: AnsibleModule, run: _service.Run, places: _service.Places) -> dict[str, t.Any]:
    options = module.params
    context = context_of(module, run, places)
    result: dict[str, t.Any] = {"answers": [], "checks": []}
    if options["part"] == "gate":
        # Burst and long prompt are asked below, with prompts that are the same for every combination.
        sized = (_gate_right.right_long, _gate_right.right_burst)
        right = [check for check in _gate_right.CHECKS if check not in sized]
        checks = _gate.run_checks(context, [*_gate_ready.CHECKS, *right, *_gate_ordered.CHECKS])
        result["checks"] = [check.as_dict() for check in checks]
    else:
        info = _gate_ordered.fetch_info(context) or {}
        lengths = _matrix_probe.lengths_for(info, options["lengths"] or _matrix_probe.LENGTHS)
        ids = options["token_ids"] or _matrix_probe.token_ids(context, max(lengths, default=512) + 1024)
        result["token_ids"] = ids
        if options["part"] == "lengths":
            result["answers"] = _matrix_probe.by_length(context, ids, lengths)
        elif options["part"] == "burst":
            result["answers"] = _matrix_probe.burst(context, ids, options["concurrent"])
        else:
            result["answers"] = _matrix_probe.long_prompt(context, ids, options["long_tokens"])
    result["died"] = _matrix_probe.survived(context)
    result["diagnosis"] = _diagnose.of_unit(run, places.unit, context.invocation_id) if result["died"] else None
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {
                "type": "str",
                "choices": ["look", "start", "wait", "probe", "stop", "restore"],
                "required": True,
            },
            "instance": {"type": "dict", "required": True},
            "root": {"type": "path", "default": "/opt/sglang"},
            "words": {"type": "list", "elements": "str"},
            "env": {"type": "dict", "default": {}},
            "invocation_id": {"type": "str", "default": ""},
            "seconds": {"type": "float", "default": 5.0},
            "request_timeout": {"type": "float", "default": 120.0},
            "part": {"type": "str", "choices": ["gate", "lengths", "burst", "long"], "default": "gate"},
            "lengths": {"type": "list", "elements": "int"},
            "concurrent": {"type": "int", "default": 64},
            "long_tokens": {"type": "int", "default": 40000, "no_log": False},
            "token_ids": {"type": "list", "elements": "int", "no_log": False},
            "running": {"type": "bool", "default": True},
        },
        required_if=[("step", "start", ["words"])],
        supports_check_mode=True,
    )
    options = module.params
    run = _service.runner(module)
    places = _service.Places(options["instance"]["name"], root=options["root"])
    result: dict[str, t.Any] = {"changed": False}
    try:
        if options["step"] == "look":
            result.update(look(run, places))
        elif options["step"] == "wait":
            result.update(wait(module, run, places))
        elif options["step"] == "probe":
            result.update(probe(module, run, places))
        elif module.check_mode:
            result["changed"] = options["step"] != "restore" or look(run, places)["trial"]
        elif options["step"] == "start":
            result.update(changed=True, invocation_id=_matrix_unit.start(run, places, options["words"], options["env"]))
        elif options["step"] == "stop":
            result.update(changed=True, **_matrix_unit.stop(run, places, options["instance"].get("gpus", "all")))
        else:
            result["changed"] = _matrix_unit.restore(run, places, options["running"])
    except SglangError as exc:
        module.fail_json(msg=str(exc), kind=exc.kind)
    module.exit_json(**result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_gate
short_description: Prove that an SGLang instance is ready, computes right, is as ordered and has its room
version_added: "1.0.0"
description:
  - Collects evidence from the running server and compares it with what was asked. A 200 from C(/health) is no proof,
    since a server whose every layer yields NaN answers 200.
  - RV(passed) says the outcome. The module fails only when it cannot ask at all, so that a role can put the last good
    release back and report both results.
  - While it waits for the server the action plugin of the same name shows on the screen what the server does, read from
    the log of this very start (InvocationID). When the unit fails, it comes back at once with a diagnosis.
  - The API key is read on the host from C(/etc/sglang/NAME.api_key) and never leaves it.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode nothing is recorded, and it does not wait.]
  diff_mode:
    support: none
  idempotent:
    support: full
    details: [Receipts never count as a change.]
requirements:
  - requests on the host (python3-requests, installed by the role gpu_host)
options:
  instance:
    description: An entry of C(sglang_resolved.instances), as M(blackwell.sglang.sglang_resolve) gives it.
    type: dict
    required: true
  quick:
    description:
      - Only the cheap part, for a run that changed nothing. Ready, log-probabilities, as ordered, need.
      - The proof of the KV cache uses the receipt of an earlier gate of this start together with fresh arithmetic.
    type: bool
    default: false
  record:
    description: Whether C(/var/lib/sglang/NAME/proof.json) is written.
    type: bool
    default: true
  good:
    description:
      - Whether a passed gate records release, unit file and environment as good, and ends the pending deployment.
    type: bool
    default: false
  deployment:
    description:
      - The deployment that this gate ends, by RV(blackwell.sglang.sglang_instance_link#module:deployment).
      - The module fails when the host was booted or another run deployed since.
    type: str
    default: ""
  ready_timeout:
    description:
      - Seconds to wait for the server, whatever its caches are.
      - Without it, C(gate.ready_timeout) of the instance (1800) for a cold start. A warm one, whose release was proved
        before with these arguments and has its JIT caches, has C(gate.ready_timeout_warm) (900, or half of
        C(gate.ready_timeout) if that is more).
    type: float
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
  invocation_id:
    description: The start that must be proved. The action plugin sets it while it waits.
    type: str
    default: ""
  waited:
    description: Seconds waited so far. The action plugin sets it.
    type: float
    default: 0
  slice:
    description: Come back after so many seconds when the server is not ready yet. The action plugin sets it.
    type: float
    default: 0
seealso:
  - module: blackwell.sglang.kv_cache_assert
  - module: blackwell.sglang.sglang_diagnose
"""

EXAMPLES = r"""
- name: Know what the inventory asks for
  blackwell.sglang.sglang_resolve:

- name: Prove each started instance
  blackwell.sglang.sglang_gate:
    instance: "{{ item }}"
  loop: "{{ sglang_resolved.instances | selectattr('state', 'equalto', 'started') }}"
  loop_control:
    label: "{{ item.name }}"
  register: sglang_gates
"""

RETURN = r"""
passed:
  description: Whether something was judged and nothing failed.
  returned: always
  type: bool
  sample: false
checks:
  description: The checks in the order in which they were asked. C(passed) is null where nothing could be judged.
  returned: always
  type: list
  elements: dict
  sample:
    - id: right.logprobs
      passed: false
      expected: a finite number for each token
      seen: "16 of 16 log-probabilities are null, not numbers: the model computes NaN"
      evidence: ["text '!!!!!!!!!!!!!!!!', output ids [0, 0, 0, 0, 0, 0, 0, 0]"]
      seconds: 1.962
proof:
  description: The receipt, as proof.json keeps it.
  returned: always
  type: dict
  sample:
    {instance: qwen, unit: sglang-qwen.service, invocation_id: 7f1d0c9b5b7e4e0f8d4d2c5a4d1c9a10, passed: false,
     quick: false, at: "2026-11-29T18:04:02Z", by: run, engine_version: 0.5.12.post1}
diagnosis:
  description: What happened, why and what to do, when it did not pass; see M(blackwell.sglang.sglang_diagnose).
  returned: always
  type: dict
  sample: {id: gate_nan, what: The server answers 200 and computes NaN}
waiting:
  description: Whether the server is not ready yet and there is time left. Only with O(slice).
  returned: always
  type: bool
  sample: false
words:
  description: What the server did when it was looked at last.
  returned: always
  type: str
  sample: "port closed; loading shard 3 of 46 (limit 900 s: warm start, the JIT caches of r1 are there)"
invocation_id:
  description: The start that was looked at.
  returned: always
  type: str
  sample: 7f1d0c9b5b7e4e0f8d4d2c5a4d1c9a10
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _gate_limit, _gate_run, _http, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "instance": {"type": "dict", "required": True},
            "quick": {"type": "bool", "default": False},
            "record": {"type": "bool", "default": True},
            "good": {"type": "bool", "default": False},
            "deployment": {"type": "str", "default": ""},
            "ready_timeout": {"type": "float"},
            "root": {"type": "path", "default": "/opt/sglang"},
            "invocation_id": {"type": "str", "default": ""},
            "waited": {"type": "float", "default": 0},
            "slice": {"type": "float", "default": 0},
        },
        supports_check_mode=True,
    )
    params = module.params
    if module.check_mode and _http.REQUESTS_IMPORT_ERROR:
        module.warn(
            "The Python library requests is missing on this host, so check mode could not ask the server anything."
        )
        module.exit_json(
            changed=False,
            passed=False,
            checks=[],
            proof={},
            diagnosis=None,
            waiting=False,
            words="not asked",
            invocation_id="",
        )
    places = _service.Places(params["instance"].get("name") or "", root=params["root"])
    try:
        context = _gate_run.context_of(
            _service.runner(module), params["instance"], places, _gate_run.read_api_key(places)
        )
        if params["ready_timeout"] is not None:
            context.settings.update(_gate_limit.given(params["ready_timeout"]))
        result = _gate_run.run_gate(
            context,
            quick=params["quick"] or module.check_mode,
            invocation_id=params["invocation_id"],
            waited=params["waited"],
            slice_seconds=params["slice"],
            record=params["record"] and not module.check_mode,
            good=params["good"] and not module.check_mode,
            deployment=params["deployment"],
        )
    except SglangError as exc:
        module.fail_json(msg=str(exc), **exc.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

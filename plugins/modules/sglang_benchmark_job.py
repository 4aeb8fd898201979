#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_benchmark_job
short_description: One level of a throughput sweep, run by the engine's own benchmark client
version_added: "1.0.0"
description:
  - Starts the benchmark client of a release in a session of its own and looks at it later, in calls that are short
    however long the client runs.
  - The action of M(blackwell.sglang.sglang_benchmark) and of M(blackwell.sglang.backend_matrix) use it; it is of little
    use by itself.
  - The API key is read on the host from C(/etc/sglang/NAME.api_key), goes into the client's environment and never
    leaves the host.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode V(start) and V(remove) do nothing.]
  diff_mode:
    support: none
  idempotent:
    support: none
options:
  step:
    description:
      - V(probe) reads what the running server can hold and which client the release has.
      - V(start) begins a level, V(look) waits for it, V(remove) ends it and deletes its folder.
    type: str
    choices: [probe, start, look, remove]
    required: true
  instance:
    description: An entry of C(sglang_resolved.instances). Needed by V(probe) and V(start).
    type: dict
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
  python:
    description: Interpreter that has the client; without it the one of the instance's release.
    type: path
  user:
    description: User that the client runs as, when the module runs as root.
    type: str
    default: sglang
  level:
    description: The level, as the plan of the sweep gives it. Needed by V(start) and V(look).
    type: dict
  shape:
    description: Lengths in tokens and kind of the prompts, C({input_len, output_len, dataset}). Needed by V(start).
    type: dict
  text:
    description: File on the host with prose for the prompts; without it the help topics of Python.
    type: path
    default: ""
  seed:
    description: Seed of the client.
    type: int
    default: 1
  instant:
    description: Whether the client is measured against a server that answers at once.
    type: bool
    default: false
  folder:
    description: Folder of the job. Needed by V(look) and V(remove).
    type: path
  seconds:
    description: Longest wait of V(look), in seconds.
    type: float
    default: 5
seealso:
  - module: blackwell.sglang.sglang_benchmark
"""

EXAMPLES = r"""
- name: What can the server hold at once
  blackwell.sglang.sglang_benchmark_job:
    step: probe
    instance: "{{ sglang_resolved.instances | first }}"
  register: sglang_limits

- name: Show it
  ansible.builtin.debug:
    msg: "{{ sglang_limits.limits.kv_tokens }} tokens, {{ sglang_limits.limits.requests }} requests at once"
"""

RETURN = r"""
limits:
  description: What the server can hold at once.
  returned: with O(step=probe)
  type: dict
  sample: {kv_tokens: 1251491, requests: 59, slots: 179, request_cause: state slots, context: 262138}
engine_version:
  description: Version that the server tells.
  returned: with O(step=probe)
  type: str
  sample: 0.5.12.post1
client:
  description: Module of the benchmark client.
  returned: with O(step=probe) and O(step=start)
  type: str
  sample: sglang.bench_serving
folder:
  description: Folder of the job.
  returned: with O(step=start)
  type: str
  sample: /var/tmp/sglang-bench-8f3k2j1a
text_digest:
  description: First digits of the SHA-256 of the text that the prompts were cut from; empty for random tokens.
  returned: with O(step=start)
  type: str
  sample: 5b1f0c7a92de
finished:
  description: Whether the client has ended.
  returned: with O(step=look)
  type: bool
  sample: true
progress:
  description: Requests done and in all, as the client's progress bar shows them.
  returned: with O(step=look)
  type: list
  elements: int
  sample: [48, 80]
row:
  description: The line of the sweep's table; V(none) while it runs and where the client failed.
  returned: with O(step=look)
  type: dict
  sample:
    {concurrency: 16, prompts: 80, ok: 80, errors: 0, wall_s: 53.991, input_tokens: 1806, output_tokens: 3731,
     tok_s: 69.1, request_tok_s: 4.32, ttft: {mean: 5171.95, median: 686.709, p99: 26988.146}, label: compute}
error:
  description: Why the client failed, empty otherwise.
  returned: with O(step=look)
  type: str
  sample: ""
"""


from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _bench_client,
    _bench_job,
    _bench_plan,
    _gate,
    _gate_run,
    _service,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def python_of(module: AnsibleModule, places: _service.Places) -> str:
    return str(module.params["python"] or places.link / "venv" / "bin" / "python")


def probe(module: AnsibleModule, places: _service.Places) -> dict[str, object]:
    client = _bench_client.find(python_of(module, places))
    http = _gate.client_of(module.params["instance"], _gate_run.read_api_key(places), 30.0)
    reply = http.get("/server_info")
    if not reply.ok:
        reply = http.get("/get_server_info")
    if not reply.ok or not isinstance(reply.json, dict):
        raise SglangError(
            f"/server_info answers {reply.status}", where=http.base_url, expected="what the server can hold"
        )
    limits = _bench_plan.limits_of(reply.json)
    return {"limits": limits.as_dict(), "engine_version": reply.json.get("version"), "client": client.module}


def start(module: AnsibleModule, places: _service.Places) -> dict[str, object]:
    instance = module.params["instance"]
    key = _gate_run.read_api_key(places)
    shape = _bench_plan.Shape(**module.params["shape"])
    return _bench_job.start(
        lambda words, env: module.run_command(words, environ_update=env),
        python=python_of(module, places),
        base_url=_gate.client_of(instance, None, 5.0).base_url,
        model_path=instance["model_path"],
        tokenizer=str(instance["args"].get("tokenizer_path") or ""),
        level=_bench_plan.Level(**module.params["level"]),
        shape=shape,
        text=module.params["text"],
        seed=module.params["seed"],
        user=module.params["user"],
        api_key=key or "",
        instant=module.params["instant"],
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["probe", "start", "look", "remove"], "required": True},
            "instance": {"type": "dict"},
            "root": {"type": "path", "default": "/opt/sglang"},
            "python": {"type": "path"},
            "user": {"type": "str", "default": "sglang"},
            "level": {"type": "dict"},
            "shape": {"type": "dict"},
            "text": {"type": "path", "default": ""},
            "seed": {"type": "int", "default": 1},
            "instant": {"type": "bool", "default": False},
            "folder": {"type": "path"},
            "seconds": {"type": "float", "default": 5.0},
        },
        required_if=[
            ("step", "probe", ["instance"]),
            ("step", "start", ["instance", "level", "shape"]),
            ("step", "look", ["folder", "level"]),
            ("step", "remove", ["folder"]),
        ],
        supports_check_mode=True,
    )
    options = module.params
    places = _service.Places((options["instance"] or {}).get("name", "none"), root=options["root"])
    try:
        if options["step"] == "probe":
            module.exit_json(changed=False, **probe(module, places))
        if options["step"] == "look":
            level = _bench_plan.Level(**options["level"])
            module.exit_json(changed=False, **_bench_job.look(options["folder"], level, options["seconds"]))
        if module.check_mode:
            module.exit_json(changed=False, msg="not done in check mode")
        if options["step"] == "start":
            module.exit_json(changed=False, **start(module, places))
        _bench_job.remove(options["folder"])
    except SglangError as exc:
        module.fail_json(msg=str(exc), kind=exc.kind)
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()

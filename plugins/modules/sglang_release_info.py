#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_release_info
short_description: Read the releases of a host and what it offers for building one, in one call
version_added: "1.0.0"
description:
  - Reads releases and their states, the links of instances, wheels built here, the run lock, jobs that still run,
    interpreters, uv, the CUDA toolkit, cores, memory limit and free disk.
  - Says for each stack which release serves it and what is left to do, so that a run that changes nothing is this call.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  root:
    description: The collection's root on the host.
    type: path
    default: /opt/sglang
  stacks:
    description:
      - Resolved stacks by name, as C(sglang_resolved.stacks) has them; C(digest), C(python) and C(kernel) are read.
    type: dict
    default: {}
  python:
    description:
      - The interpreter to take, as a version or a path. Without it the newest of the host's own that C(python) of a
        stack allows is taken, else one under C(ROOT/python), which uv fetched or a wheelhouse brought.
    type: str
    default: ""
  used:
    description: Instances and the name of the stack that each uses, for RV(advice).
    type: dict
    default: {}
  asked:
    description: Instances that name their stack themselves; the stack of the others is a default.
    type: list
    elements: str
    default: []
  cuda_homes:
    description: Folders of CUDA toolkits to look at before the usual places.
    type: list
    elements: path
    default: []
seealso:
  - module: blackwell.sglang.sglang_release
  - module: blackwell.sglang.python_stack_plan
"""

EXAMPLES = r"""
- name: Read releases
  blackwell.sglang.sglang_release_info:
    stacks: "{{ sglang_resolved.stacks }}"
  register: probe

- name: Tell what is left to do
  ansible.builtin.debug:
    msg: "{{ probe.stacks | dict2items | map(attribute='value.todo') | list }}"
"""

RETURN = r"""
releases:
  description: Releases, oldest first, as their release.json says, with C(path); state C(broken) without a readable one.
  returned: success
  type: list
  elements: dict
  sample:
    - id: 20261129T194500Z-1f0c9d2e
      path: /opt/sglang/releases/20261129T194500Z-1f0c9d2e
      state: verified
      stack: nightly
      stack_digest: 4b1a2c3d4e5f
links:
  description: Instance to the id of the release that its link names.
  returned: success
  type: dict
  sample: {qwen: 20261129T194500Z-1f0c9d2e}
good:
  description: Ids of releases that any instance's good.json names.
  returned: success
  type: list
  elements: str
  sample: [20261129T194500Z-1f0c9d2e]
stacks:
  description: >-
    For each stack its C(digest), the C(release) that serves it or is being built, the C(previous) verified one, the
    C(interpreter) to build with, C(todo), a list out of C(install), C(kernel), C(verify), and C(build), whether the
    kernel has to be built from source and why.
  returned: success
  type: dict
  sample:
    stable:
      digest: 4b1a2c3d4e5f
      release: null
      previous: null
      interpreter: {version: "3.12", path: /usr/bin/python3.12, managed: false, headers: true}
      todo: [install, verify]
      build: {needed: false, why: sglang-kernel 0.4.10 comes as a wheel that holds SM120 code}
advice:
  description: What would be the better choice, in sentences; a nightly that nothing asks for is one.
  returned: success
  type: list
  elements: str
  sample: []
wheels:
  description: Kernel wheels built here, each with the C(stamp) that it was built for.
  returned: success
  type: list
  elements: dict
  sample:
    - {stamp: 3f2a9c81d0e4, file: /opt/sglang/wheels/3f2a9c81d0e4/sglang_kernel-0.4.2.post2-cp310-abi3-linux_x86_64.whl}
lock:
  description: Owner of the run lock, or null; C(stale) tells whether it may be taken.
  returned: success
  type: dict
  sample: null
jobs:
  description: Jobs of the collection that run on the host now.
  returned: success
  type: list
  elements: str
  sample: [kernel-3f2a9c81d0e4]
interpreters:
  description: Interpreters of the host and those that uv manages.
  returned: success
  type: list
  elements: dict
  sample: [{version: "3.11", path: /usr/bin/python3.11, managed: false, headers: true}]
uv:
  description: The uv under the root, or null.
  returned: success
  type: dict
  sample: {path: /opt/sglang/uv/bin/uv, version: 0.13.9}
toolkit:
  description: The CUDA toolkit, or null without nvcc.
  returned: success
  type: dict
  sample: {home: /usr/local/cuda, nvcc: /usr/local/cuda/bin/nvcc, version: "13.0"}
ccache:
  description: The ccache of the host, which a build uses; null without one.
  returned: success
  type: str
  sample: /usr/bin/ccache
cores:
  description: Processors that may be used.
  returned: success
  type: int
  sample: 32
memory_bytes:
  description: Memory that this host or container may use, cgroup limits included.
  returned: success
  type: int
  sample: 137438953472
build_jobs:
  description: Compiler processes that fit, at 5 GiB each.
  returned: success
  type: int
  sample: 16
disk_free_bytes:
  description: Free bytes where the root lies or will lie.
  returned: success
  type: int
  sample: 512000000000
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_probe


def main() -> None:
    """Read everything and return it."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/opt/sglang"},
            "stacks": {"type": "dict", "default": {}},
            "python": {"type": "str", "default": ""},
            "used": {"type": "dict", "default": {}},
            "asked": {"type": "list", "elements": "str", "default": []},
            "cuda_homes": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )

    def run(command: list[str]) -> tuple[int, str, str]:
        result: tuple[int, str, str] = module.run_command(command, handle_exceptions=False)
        return result

    params = module.params
    words = (params["root"], params["stacks"], params["cuda_homes"])
    found = _stack_probe.probe(run, *words, used=params["used"], asked=params["asked"], python=params["python"])
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()

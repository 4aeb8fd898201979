#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wheel_index_info
short_description: Ask wheel indexes which versions there are for an interpreter, a platform and a CUDA build
version_added: "1.0.0"
description:
  - Reads simple indexes, as pages (PEP 503) or as JSON (PEP 691), over HTTP or from a folder, and tells a project that
    is not there from something that is no index at all, such as the 404 page of a web host.
  - Says which versions fit an interpreter, a platform and a CUDA build tag, leaving out what was withdrawn (PEP 592).
  - Answers whether there is a FlashInfer build for a given torch and, if not, which decoupled parts there are.
  - Credentials in the URL of an index are sent to its own host and are never returned or logged.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
requirements:
  - requests
options:
  indexes:
    description: Indexes by name, each a URL or a folder; C(default) is asked for what O(projects) pins to no other.
    type: dict
    default: {default: https://pypi.org/simple}
  projects:
    description: Projects to ask for, with the name of the index for each.
    type: dict
    default: {}
  python:
    description: Version of the interpreter that will be used.
    type: str
    default: "3.12"
  machine:
    description: The machine's architecture as wheels name it; the host's own if not given.
    type: str
  glibc:
    description: The C library's version as wheels name it; the host's own if not given.
    type: str
  cuda:
    description: Build tag of CUDA, such as V(cu130). Versions with another build tag are left out.
    type: str
  torch:
    description: The torch that will be installed. If given, the question about FlashInfer is answered.
    type: str
  flashinfer_version:
    description: The version of FlashInfer that the question is about; the newest usable one if not given.
    type: str
  timeout:
    description: Seconds that an index may stay silent.
    type: float
    default: 30
seealso:
  - module: blackwell.sglang.python_stack_plan
"""

EXAMPLES = r"""
- name: Is there a FlashInfer build for this torch nightly?
  blackwell.sglang.wheel_index_info:
    indexes:
      default: https://pypi.org/simple
      flashinfer: https://flashinfer.ai/whl/cu130
    torch: 2.12.0.dev20260307+cu130
    cuda: cu130
    python: "3.12"
  register: index

- name: Show the answer
  ansible.builtin.debug:
    var: index.flashinfer.answer

- name: Which torch nightlies are left?
  blackwell.sglang.wheel_index_info:
    indexes:
      pytorch: https://download.pytorch.org/whl/nightly/cu130
    projects:
      torch: pytorch
    cuda: cu130
"""

RETURN = r"""
projects:
  description:
    - By name what its index says. C(status) is C(found), C(absent), C(not_index), C(forbidden) or C(unreachable), and
      C(why) says it in words. C(versions) are those that fit, oldest first; C(other_versions) those that do not fit or
      were withdrawn; C(files) are the wheels of the newest that fits.
  returned: success
  type: dict
  sample:
    torch:
      status: found
      why: ""
      format: html
      url: https://download.pytorch.org/whl/nightly/cu130/torch/
      versions: [2.12.0.dev20260307+cu130]
      other_versions: [2.11.0.dev20260101+cu130]
      files:
        - name: torch-2.12.0.dev20260307+cu130-cp312-cp312-manylinux_2_28_x86_64.whl
          url: https://download.pytorch.org/whl/nightly/cu130/torch-2.12.0.dev20260307%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl
          hashes: {sha256: 0c1d}
          yanked: null
          requires_python: ">=3.10"
          metadata: true
          metadata_hashes: {sha256: 9e8f}
          size: null
flashinfer:
  description:
    - The answer for O(torch). C(build) is a version that was built for it, C(decoupled) the parts that do not depend on
      torch's ABI, C(usable) whether FlashInfer can be used with it, and C(answer) says it in a sentence.
  returned: when O(torch) is given
  type: dict
  sample:
    torch: 2.12.0.dev20260307+cu130
    build: null
    version: 0.6.11.post1
    decoupled:
      flashinfer-python: 0.6.11.post1
      flashinfer-jit-cache: 0.6.11.post1+cu130
      flashinfer-cubin: 0.6.11.post1
    usable: true
    torch_admitted: true
    versions: [0.6.11.post1]
    answer: >-
      No FlashInfer was built for torch 2.12.0.dev20260307+cu130, and none needs to be: flashinfer-python 0.6.11.post1,
      flashinfer-jit-cache 0.6.11.post1+cu130, flashinfer-cubin 0.6.11.post1 do not depend on torch's ABI.
"""

import os
import platform
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _wheel_index, _wheel_match
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

FLASHINFER = {"flashinfer-python": "default", "flashinfer-cubin": "default", "flashinfer-jit-cache": "flashinfer"}


def target(params: t.Mapping[str, t.Any]) -> _wheel_match.Target:
    """The host that files shall fit: as asked, else this one."""
    glibc = params["glibc"] or platform.libc_ver()[1] or "2.28"
    major, minor = (int(part) for part in glibc.split(".")[:2])
    machine = params["machine"] or os.uname().machine
    return _wheel_match.Target(params["python"], machine, (major, minor), params["cuda"])


def describe(project: _wheel_index.Project, host: _wheel_match.Target) -> dict[str, t.Any]:
    """What is returned about one project."""
    fitting = _wheel_match.usable(project, host)
    names = (_wheel_match.read_name(entry.name) for entry in project.files)
    others = {wheel.version for wheel in names if wheel is not None} - set(fitting)
    newest = next(reversed(fitting.values()), [])
    return {
        "status": project.status,
        "why": project.why,
        "format": project.format,
        "url": project.url,
        "versions": list(fitting),
        "other_versions": sorted(others),
        "files": [entry.as_dict() for entry in newest],
    }


def torch_requirement(
    project: _wheel_index.Project, host: _wheel_match.Target, wanted: str | None, index: str, timeout: float
) -> str | None:
    """What FlashInfer's own metadata asks of torch; None where the index does not offer it."""
    fitting = _wheel_match.usable(project, host)
    files = fitting.get(wanted or next(reversed(fitting), ""), [])
    found = _wheel_index.metadata(files[0], index, timeout) if files else None
    return _wheel_match.requires(found, "torch")


def main() -> None:
    """Ask, compare, answer."""
    module = AnsibleModule(
        argument_spec={
            "indexes": {"type": "dict", "default": {"default": "https://pypi.org/simple"}},
            "projects": {"type": "dict", "default": {}},
            "python": {"type": "str", "default": "3.12"},
            "machine": {"type": "str"},
            "glibc": {"type": "str"},
            "cuda": {"type": "str"},
            "torch": {"type": "str"},
            "flashinfer_version": {"type": "str"},
            "timeout": {"type": "float", "default": 30},
        },
        supports_check_mode=True,
        # The arguments would go to the system's log, and they may hold the URL of an index with a password in it.
        no_log=True,
    )
    params, indexes = module.params, module.params["indexes"]
    for url in indexes.values():
        module.no_log_values.update(_wheel_index.secrets(str(url)))
    try:
        host = target(params)
    except ValueError:
        module.fail_json(msg=f"glibc is {params['glibc']!r}; write two numbers such as '2.28'")
    wanted = {name: index or "default" for name, index in params["projects"].items()}
    if params["torch"]:
        wanted = {**{name: index if index in indexes else "default" for name, index in FLASHINFER.items()}, **wanted}
    unknown = sorted({index for index in wanted.values() if index not in indexes})
    if unknown:
        module.fail_json(msg=f"indexes does not name {', '.join(unknown)}; it has {', '.join(sorted(indexes))}")
    projects = {
        name: _wheel_index.read_project(str(indexes[index]), name, params["timeout"]) for name, index in wanted.items()
    }
    result: dict[str, t.Any] = {"projects": {name: describe(project, host) for name, project in projects.items()}}
    if params["torch"]:
        python, version = projects["flashinfer-python"], params["flashinfer_version"]
        try:
            index = str(indexes[wanted["flashinfer-python"]])
            asks = torch_requirement(python, host, version, index, params["timeout"])
        except SglangError as error:
            module.warn(str(error))
            asks = None
        result["flashinfer"] = _wheel_match.flashinfer(projects, host, params["torch"], asks, version)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

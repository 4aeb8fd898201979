#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_stack_plan
short_description: Resolve a stack without installing it, and refuse what the resolver would do in silence
version_added: "1.0.0"
description:
  - Asks uv for the whole resolution, compares it with the environment in use, and judges it.
  - Resolvers exit 0 when they take torch from a nightly back to a release. This module refuses that, and a torch that
    leaves its CUDA build, FlashInfer parts of unequal version, two distributions that own the same files, libraries of
    more than one CUDA major, unasked pre-releases, a package from an index it is not pinned to, and versions known to
    be bad on SM120. Each refusal names the chain of requirements and what to write.
  - It installs nothing and changes nothing on the host, but fills uv's cache under O(root).
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [No lock is kept.]
  diff_mode:
    support: full
    details: [Shows the lock that is kept.]
  idempotent:
    support: full
options:
  stack:
    description: A resolved stack, with C(requirements), C(overrides), C(indexes), C(kernel) and C(exceptions).
    type: dict
    required: true
  name:
    description: The stack's name, for messages.
    type: str
    default: stack
  python:
    description: The interpreter that will be used.
    type: path
    required: true
  uv:
    description: The uv to ask.
    type: path
    default: /opt/sglang/uv/bin/uv
  root:
    description: The collection's root on the host; uv's cache lies there.
    type: path
    default: /opt/sglang
  current:
    description: An environment, or a folder of packages, that the plan is compared with. None on a new host.
    type: path
  lock:
    description: A lock of an earlier resolution. If given, uv is not asked; the lock is judged as it is.
    type: str
  keep:
    description:
      - File of the controller that a lock is written to which was resolved just now. Its folder is made where it is not
        there. Nothing is written in check mode, of a plan that is refused, or where O(lock) was given.
    type: path
  enforce:
    description: Whether a refusal fails the task; if not, it is only returned.
    type: bool
    default: true
seealso:
  - module: blackwell.sglang.sglang_release
"""

EXAMPLES = r"""
- name: Plan the stack nightly
  blackwell.sglang.python_stack_plan:
    name: nightly
    stack: "{{ sglang_resolved.stacks.nightly }}"
    python: /usr/bin/python3.12
    current: /opt/sglang/releases/20261129T194500Z-1f0c9d2e/venv
  register: plan

- name: Show what would change
  ansible.builtin.debug:
    var: plan.table
"""

RETURN = r"""
packages:
  description: The resolved packages with C(version), C(index), C(hashes) and C(via), who requires them.
  returned: when the resolution succeeded
  type: list
  elements: dict
  sample:
    - name: torch
      version: 2.12.0.dev20260307+cu130
      index: https://download.pytorch.org/whl/nightly/cu130
      hashes: ["sha256:0c1d"]
      via: [sglang-stack, sglang]
changes:
  description:
    - What would be different from O(current); C(action) is add, remove, upgrade, downgrade or rebuild. C(index) is the
      URL that the new version comes from, C(source) the name of that index in the stack.
  returned: when the resolution succeeded
  type: list
  elements: dict
  sample:
    - name: torch
      before: 2.12.0.dev20260307+cu130
      after: 2.9.1
      action: downgrade
      index: https://pypi.org/simple
      source: default
      hashes: ["sha256:0c1d"]
table:
  description: The changes as lines of text.
  returned: when the resolution succeeded
  type: list
  elements: str
  sample: ["downgrade  torch  2.12.0.dev20260307+cu130 -> 2.9.1  [default]"]
findings:
  description: What the guard says; C(severity) is refuse or warn, C(lifted) the reason of an exception.
  returned: when the resolution succeeded
  type: list
  elements: dict
  sample:
    - id: downgrade:torch
      what: torch would go down from 2.12.0.dev20260307+cu130 to 2.9.1
      chain: [sglang-stack, sglang 0.5.9, torch 2.9.1]
      fix: pin torch in the stack's requirements and name it in its overrides
      severity: refuse
      lifted: null
refused:
  description: Whether a refusal stands that nothing lifts.
  returned: when the resolution succeeded
  type: bool
  sample: true
lock:
  description: The lock, in pip's requirements format with hashes.
  returned: when the resolution succeeded
  type: str
  sample: "torch==2.12.0.dev20260307+cu130 --hash=sha256:0c1d"
lock_digest:
  description: Digest of the lock's packages and hashes.
  returned: when the resolution succeeded
  type: str
  sample: 1f0c9d2e77aa
resolved:
  description: Whether uv was asked.
  returned: when the resolution succeeded
  type: bool
  sample: true
"""

import os
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _stack_guard,
    _stack_plan,
    _stack_release,
    _stack_uv,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def resolve(module: AnsibleModule) -> str:
    """The lock: the given one, or uv's answer."""
    given: str | None = module.params["lock"]
    if given:
        return given
    stack = module.params["stack"]
    rc, version, err = module.run_command(
        [module.params["python"], "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    )
    if rc != 0:
        raise SglangError(f"the interpreter does not run: {err.strip()}", where=module.params["python"])
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        machine = os.uname().machine
        with open(f"{folder}/pyproject.toml", "w", encoding="utf-8") as handle:
            handle.write(_stack_plan.project_file(stack, version.strip(), machine))
        try:
            exported, uv_lock = _stack_uv.resolve(
                module.run_command,
                module.params["uv"],
                folder,
                python=module.params["python"],
                root=module.params["root"],
            )
        except SglangError as error:
            raise _stack_uv.explain(error.what, stack, module.params["name"]) from error
    return _stack_plan.write_lock(exported, uv_lock, machine)


def described(
    changes: t.Iterable[_stack_plan.Change], packages: t.Mapping[str, _stack_plan.Package], indexes: dict[str, str]
) -> list[dict[str, t.Any]]:
    """The changes with the index and the hashes that the new versions come by."""
    names = {_stack_uv.hide_credentials(url).rstrip("/"): name for name, url in indexes.items()}
    result = []
    for change in changes:
        package = packages.get(change.name)
        index = package.index if package else None
        result.append(
            {
                **vars(change),
                "index": index,
                "source": names.get(index.rstrip("/"), "default") if index else None,
                "hashes": package.hashes if package else [],
            }
        )
    return result


def table(changes: list[dict[str, t.Any]]) -> list[str]:
    """Lines that a person reads: what happens to which package, and from which index it comes."""
    width = max((len(change["name"]) for change in changes), default=0)
    lines = []
    for change in changes:
        versions = " -> ".join(filter(None, (change["before"], change["after"])))
        source = f"  [{change['source']}]" if change["source"] else ""
        lines.append(f"{change['action']:<10} {change['name']:<{width}} {versions}{source}")
    return lines


def main() -> None:
    """Resolve, compare, judge."""
    module = AnsibleModule(
        argument_spec={
            "stack": {"type": "dict", "required": True},
            "name": {"type": "str", "default": "stack"},
            "python": {"type": "path", "required": True},
            "uv": {"type": "path", "default": "/opt/sglang/uv/bin/uv"},
            "root": {"type": "path", "default": "/opt/sglang"},
            "current": {"type": "path"},
            "lock": {"type": "str"},
            "keep": {"type": "path"},  # the action plugin's
            "enforce": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    stack, current = module.params["stack"], module.params["current"]
    try:
        lock = _stack_uv.hide_credentials(resolve(module))
        packages = _stack_plan.read_lock(lock)
    except (SglangError, OSError) as error:
        module.fail_json(msg=str(error), kind=getattr(error, "kind", "os"))
    before: dict[str, str] = {}
    if current:
        before = _stack_plan.read_environment(current) or _stack_plan.read_environment(
            _stack_plan.site_packages(current)
        )
    changed = [change for change in _stack_plan.changes(before, packages) if change.action != "keep"]
    changes = described(changed, packages, stack.get("indexes") or {})
    findings = _stack_guard.judge(stack, packages, before)
    refusals = _stack_guard.refusals(findings)
    result: dict[str, t.Any] = {
        "packages": [package.as_dict() for package in packages.values()],
        "changes": changes,
        "table": table(changes),
        "findings": [finding.as_dict() for finding in findings],
        "refused": bool(refusals),
        "lock": lock,
        "lock_digest": _stack_release.lock_digest(lock),
        "resolved": not module.params["lock"],
    }
    for finding in findings:
        if finding.severity == "warn" or finding.lifted:
            module.warn(finding.text() + (f" Lifted: {finding.lifted}" if finding.lifted else ""))
    if refusals and module.params["enforce"]:
        lines = "\n".join(finding.text() for finding in refusals)
        module.fail_json(msg=f"The plan of stack {module.params['name']} is refused:\n{lines}", **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

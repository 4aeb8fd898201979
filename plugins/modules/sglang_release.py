#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_release
short_description: Create, describe, verify and prune releases, and hold the lock of a run
version_added: "1.0.0"
description:
  - A release is a folder under C(ROOT/releases) that nothing uses before it is verified and nothing changes afterwards.
  - Every change is one rename, so a killed run or a power cut leaves the state before or after it.
  - An action plugin of the same name runs it; it names the owner of the lock and tells a lock whose run is dead.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(state=building) creates a new release on every call; the role calls it only where no release of the stack is
        left to resume.
options:
  root:
    description: The collection's root on the host.
    type: path
    default: /opt/sglang
  state:
    description:
      - V(locked) and V(unlocked) take and give back the lock of a run.
      - V(building) creates a release with O(lock_text) and O(facts).
      - V(described) adds O(facts) to the release O(id), which must still be building.
      - V(verified) does the same and declares it usable; it never goes back.
      - V(absent) removes the release O(id) unless an instance's link names it.
      - V(pruned) removes old releases, never one that is linked or good.
    type: str
    required: true
    choices: [locked, unlocked, building, described, verified, absent, pruned]
  id:
    description: The release.
    type: str
  facts:
    description: Fields of release.json, such as C(stack), C(stack_digest), C(python), C(versions), C(kernel).
    type: dict
    default: {}
  lock_text:
    description: The lock of packages that the release is installed from.
    type: str
  keep:
    description: How many verified releases stay when O(state=pruned).
    type: int
    default: 3
  owner:
    description: Name and token of the run that takes the lock; the action plugin sets it.
    type: dict
    default: {}
  dead_token:
    description: Token of a lock whose run is known to be dead; the action plugin sets it.
    type: str
seealso:
  - module: blackwell.sglang.sglang_release_info
"""

EXAMPLES = r"""
- name: Take the lock
  blackwell.sglang.sglang_release:
    state: locked

- name: Begin a release
  blackwell.sglang.sglang_release:
    state: building
    lock_text: "{{ plan.lock }}"
    facts: {stack: nightly, stack_digest: 4b1a2c3d4e5f, python: "3.12"}
  register: begun

- name: Declare it verified
  blackwell.sglang.sglang_release:
    state: verified
    id: "{{ begun.release.id }}"
    facts: {versions: {torch: 2.12.0.dev20260307+cu130}}
"""

RETURN = r"""
release:
  description: The release after the call.
  returned: when O(state) is building, described or verified
  type: dict
  sample:
    id: 20261129T194500Z-1f0c9d2e
    path: /opt/sglang/releases/20261129T194500Z-1f0c9d2e
    state: building
    stack: nightly
    stack_digest: 4b1a2c3d4e5f
    created: "2026-11-29T19:45:00Z"
    lock_digest: 1f0c9d2e77aa
removed:
  description: Ids of removed releases.
  returned: when O(state) is absent or pruned
  type: list
  elements: str
  sample: [20261120T080000Z-aa10bb20]
lock:
  description: Owner of the lock, when another run holds it.
  returned: failure
  type: dict
  sample: {name: deploy@control, since: "2026-11-29T19:40:00Z"}
"""

import pathlib
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_host, _stack_lock, _stack_release
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def run_lock(module: AnsibleModule) -> dict[str, t.Any]:
    """Take or give back the lock; neither counts as a change, since it is gone when the run ends."""
    root, owner = module.params["root"], module.params["owner"]
    if module.check_mode:
        return {"changed": False}
    if module.params["state"] == "unlocked":
        _stack_lock.release(root, owner.get("token", ""))
        return {"changed": False}
    jobs = _stack_host.jobs(lambda command: module.run_command(command, handle_exceptions=False))
    _stack_lock.take(root, owner, jobs, module.params["dead_token"])
    return {"changed": False}


def building(module: AnsibleModule) -> dict[str, t.Any]:
    """Create a release."""
    root, facts = module.params["root"], module.params["facts"]
    if module.check_mode:
        return {"changed": True, "release": {**facts, "state": _stack_release.BUILDING, "id": "(new)"}}
    _stack_release.sweep(root)
    release = _stack_release.begin(root, facts, module.params["lock_text"])
    return {"changed": True, "release": release, "diff": {"before": {}, "after": release}}


def described(module: AnsibleModule) -> dict[str, t.Any]:
    """Add facts to a release, and declare it verified if that is asked for."""
    path = pathlib.Path(module.params["root"], "releases", module.params["id"])
    changes = dict(module.params["facts"])
    if module.params["state"] == "verified":
        before = _stack_release.read_release(path)
        changes["state"] = _stack_release.VERIFIED
        changes["verified_at"] = before.get("verified_at") or _stack_release.utc_now()
    if module.check_mode:
        return {"changed": True, "release": {**_stack_release.read_release(path), **changes}}
    before, after = _stack_release.update(path, changes)
    return {"changed": before != after, "release": after, "diff": {"before": before, "after": after}}


def removed(module: AnsibleModule) -> dict[str, t.Any]:
    """Remove one release, or the old ones."""
    root = module.params["root"]
    releases, links = _stack_release.read_releases(root), _stack_release.linked(root)
    if module.params["state"] == "absent":
        names = [release["id"] for release in releases if release["id"] == module.params["id"]]
    else:
        old = _stack_release.prunable(releases, links, _stack_release.good(), module.params["keep"])
        names = [release["id"] for release in old]
    for name in [] if module.check_mode else names:
        _stack_release.remove(root, name)
    diff = {"before": {"releases": names}, "after": {"releases": []}}
    return {"changed": bool(names), "removed": names, "diff": diff}


STATES: dict[str, t.Callable[[AnsibleModule], dict[str, t.Any]]] = {
    "locked": run_lock,
    "unlocked": run_lock,
    "building": building,
    "described": described,
    "verified": described,
    "absent": removed,
    "pruned": removed,
}


def main() -> None:
    """Do what the state asks for."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/opt/sglang"},
            "state": {"type": "str", "required": True, "choices": list(STATES)},
            "id": {"type": "str"},
            "facts": {"type": "dict", "default": {}},
            "lock_text": {"type": "str"},
            "keep": {"type": "int", "default": 3},
            "owner": {"type": "dict", "default": {}},
            "dead_token": {"type": "str", "no_log": False},
        },
        required_if=[
            ("state", "building", ["lock_text"]),
            ("state", "described", ["id"]),
            ("state", "verified", ["id"]),
            ("state", "absent", ["id"]),
        ],
        supports_check_mode=True,
    )
    try:
        result = STATES[module.params["state"]](module)
    except SglangError as error:
        held = _stack_lock.read(module.params["root"]) if error.kind == "locked" else None
        module.fail_json(msg=str(error), lock=held, kind=error.kind)
    except OSError as error:
        module.fail_json(msg=f"{error.filename or module.params['root']}: {error.strerror or error}", kind="os")
    module.exit_json(**result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_instance_link
short_description: Switch an instance to a release so that no interruption leaves it between two
version_added: "1.0.0"
description:
  - Three steps of a deployment, each atomic and durable (written beside, flushed to the disk, renamed).
  - V(begin) writes the mark C(pending.json) before anything is changed. While it is there, a boot puts the last good
    release, unit file and environment back (C(sglang-recover.service)), and the next run deploys again.
  - V(switch) points C(/opt/sglang/instances/NAME/release) at a release, and refuses one that is not verified.
  - V(restore) puts the unit file, the environment and the link of an entry of C(good.json) back. Without O(release) it
    is the newest entry, unless that is what is installed.
  - V(end) takes the mark away. Only a passed gate, or the decision to leave the instance stopped, may do that.
  - A deployment that the host was booted in, or that another run took over, ends with its next step. Ansible repeats a
    step whose connection was lost, and the host that it comes back to has put the last good release back by then.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  stage:
    description: Which step.
    type: str
    choices: [begin, switch, restore, end]
    required: true
  release:
    description: Id of the release; required for V(begin) and V(switch). V(restore) takes its newest good entry.
    type: str
  deployment:
    description:
      - The deployment that the step is part of, as RV(deployment) of V(begin) names it.
      - The module fails when the host was booted or another run deployed since. Only V(restore) goes on after a boot,
        sees to it that the files are those of the newest good entry, and says so in RV(interruption).
    type: str
    default: ""
  previous:
    description:
      - With V(restore), whether entries behind the newest one may be taken, when the newest (of O(release), if that is
        given) is what is installed. That is an operator's step back; after a failed gate it stays off.
    type: bool
    default: false
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
"""

EXAMPLES = r"""
- name: Put the last good release, unit and environment of an instance back
  blackwell.sglang.sglang_instance_link:
    name: qwen
    stage: restore
  register: sglang_restored
"""

RETURN = r"""
release:
  description: The release that the link points at after the step.
  returned: always
  type: str
  sample: 20261129T180112Z-3f9a1c22
previous:
  description: The release that the link pointed at before.
  returned: always
  type: str
  sample: 20261120T071530Z-9c0d11aa
deployment:
  description: With V(begin), what the later steps of this deployment show; else what they showed.
  returned: always
  type: str
  sample: 5f0c77a1d2b94e36
interruption:
  description: How a boot ended the deployment before this step; empty when none did. Also where the module fails.
  returned: always
  type: str
  sample: the host was booted since this deployment of qwen began at 2026-11-29T18:04:02Z
instance:
  description: With V(restore), the resolved instance that the entry was proved for, to gate it by; else empty.
  returned: always
  type: dict
  sample: {name: qwen, engine_version: 0.5.12.post1, tp_size: 8}
restored:
  description: What V(restore) changed, in check mode what it would change.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/system/sglang-qwen.service, /opt/sglang/instances/qwen/release]
cleared:
  description: Drop-ins of an interrupted backend_matrix that V(switch) or V(restore) took away; systemd must read anew.
  returned: always
  type: list
  elements: str
  sample: [/run/systemd/system/sglang-qwen.service.d/90-backend-matrix.conf]
"""

import datetime
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_dropins
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "stage": {"type": "str", "choices": ["begin", "switch", "restore", "end"], "required": True},
            "release": {"type": "str"},
            "deployment": {"type": "str", "default": ""},
            "previous": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/opt/sglang"},
        },
        required_if=[("stage", "begin", ("release",)), ("stage", "switch", ("release",))],
        supports_check_mode=True,
    )
    places = _service.Places(module.params["name"], root=module.params["root"])
    previous = _service.linked_release(places)
    try:
        step = _step(module, places, previous)
    except SglangError as exc:
        ended = _service.interruption(places, module.params["deployment"])
        booted = ended["words"] if ended and ended["by"] == "boot" else ""
        module.fail_json(msg=str(exc), interruption=booted, **exc.as_dict())
    except OSError as exc:
        module.fail_json(msg=f"{places.name}: {module.params['stage']}: {exc}")
    trial = [str(path) for path in _service_dropins.trial_files(places) if path.exists()]
    cleared = trial if module.params["stage"] in ("switch", "restore") else []
    if cleared and not module.check_mode:
        _service_dropins.clear_trial(places)
    target = step["release"]
    diff = {"before": f"{places.link} -> {previous or 'absent'}\n", "after": f"{places.link} -> {target or 'absent'}\n"}
    result = {"restored": [], "instance": {}, "interruption": "", "deployment": module.params["deployment"], **step}
    result["changed"] = step["changed"] or bool(cleared)
    module.exit_json(previous=previous, cleared=cleared, diff=diff, **result)


def _step(module: AnsibleModule, places: _service.Places, previous: str) -> dict[str, t.Any]:
    stage, release, deployment = (module.params[key] for key in ("stage", "release", "deployment"))
    if stage == "restore":
        return _restore(module, places)
    if stage == "begin":
        if not module.check_mode:
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            deployment = _service.begin_pending(places, release, now)
        return {"changed": True, "release": previous, "deployment": deployment}
    _service.require_deployment(places, deployment)
    if stage == "end":
        there = places.pending.exists()
        if not module.check_mode:
            _service.end_pending(places)
        return {"changed": there, "release": previous}
    changed = previous != release if module.check_mode else _service.switch(places, release)
    return {"changed": changed, "release": release}


def _restore(module: AnsibleModule, places: _service.Places) -> dict[str, t.Any]:
    release = module.params["release"]
    ended = _service.interruption(places, module.params["deployment"])
    if ended and ended["by"] != "boot":
        _service.require_deployment(places, module.params["deployment"])
    # After a boot the newest one is there already, unless the step that was repeated wrote a file over it.
    entry = _service.last_good(places, module.params["previous"], release, booted=ended is not None)
    if entry is None:
        raise SglangError(
            f"instance {places.name} has nothing else that was good"
            + (f" with release {release}" if release else " to go back to"),
            where=str(places.good),
            fix="deploy what passes the gate first"
            + (", or name another release in sglang_service_releases, which may pin this one" if release else ""),
            kind="no_good",
        )
    restored = _service.restore(places, entry, dry=module.check_mode)
    return {
        "changed": bool(restored),
        "release": entry["release"],
        "restored": restored,
        "instance": entry.get("instance") or {},
        "interruption": ended["words"] if ended else "",
    }


if __name__ == "__main__":
    main()

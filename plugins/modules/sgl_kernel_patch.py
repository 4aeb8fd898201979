#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sgl_kernel_patch
short_description: Probe the source of sgl-kernel and apply, or take back, the patches that SM120 needs
version_added: "1.0.0"
description:
  - Each patch of the catalogue probes the source and tells whether it is C(needed), C(present) already, C(obsolete)
    because the code it cures is gone, or C(unrecognised).
  - Edits follow the structure of a file, not line numbers, and never guess. C(unrecognised) is a warning where
    O(patches) is left out, and an error where the patch was asked for by name.
  - V(cmp0169-guard) and V(cmp0177-guard) let a CMake older than 3.31 read the file.
  - V(cccl-include) lets the host compiler find the C++ headers that CUDA 13 moved.
  - V(fa3-option) makes C(SGL_KERNEL_ENABLE_FA3=OFF) have its effect.
  - V(gencode-sm120) compiles for sm_120a only.
  - V(fa3-import) lets the Python module be imported where FA3 was not built.
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
    support: full
options:
  path:
    description: The kernel's folder, the one with CMakeLists.txt.
    type: path
    required: true
  patches:
    description: Ids of patches. Without it, all that are needed.
    type: list
    elements: str
  state:
    description: V(reverted) restores every patched file to the byte.
    type: str
    choices: [applied, reverted]
    default: applied
seealso:
  - module: blackwell.sglang.cuda_arch_info
"""

EXAMPLES = r"""
- name: Apply what this source needs
  blackwell.sglang.sgl_kernel_patch:
    path: /opt/sglang/src/build/sgl-kernel

- name: Take it all back
  blackwell.sglang.sgl_kernel_patch:
    path: /opt/sglang/src/build/sgl-kernel
    state: reverted
"""

RETURN = r"""
patches:
  description: What each patch found.
  returned: when O(state=applied)
  type: list
  elements: dict
  contains:
    id:
      description: Its name.
      type: str
    status:
      description: C(needed) (and applied, unless in check mode), C(present), C(obsolete) or C(unrecognised).
      type: str
    applied:
      description: Whether the cure is this module's, from this call or an earlier one.
      type: bool
    why:
      description: What the probe saw, before the patch was applied.
      type: str
    file:
      description: The file that it edits.
      type: str
    cures:
      description: The symptom without it.
      type: str
    without:
      description: How to do without it.
      type: str
  sample:
    - id: fa3-option
      status: needed
      applied: true
      why: SGL_KERNEL_ENABLE_FA3 is set ON whatever the caller says
      file: CMakeLists.txt
      cures: FA3 is compiled, the largest part of the build, although SGL_KERNEL_ENABLE_FA3 is OFF
      without: let it be built; it costs time and 0.8 to 1.1 GB and does nothing on SM120
digest:
  description: Digest of the patched files, a part of the kernel's stamp.
  returned: when O(state=applied)
  type: str
  sample: 8c1e20a4b7f3
files:
  description: Files that were or would be changed.
  returned: success
  type: list
  elements: str
  sample: [CMakeLists.txt]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _patch_set
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    """Probe, then apply or revert."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "patches": {"type": "list", "elements": "str"},
            "state": {"type": "str", "choices": ["applied", "reverted"], "default": "applied"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    result = {}
    try:
        if module.params["state"] == "reverted":
            outcome = _patch_set.revert(path, check=module.check_mode)
        else:
            outcome = _patch_set.plan(path, module.params["patches"])
            result = {"patches": outcome.patches, "digest": outcome.digest}
            if outcome.changed and not module.check_mode:
                _patch_set.apply(path, outcome)
    except (SglangError, OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=str(error))
    for patch in outcome.patches:
        if patch["status"] == "unrecognised":
            module.warn(
                f"Patch {patch['id']} does not recognise {patch['file']}: {patch['why']}. "
                f"Without it: {patch['without']}"
            )
    diff = [
        {"before": outcome.before[name], "after": text, "before_header": name, "after_header": name}
        for name, text in outcome.after.items()
    ]
    module.exit_json(changed=outcome.changed, files=sorted(outcome.after), diff=diff, **result)


if __name__ == "__main__":
    main()

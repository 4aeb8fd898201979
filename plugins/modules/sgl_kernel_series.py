#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sgl_kernel_series
short_description: Apply an operator's own patches to a clean source, all or none
version_added: "1.0.0"
description:
  - Applies a series of unified diffs in its order. All of them are worked out before a file is written, so a patch that
    no longer applies leaves the source as it was; the message names patch, hunk, file and line.
  - A hunk may have moved, but every line of it must be there.
  - The source is marked with the digest of the series. The same series is not applied twice; another one wants a clean
    source.
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
    description: Top folder of a clean source; the paths of the patches are below it, after their first part.
    type: path
    required: true
  series:
    description: The patches in their order.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the patch, for messages.
        type: str
        required: true
      text:
        description: The unified diff.
        type: str
        required: true
seealso:
  - module: blackwell.sglang.sgl_kernel_patch
"""

EXAMPLES = r"""
- name: Apply the operator's own patch
  blackwell.sglang.sgl_kernel_series:
    path: /opt/sglang/src/build-0123456789ab-4b1a2c3d
    series:
      - name: 01-symm-mem-sm120.patch
        text: "{{ lookup('ansible.builtin.file', 'patches/01-symm-mem-sm120.patch', rstrip=false) }}"
"""

RETURN = r"""
digest:
  description: Digest of the series, a part of the kernel's stamp.
  returned: success
  type: str
  sample: 8c1e20a4b7f3
files:
  description: Files that were or would be changed.
  returned: success
  type: list
  elements: str
  sample: [sgl-kernel/CMakeLists.txt]
"""

import json
import pathlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _patch_series
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def marked(path: str) -> str:
    """Digest of the series that a source holds; empty for a clean one."""
    try:
        value = json.loads(pathlib.Path(path, _patch_series.MARKER).read_text(encoding="utf-8"))
        return str(value["digest"])
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"


def main() -> None:
    """Work the series out, then write it."""
    entry = {"name": {"type": "str", "required": True}, "text": {"type": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "series": {"type": "list", "elements": "dict", "options": entry, "required": True},
        },
        supports_check_mode=True,
    )
    path, series = module.params["path"], module.params["series"]
    wanted, there = _patch_series.digest(series), marked(path)
    if there == wanted:
        module.exit_json(changed=False, digest=wanted, files=[])
    if there:
        module.fail_json(
            msg=f"{path} holds another series of patches ({there}). Fix: apply this one to a clean copy of the commit."
        )
    try:
        before, after = _patch_series.work_out(path, series)
        if not module.check_mode:
            _patch_series.write(path, after, series)
    except (SglangError, OSError, UnicodeDecodeError) as error:
        module.fail_json(msg=str(error))
    diff = [
        {"before": before[name] or "", "after": after[name] or "", "before_header": name, "after_header": name}
        for name in sorted(after)
    ]
    module.exit_json(changed=True, digest=wanted, files=sorted(after), diff=diff)


if __name__ == "__main__":
    main()

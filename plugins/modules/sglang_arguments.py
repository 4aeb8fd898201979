#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_arguments
short_description: Have the installed engine's own parser confirm a command line
version_added: "1.0.0"
description:
  - Parses a command line with the engine of a release, in the interpreter of that release, and goes no further than
    parsing. No GPU and no checkpoint is touched, and the server that runs is not disturbed.
  - M(blackwell.sglang.sglang_validate) checks arguments on the controller against tables that ship with the
    collection. This is the second look, at the engine that was really installed, for forks and versions that no table
    knows. The role asks it before a running server is stopped.
  - Fails where the engine cannot be imported, since no start of it can succeed then. Where only the parser is not where
    it was (a version that no table knows), it warns, and the tables' check stands alone.
  - An accepted command line is remembered with the release in C(/var/lib/sglang/NAME/arguments.json), since importing
    an engine takes up to 20 seconds.
author: "blackwell.sglang contributors (@blackwell-sglang)"
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details: [In check mode nothing is remembered.]
  diff_mode:
    support: none
  idempotent:
    support: full
    details: [What is remembered never counts as a change.]
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  release:
    description: Id of the release.
    type: str
    required: true
  argv:
    description: The words after C(-m sglang.launch_server), as C(sglang_resolved) has them. No API key.
    type: list
    elements: str
    required: true
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
  exceptions:
    description: Exceptions of the inventory; V(engine_import) lets an engine pass that cannot be imported.
    type: list
    elements: dict
    default: []
seealso:
  - module: blackwell.sglang.sglang_validate
  - module: blackwell.sglang.sglang_resolve
"""

EXAMPLES = r"""
- name: Does the engine take these arguments
  blackwell.sglang.sglang_arguments:
    name: qwen
    release: 20261129T180112Z-3f9a1c22
    argv: [--model-path, /models/Qwen3.5-397B-A17B-NVFP4, --tp-size, "8"]
  register: sglang_arguments
"""

RETURN = r"""
asked:
  description: Whether the engine's parser could be asked. Where it could not, a warning or the failure says why.
  returned: always
  type: bool
  sample: true
accepted:
  description: Whether it takes the arguments; null where it could not be asked.
  returned: always
  type: bool
  sample: false
importable:
  description: Whether the engine can be imported; null where that is not known.
  returned: always
  type: bool
  sample: true
diagnosis:
  description: Why it cannot be imported, where the catalogue of failures knows, as C(id), C(what), C(why) and C(fix).
  returned: always
  type: dict
  sample: null
error:
  description: What the parser said, or why it could not be asked.
  returned: always
  type: str
  sample: "argument --attention-backend: invalid choice: 'tritn' (choose from 'triton', 'torch_native')"
cached:
  description: Whether an earlier answer of this release was used.
  returned: always
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _engine_parser, _service


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "release": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
            "root": {"type": "path", "default": "/opt/sglang"},
            "exceptions": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    places = _service.Places(params["name"], root=params["root"])
    try:
        answer = _engine_parser.confirm(
            _service.runner(module), places, params["release"], params["argv"], keep=not module.check_mode
        )
    except OSError as exc:
        module.fail_json(msg=f"{params['name']}: what the engine's parser said cannot be kept: {exc}")
    if answer["importable"] is False:
        words = _engine_parser.unimportable(params["release"], answer)
        granted = _engine_parser.granted(params["exceptions"])
        if granted is None:
            module.fail_json(msg=f"{words} Or grant the exception {_engine_parser.EXCEPTION} with a reason.", **answer)
        module.warn(f"{words} Excepted: {granted}")
    elif not answer["asked"]:
        module.warn(
            f"The parser of release {params['release']} could not be asked ({answer['error']}); the arguments of"
            f" {params['name']} were checked by the collection's own table only."
        )
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_arch_info
short_description: List the GPU architectures that libraries, wheels or folders hold code for
version_added: "1.0.0"
description:
  - Walks the headers of the section C(.nv_fatbin) of shared libraries itself, so no CUDA tool is needed on the
    host and a library of 1.1 GB takes milliseconds.
  - Tells machine code (SASS) from PTX and C(sm_120) from C(sm_120a) and C(sm_120f). Plain C(sm_120) code lacks the FP4
    conversion instruction, so a kernel for RTX PRO 6000 Blackwell needs C(sm_120a) or C(sm_120f).
  - Tells as well which CUDA major the libraries link, and which undefined symbols torch has to provide.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
options:
  paths:
    description: Shared libraries, wheels and folders. A folder is searched for shared libraries.
    type: list
    elements: path
    required: true
  torch_lib:
    description:
      - Folder of torch's libraries, for instance C(venv/lib/python3.12/site-packages/torch/lib).
      - If given, RV(unresolved) lists the torch symbols that no library in it defines, which is what breaks at import
        when torch is not the one that a kernel was built for.
    type: path
seealso:
  - module: blackwell.sglang.sgl_kernel_patch
"""

EXAMPLES = r"""
- name: Read the architectures of a kernel wheel
  blackwell.sglang.cuda_arch_info:
    paths: [/opt/sglang/wheels/sglang_kernel-0.4.2.post2-cp310-abi3-linux_x86_64.whl]
  register: kernel

- name: Require SM120 code in it
  ansible.builtin.assert:
    that: "'sm_120a' in kernel.sass or 'sm_120f' in kernel.sass"
    fail_msg: "The wheel holds code for {{ kernel.sass | list | join(', ') }} only."
"""

RETURN = r"""
libraries:
  description: One entry for each shared library, in the order of its path.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The file; a wheel's member as C(WHEEL!MEMBER).
      type: str
    sass:
      description: Architecture of machine code to the number of entries.
      type: dict
    ptx:
      description: Architecture of PTX to the number of entries.
      type: dict
    lto:
      description: Architecture of link-time intermediate code to the number of entries.
      type: dict
    compressed:
      description: How many of the entries are compressed.
      type: int
    cuda_majors:
      description: CUDA majors of the CUDA libraries it links.
      type: list
      elements: int
    needed:
      description: Libraries that the dynamic linker loads first.
      type: list
      elements: str
    torch_symbols:
      description: Undefined symbols that torch has to provide, mangled.
      type: list
      elements: str
  sample:
    - path: sglang_kernel-0.4.10-cp310-abi3-manylinux2014_x86_64.whl!sgl_kernel/sm100/common_ops.abi3.so
      sass: {sm_80: 35, sm_89: 35, sm_90: 35, sm_90a: 35, sm_100f: 35, sm_120a: 35}
      ptx: {}
      lto: {}
      compressed: 210
      cuda_majors: [13]
      needed: [libc10.so, libtorch.so, libtorch_cpu.so, libcudart.so.13]
      torch_symbols: [_ZN2at11TensorMaker11make_tensorEv]
sass:
  description: Machine code of all libraries together.
  returned: success
  type: dict
  sample: {sm_90a: 57, sm_120a: 40}
ptx:
  description: PTX of all libraries together.
  returned: success
  type: dict
  sample: {}
cuda_majors:
  description: CUDA majors of all libraries together; two of them in one environment is a fault.
  returned: success
  type: list
  elements: int
  sample: [13]
torch_symbols:
  description: Undefined torch symbols of all libraries together.
  returned: success
  type: list
  elements: str
  sample: [_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb]
unresolved:
  description: Those of RV(torch_symbols) that O(torch_lib) does not define.
  returned: when O(torch_lib) is given
  type: list
  elements: str
  sample: []
"""

import pathlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _fatbin
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError


def main() -> None:
    """Read the libraries and return what they hold."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "torch_lib": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        libraries = [library for path in module.params["paths"] for library in _fatbin.read(path, module.tmpdir)]
        result = _fatbin.summary(libraries)
        folder = module.params["torch_lib"]
        if folder:
            defined: set[str] = set()
            for library in pathlib.Path(folder).glob("*.so*"):
                defined |= _fatbin.exported(str(library))
            result["unresolved"] = [name for name in result["torch_symbols"] if name not in defined]
    except (SglangError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, libraries=[library.as_dict() for library in libraries], **result)


if __name__ == "__main__":
    main()

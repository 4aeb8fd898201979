#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_info
short_description: Read which packages of NVIDIA's driver a host needs, and what forbids them
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Compares the packages named with a version, upstream part whole (C(580.126.09)), and says what apt has to install
    and which packages are not held.
  - In a container the version must be that of the kernel module which the hypervisor has loaded.
  - Elsewhere headers of the running kernel, Secure Boot and nouveau are looked at before DKMS would fail on them.
options:
  version:
    description: The version; when it is empty, that of the kernel module loaded.
    type: str
    default: ""
  packages:
    description: Names of the packages.
    type: list
    elements: str
    required: true
  secure_boot:
    description: Whether Secure Boot is provided for (the key of DKMS is enrolled), so that it is no problem.
    type: bool
    default: false
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.gpu_host_info
"""

EXAMPLES = r"""
- name: Look at the driver of a container
  blackwell.sglang.nvidia_driver_info:
    packages: [libcuda1, libnvidia-ml1]
  register: driver
"""

RETURN = r"""
problems:
  description: What forbids the installation, with the fix.
  returned: always
  type: list
  elements: str
  sample: ["nouveau is loaded and holds the cards. Fix: ..."]
version:
  description: The version wanted.
  returned: always
  type: str
  sample: 580.126.09
loaded:
  description: Version of the kernel module loaded; empty without one.
  returned: always
  type: str
  sample: 580.126.09
open:
  description: Whether that is the open one.
  returned: always
  type: bool
  sample: true
container:
  description: Whether this is a container.
  returned: always
  type: bool
  sample: true
installed:
  description: Versions by package.
  returned: always
  type: dict
  sample: {libcuda1: 580.126.09-1}
held:
  description: Packages that apt is told to leave alone.
  returned: always
  type: list
  elements: str
  sample: [libcuda1]
install:
  description: What apt has to install.
  returned: always
  type: list
  elements: str
  sample: ["libnvidia-ml1=580.126.09-1"]
unavailable:
  description: Packages that no source has in this version; before the sources are refreshed that means little.
  returned: always
  type: list
  elements: str
  sample: []
hold:
  description: Packages that are not held yet.
  returned: always
  type: list
  elements: str
  sample: [libnvidia-ml1]
secure_boot: {description: Whether Secure Boot is on., returned: always, type: bool, sample: false}
nouveau: {description: Whether nouveau is loaded., returned: always, type: bool, sample: false}
kernel: {description: The running kernel., returned: always, type: str, sample: 6.8.12-9-pve}
headers: {description: Whether its headers are there., returned: always, type: bool, sample: true}
dkms: {description: Whether DKMS is there., returned: always, type: bool, sample: true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _nvidia_driver
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "default": ""},
            "packages": {"type": "list", "elements": "str", "required": True},
            "secure_boot": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    facts = _nvidia_driver.read(Host(module.run_command), params["version"], params["packages"])
    judged = {**facts, "secure_boot": facts["secure_boot"] and not params["secure_boot"]}
    module.exit_json(changed=False, problems=_nvidia_driver.problems(judged), **facts)


if __name__ == "__main__":
    main()

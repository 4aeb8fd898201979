#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_host_info
short_description: Read all that matters of a GPU host in one call, and judge it
version_added: "1.0.0"
author: ["blackwell.sglang contributors (@blackwell-sglang)"]
description:
  - Reads GPUs, who holds them, topology, driver, CUDA toolkit, operating system, packages, kernel command line, module
    options, PCIe, memory, disks and the GPU events of the kernel log of this boot.
  - Compares them with a table of rules. Each finding says what is seen, why it matters, what to do and where that is
    known from. Advice that circulates without ground is marked as folklore.
  - Needs nothing on the host but Python; works on a bare host and in check mode.
options:
  gpus:
    description: Number of GPUs that the instances of this host need; V(0) does not check.
    type: int
    default: 0
  compute_capabilities:
    description: Compute capabilities that the kernels of this host are built for; an empty list does not check.
    type: list
    elements: str
    default: ["12.0"]
  nvcc:
    description: Oldest CUDA compiler that will do; an empty string does not check.
    type: str
    default: "12.9"
  driver:
    description: Oldest driver that will do; an empty string does not check.
    type: str
    default: "580.65.06"
  unit_path:
    description: E(PATH) that the service gets; C(nvcc) is looked for there first.
    type: str
    default: /usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  pythons:
    description: Versions of Python of which a release needs one.
    type: list
    elements: str
    default: ["3.12", "3.13", "3.11"]
  packages:
    description: Distribution packages to look for in the database of dpkg. C(a | b) is satisfied by either.
    type: list
    elements: str
    default: []
  disks:
    description: Folders and the space that must be free for them; one that is not there yet counts for the one above.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      need_gib:
        description: GiB that must be free.
        type: float
        default: 0
  memory_gib:
    description: Least main memory in GiB, a container's limit taken into account; V(0) does not check.
    type: float
    default: 0
  shm_mib:
    description: Size in MiB of /dev/shm below which a host with several GPUs gets a warning.
    type: int
    default: 8192
  user:
    description: User that the service runs as, for the permissions of device nodes.
    type: str
    default: ""
  env:
    description: Environment of the instances, checked for words that NCCL does not know.
    type: dict
    default: {}
  exceptions:
    description:
      - Findings that are accepted on purpose. Such a finding becomes advice and carries the reason.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: The finding's RV(findings[].id).
        type: str
        required: true
      reason:
        description: Why it is accepted.
        type: str
        required: true
      until:
        description: A date (YYYY-MM-DD) after which it no longer is, or any other word.
        type: str
extends_documentation_fragment:
  - blackwell.sglang.attributes
  - blackwell.sglang.attributes.info_module
seealso:
  - module: blackwell.sglang.proxmox_gpu_info
"""

EXAMPLES = r"""
- name: Read the host
  blackwell.sglang.gpu_host_info:
    gpus: 8
    packages: [python3-requests, gcc]
    disks:
      - {path: /opt/sglang, need_gib: 40}
  register: host

- name: Stop when something must be put right first
  ansible.builtin.fail:
    msg: "{{ host.message }}"
  when: not host.ok

- name: Accept a smaller disk on a test host
  blackwell.sglang.gpu_host_info:
    disks: [{path: /opt/sglang, need_gib: 40}]
    exceptions:
      - {id: disk_low, reason: "packages are small here", until: "2030-01-01"}
"""

RETURN = r"""
ok:
  description: Whether no finding is an error.
  returned: always
  type: bool
  sample: true
message:
  description: All errors with reason and fix in one text; empty when there is none.
  returned: always
  type: str
  sample: ""
findings:
  description: What the rules found, errors first.
  returned: always
  type: list
  elements: dict
  contains:
    id: {description: Name by which an exception can lift it., type: str, returned: always}
    severity: {description: "V(error), V(warning) or V(advice).", type: str, returned: always}
    what: {description: What is seen., type: str, returned: always}
    why: {description: Why it matters., type: str, returned: always}
    fix: {description: What to do., type: str, returned: always}
    source: {description: Where that is known from., type: str, returned: always}
    folklore: {description: Whether the thing circulates without ground., type: bool, returned: always}
    excepted: {description: The exception that lifted it., type: dict, returned: always}
  sample:
    - id: nvcc_old
      severity: error
      what: /usr/local/cuda/bin/nvcc is version 12.8.93, older than 12.9
      why: FlashInfer silently leaves SM120 out with an older one
      fix: install the CUDA toolkit 12.9 or newer (13.0 fits the cu130 wheels)
      source: https://github.com/flashinfer-ai/flashinfer/issues/3633
      folklore: false
      excepted: {}
gpus:
  description: The GPUs in the order of nvidia-smi; memory in MiB.
  returned: always
  type: list
  elements: dict
  sample:
    - index: 0
      name: NVIDIA RTX PRO 6000 Blackwell Server Edition
      uuid: GPU-00000000-0000-0000-0000-000000000000
      bus_id: 0000:01:00.0
      compute_capability: "12.0"
      memory_mib: 97887
      used_mib: 0
      free_mib: 97251
      utilization_percent: 0
      bar1_mib: 131072
      pcie: {generation: 5, generation_max: 5, width: 16, width_max: 16}
      driver_version: 580.126.09
      persistence: true
      compute_mode: Default
      mig: false
processes:
  description: Who holds GPU memory, as far as it is visible from this host.
  returned: always
  type: list
  elements: dict
  sample:
    - gpu: 0
      gpu_uuid: GPU-00000000-0000-0000-0000-000000000000
      pid: 812
      name: "sglang::scheduler_TP0"
      used_mib: 83200
      ppid: 790
      state: S
      unit: sglang-qwen.service
openers:
  description: Processes visible from this host that have a card's node open, looked for when memory is in use.
  returned: always
  type: list
  elements: int
  sample: [812]
topology:
  description: Links between the GPUs (C(nvidia-smi topo -m)), NUMA nodes, the farthest link.
  returned: always
  type: dict
  sample: {gpus: [GPU0, GPU1], links: [[X, PIX], [PIX, X]], numa: [0, 0], worst: PIX, sockets: 1}
smi:
  description: Where nvidia-smi is and in which state it ended.
  returned: always
  type: dict
  sample: {path: /usr/bin/nvidia-smi, state: ok, text: ""}
driver:
  description: Kernel module (version, open or closed), versions of the user space, module parameters in force.
  returned: always
  type: dict
  sample: {kernel: {version: 580.126.09, open: true}, user: [580.126.09], params: {}, uvm_disable_hmm: true}
device_nodes:
  description: The nodes /dev/nvidia*, with the major that the driver uses now where that is known.
  returned: always
  type: list
  elements: dict
  sample:
    - {path: /dev/nvidia0, major: 195, minor: 0, mode: "0666", uid: 0, gid: 0, expected_major: 195}
pci:
  description: Bridges with ACS, NVIDIA functions that no longer answer, vfio cards that may enter D3cold.
  returned: always
  type: dict
  sample: {gone: [], acs: [{address: "0000:00:01.1", control: 29, redirects: true}], vfio_d3cold: []}
cuda:
  description: The C(nvcc) that the service would use, all that were found, where headers and glibc disagree.
  returned: always
  type: dict
  sample:
    unit: {path: /usr/local/cuda/bin/nvcc, real_path: /usr/local/cuda-13.0/bin/nvcc, version: 13.0.88}
    nvcc: []
    header_conflicts: []
    unit_path: /usr/local/cuda/bin:/usr/bin:/bin
os:
  description: Distribution, glibc, kernel, kind of host (V(none), V(vm), V(lxc) or another container).
  returned: always
  type: dict
  sample:
    id: debian
    version_id: "12"
    name: Debian GNU/Linux 12 (bookworm)
    glibc: "2.36"
    kernel: 6.8.12-9-pve
    machine: x86_64
    virtualization: lxc
python:
  description: Python interpreters of the system.
  returned: always
  type: list
  elements: dict
  sample: [{path: /usr/bin/python3.11, version: "3.11"}]
packages:
  description: Which of O(packages) are installed, which are missing.
  returned: always
  type: dict
  sample: {installed: {gcc: "4:12.2.0-3"}, missing: [python3-requests], apt_bindings: true}
kernel:
  description: Command line, module options and modules, IOMMU groups, CPU governors.
  returned: always
  type: dict
  sample:
    cmdline: [quiet, iommu=pt]
    modprobe: {}
    blacklisted: [nouveau]
    modules: [nvidia, nvidia_uvm]
    iommu_groups: 40
    governors: {performance: 64}
    numa_balancing: false
memory:
  description: Main memory, the container's limit and /dev/shm, all in MiB.
  returned: always
  type: dict
  sample: {total_mib: 515000, available_mib: 480000, limit_mib: 262144, effective_mib: 262144, cgroup: 2, shm_mib: 9000}
disks:
  description: Space at the folders of O(disks).
  returned: always
  type: list
  elements: dict
  sample:
    - path: /opt/sglang
      need_gib: 40.0
      mount: /
      total_gib: 900.0
      free_gib: 612.4
      free_inodes: 580000
      has_release: true
events:
  description: Xid and other GPU events of this boot; C(available) is false where the log cannot be read.
  returned: always
  type: dict
  sample: {available: true, xid: [], signs: []}
nccl:
  description:
    - An environment for NCCL that fits the topology, with the reason for each variable.
    - C(installed) in it is what C(gpu_host_nccl_env) has written for the units.
  returned: always
  type: dict
  sample:
    env: {NCCL_P2P_LEVEL: PHB}
    why: {NCCL_P2P_LEVEL: the farthest pair of cards is NODE}
    profile: node
    installed: {NCCL_P2P_LEVEL: PHB}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_probe, _gpu_rule, _gpu_rules
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host


def main() -> None:
    exception = {
        "id": {"type": "str", "required": True},
        "reason": {"type": "str", "required": True},
        "until": {"type": "str"},
    }
    disk = {"path": {"type": "path", "required": True}, "need_gib": {"type": "float", "default": 0}}
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "int", "default": 0},
            "compute_capabilities": {"type": "list", "elements": "str", "default": ["12.0"]},
            "nvcc": {"type": "str", "default": "12.9"},
            "driver": {"type": "str", "default": "580.65.06"},
            "unit_path": {"type": "str", "default": _gpu_probe.DEFAULT_UNIT_PATH},
            "pythons": {"type": "list", "elements": "str", "default": ["3.12", "3.13", "3.11"]},
            "packages": {"type": "list", "elements": "str", "default": []},
            "disks": {"type": "list", "elements": "dict", "default": [], "options": disk},
            "memory_gib": {"type": "float", "default": 0},
            "shm_mib": {"type": "int", "default": 8192},
            "user": {"type": "str", "default": ""},
            "env": {"type": "dict", "default": {}},
            "exceptions": {"type": "list", "elements": "dict", "default": [], "options": exception},
        },
        supports_check_mode=True,
    )
    host = Host(module.run_command)
    facts = _gpu_probe.read(host, module.params["unit_path"], module.params["packages"], module.params["disks"])
    wants = {**module.params, "vms_with_gpus": _gpu_probe.vms_with_gpus(host)}
    findings = _gpu_rules.findings(facts, wants, module.params["exceptions"])
    message = _gpu_rule.message(findings)
    module.exit_json(changed=False, ok=not message, message=message, findings=findings, **facts)


if __name__ == "__main__":
    main()

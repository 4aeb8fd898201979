# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules that look at the instances of a host."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  instances:
    description: The instances, as C(sglang_resolved.instances) has them, with the files that they need.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance; its unit is C(sglang-NAME.service).
        type: str
        required: true
      state:
        description: What is wanted.
        type: str
        choices: [started, stopped]
        default: started
      port:
        description: TCP port that the engine listens on.
        type: int
      gpus:
        description: V(all) or a list of GPU indices.
        type: raw
        default: all
      conflicts:
        description: Names of instances that it cannot run beside, since they share its port or a GPU.
        type: list
        elements: str
        default: []
      model_path:
        description: Folder of the checkpoint. The service user must be able to read its files.
        type: path
      stack_digest:
        description: Digest of the stack that the release must have, where O(instances[].release) is not given.
        type: str
      release:
        description: Id of the release that is wanted. Without it, a verified release of the stack is chosen.
        type: str
      restart:
        description: Whether it is to be restarted although nothing differs.
        type: bool
        default: false
      idle_mib:
        description: MiB that a GPU may show which nobody uses.
        type: int
        default: 512
      files:
        description: Files whose change makes a restart necessary.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: Path on the host.
            type: path
            required: true
          sha256:
            description: Digest of the content that is wanted.
            type: str
          mode:
            description: Mode that is wanted.
            type: str
            default: "0644"
          absent:
            description: Whether the file must not exist.
            type: bool
            default: false
  files:
    description: Further files of the host whose change needs no restart.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Path on the host.
        type: path
        required: true
      sha256:
        description: Digest of the content that is wanted.
        type: str
      mode:
        description: Mode that is wanted.
        type: str
        default: "0644"
      absent:
        description: Whether the file must not exist.
        type: bool
        default: false
  user:
    description: User of the service. What it left on the GPUs outside of any unit is no obstacle, since a stop ends it.
    type: str
    default: sglang
  groups:
    description: Further groups of the service.
    type: list
    elements: str
    default: []
  root:
    description: Folder of releases and instances.
    type: path
    default: /opt/sglang
"""

#!/usr/bin/python
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_logged
short_description: Run a long command that outlives the connection and shows its progress
version_added: "1.0.0"
description:
  - Starts the command on the target as the transient unit C(sglang-job-NAME.service), its output going to a log, and
    waits for it. The screen shows the elapsed time and the line of the log that tells most.
  - If the connection or the controller is lost, the command goes on; the next run with the same name and command
    attaches to it instead of starting it again.
  - On failure the first real error of the log is returned, not its last lines.
  - On a host without systemd the command runs in a session of its own.
author:
  - blackwell.sglang contributors (@blackwell-sglang)
extends_documentation_fragment:
  - blackwell.sglang.attributes
attributes:
  check_mode:
    support: full
    details:
      - The command is shown and not run.
  diff_mode:
    support: none
  idempotent:
    support: none
options:
  name:
    description: Name of the job, of letters, digits and C(-).
    type: str
    required: true
  argv:
    description: The command and its arguments.
    type: list
    elements: str
    required: true
  log:
    description: File on the target that gets the output. The state of the job is kept under C(/run/sglang-jobs).
    type: path
    required: true
  environment:
    description: Environment variables, added to those of the system.
    type: dict
    default: {}
  chdir:
    description: Folder to run in.
    type: path
  timeout:
    description: Seconds after which the job is stopped.
    type: int
    default: 7200
  poll:
    description: Longest time between two looks at the job, in seconds.
    type: int
    default: 5
"""

EXAMPLES = r"""
- name: Build the wheel
  blackwell.sglang.run_logged:
    name: kernel-3f2a9c81d0e4
    argv: [/opt/sglang/uv/bin/uv, build, --wheel, --no-build-isolation, .]
    chdir: /opt/sglang/src/build-3f2a9c81d0e4/sgl-kernel
    log: /opt/sglang/src/build-3f2a9c81d0e4/build.log
    environment: {MAX_JOBS: "4"}
"""

RETURN = r"""
rc:
  description: Exit status; 124 after the time limit, 137 if the job was killed.
  returned: always
  type: int
  sample: 0
log:
  description: The log on the target.
  returned: always
  type: str
  sample: /opt/sglang/src/build-3f2a9c81d0e4/build.log
attached:
  description: Whether the job ran already.
  returned: when it was run
  type: bool
  sample: false
seconds:
  description: How long this run waited.
  returned: when it was run
  type: float
  sample: 31.4
error:
  description: The first real error of the log.
  returned: on failure
  type: str
  sample: "csrc/peer_flag.cpp:2:10: fatal error: cuda/atomic: No such file or directory"
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Say that the action plugin of this name does the work."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
            "log": {"type": "path", "required": True},
            "environment": {"type": "dict", "default": {}},
            "chdir": {"type": "path"},
            "timeout": {"type": "int", "default": 7200},
            "poll": {"type": "int", "default": 5},
        },
        supports_check_mode=True,
    )
    module.fail_json(msg="run_logged works through its action plugin; call it as blackwell.sglang.run_logged.")


if __name__ == "__main__":
    main()

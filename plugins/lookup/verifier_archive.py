# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give the archive of the verifier as a file of the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: verifier_archive
short_description: Pack the verifier of this collection into one file
version_added: "1.0.0"
author: "blackwell.sglang contributors (@blackwell-sglang)"
description:
  - Packs the program that systemd runs on a host (verifier and recovery) with the part of the collection that the gate
    is made of, so that the host runs the same code as M(blackwell.sglang.sglang_gate).
  - The same sources give the same bytes, so a digest says whether a host has it.
options:
  _terms:
    description: Path of the program on the controller.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Digest of the verifier
  ansible.builtin.debug:
    msg: "{{ lookup('blackwell.sglang.verifier_archive', role_path ~ '/files/sglang_verify.py').sha256 }}"
"""

RETURN = r"""
_list:
  description: For each program, where its archive lies on the controller until the run ends, and its digest.
  type: list
  elements: dict
  sample: [{path: /tmp/ansible-local-1/sglang_verify-3f9a1c22.pyz, sha256: 3f9a1c22}]
"""

import hashlib
import pathlib
import typing as t

from ansible import constants
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.blackwell.sglang.plugins.plugin_utils import _verifier


class LookupModule(LookupBase):
    """One archive a term."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, str]]:
        found = []
        for term in terms:
            main = pathlib.Path(term)
            try:
                content = _verifier.archive(main)
            except (OSError, SyntaxError) as exc:
                raise AnsibleLookupError(f"cannot pack {main}: {exc}") from exc
            digest = hashlib.sha256(content).hexdigest()
            path = pathlib.Path(constants.DEFAULT_LOCAL_TMP) / f"{main.stem}-{digest[:8]}.pyz"
            if not path.exists():
                path.write_bytes(content)
            found.append({"path": str(path), "sha256": digest})
        return found

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write chosen arguments into the instance's place in an inventory file, comments and order kept (controller only)."""

from __future__ import annotations

import io
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

try:
    from ruamel.yaml import YAML

    RUAMEL_ERROR = ""
except ImportError as exc:
    RUAMEL_ERROR = str(exc)


def write(path: pathlib.Path, instance: str, args: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """Set ``args`` of an instance in a YAML file that holds ``sglang_instances``; the text before and after.

    None takes an argument away in the profile's sense: it is written as null.

    Raises:
        SglangError: no ruamel.yaml, no such file, or no such instance in it. Nothing was written then.
    """
    if RUAMEL_ERROR:
        raise SglangError(
            f"ruamel.yaml is missing on the controller ({RUAMEL_ERROR})",
            where=str(path),
            fix="pip install ruamel.yaml, or write the arguments by hand; they are printed above",
            kind="no_ruamel",
        )
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SglangError(f"cannot be read: {exc.strerror}", where=str(path), kind="no_file") from exc
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.explicit_start = before.startswith("---")
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    content = yaml.load(before)
    found = _find(content, instance)
    if found is None:
        raise SglangError(
            f"holds no instance {instance}",
            where=str(path),
            expected=f"sglang_instances with an entry name: {instance}",
            fix="name the file of host_vars or group_vars in which the instance stands (backend_matrix_write_to)",
            kind="no_instance",
        )
    own = found.setdefault("args", {})
    for key, value in args.items():
        # Ansible's strings know where they come from, and are of a class that YAML has no form for.
        own[key] = json.loads(json.dumps(value))
    text = io.StringIO()
    yaml.dump(content, text)
    after = text.getvalue()
    if after != before:
        mode = path.stat().st_mode & 0o7777
        _service.write_text(path, after, mode)
    return before, after


def _find(node: t.Any, instance: str) -> t.Any:
    """The entry of ``sglang_instances`` with that name, wherever in the file it stands (hosts.yml nests it)."""
    if isinstance(node, dict):
        entries = node.get("sglang_instances")
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict) and entry.get("name") == instance:
                    return entry
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            found = _find(each, instance)
            if found is not None:
                return found
    return None

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of a host as plain values, for the action plugins (controller only).

Every variable is rendered by itself, so that one that cannot be rendered is one finding and the rest is still
checked. Secrets are never decrypted here: a value that is encrypted, or an ``api_key`` in any form, is replaced by a
placeholder.
"""

from __future__ import annotations

import functools
import pathlib
import typing as t

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings

COLLECTION = pathlib.Path(__file__).resolve().parents[2]
STACKS_FILE = COLLECTION / "roles" / "nightly_stack" / "files" / "stacks.yml"
PROFILES_FOLDER = COLLECTION / "roles" / "sglang_service" / "files" / "profiles"
# What resolve reads of a host's variables.
READ = (
    "sglang_instances",
    "sglang_stacks",
    "sglang_profiles",
    "sglang_indexes",
    "sglang_hypervisor",
    "sglang_guest_kind",
    "sglang_vmid",
    "sglang_root",
    "sglang_user",
)
SECRET_KEYS = ("api_key",)
HIDDEN = "set, and not shown"

Render = t.Callable[[t.Any], t.Any]


def read_yaml(path: pathlib.Path) -> t.Any:
    """A YAML file of the collection; SglangError names the file if it is absent or broken."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except OSError as error:
        raise SglangError(
            f"cannot be read: {error.strerror}", str(path), "a file of the collection", "install the collection again"
        ) from error
    except yaml.YAMLError as error:
        raise SglangError(f"is no YAML: {str(error).splitlines()[0]}", str(path)) from error


@functools.cache
def shipped_stacks() -> dict[str, t.Any]:
    """The stacks that ship with the collection, by name."""
    stacks = read_yaml(STACKS_FILE)
    if not isinstance(stacks, dict):
        raise SglangError("holds no dictionary", str(STACKS_FILE))
    return stacks


@functools.cache
def shipped_profiles() -> dict[str, t.Any]:
    """The profiles that ship with the collection: file name without .yml to content."""
    return {path.stem: read_yaml(path) for path in sorted(PROFILES_FOLDER.glob("*.yml"))}


def plain_hostvars(host: str, raw: t.Mapping[str, t.Any], render: Render, findings: Findings) -> dict[str, t.Any]:
    """What ``resolve`` reads of a host's variables, rendered, without any secret.

    Args:
        host: inventory name, put in as ``inventory_hostname``.
        raw: the variables as they are written.
        render: renders one value in the host's context and raises AnsibleError if it cannot.
        findings: gets a problem for each value that cannot be rendered.
    """
    found: dict[str, t.Any] = {"inventory_hostname": host}
    for name in READ:
        if name in raw:
            value = _rendered(raw[name], name, render, findings)
            if value is not _ABSENT:
                found[name] = value
    return found


class _Absent:
    """Stands for a value that could not be rendered (its problem is noted)."""


_ABSENT = _Absent()


def _rendered(value: t.Any, where: str, render: Render, findings: Findings, secret: bool = False) -> t.Any:
    if isinstance(value, EncryptedString):
        return HIDDEN  # whether it can be decrypted is judged where it is used
    if isinstance(value, dict):
        entries = {}
        for key, entry in value.items():
            plain = _rendered(entry, f"{where}.{key}", render, findings, key in SECRET_KEYS)
            if plain is not _ABSENT:
                entries[str(key) if isinstance(key, str) else key] = plain
        return entries
    if isinstance(value, (list, tuple)):
        listed = [_rendered(entry, f"{where}[{index}]", render, findings) for index, entry in enumerate(value)]
        return [None if entry is _ABSENT else entry for entry in listed]
    if not isinstance(value, str):
        return value
    try:
        rendered = render(value)
    except AnsibleError as error:
        if secret and _is_locked(error):
            findings.problem(
                where,
                "is encrypted, and this run has no password that opens it",
                "a vault password",
                "add --ask-vault-pass or --vault-password-file FILE",
                "vault_locked",
            )
            return HIDDEN
        findings.problem(
            where,
            f"cannot be rendered: {_first_line(error)}",
            "an expression whose variables are set",
            "set the variable it names, or correct the expression",
            "template",
        )
        return HIDDEN if secret else _ABSENT
    if secret:
        return HIDDEN if isinstance(rendered, str) and rendered.strip() else rendered
    return _plain(rendered)


def _plain(value: t.Any) -> t.Any:
    """A rendered value without the engine's own types; secrets in it are hidden as above."""
    if isinstance(value, EncryptedString):
        return HIDDEN
    if isinstance(value, t.Mapping):
        return {
            str(key) if isinstance(key, str) else key: HIDDEN
            if key in SECRET_KEYS and isinstance(entry, str) and entry
            else _plain(entry)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, str) else value


def _is_locked(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if "vault" in type(seen).__name__.lower():
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _first_line(error: AnsibleError) -> str:
    """The reason, without the excerpt of the source file that ansible-core appends."""
    return str(error).strip().splitlines()[0][:200].rstrip(".")

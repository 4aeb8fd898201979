# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables the collection reads, and of what type, from the argument specs of its roles and playbooks."""

from __future__ import annotations

import datetime
import functools
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._findings import Findings, kind_of, nearest
from ansible_collections.blackwell.sglang.plugins.plugin_utils._hostvars import COLLECTION, READ, Render, read_yaml

# Inventory variables that no role's argument spec owns.
COLLECTION_WIDE = (*READ, "sglang_report_dir", "sglang_release_keep")
# What roles hand to each other; an inventory has no business with them, but a fact cache may hold them.
RESULTS = (
    "proxmox_gpu_result",
    "gpu_host_result",
    "nightly_stack_result",
    "sgl_kernel_result",
    "sglang_service_result",
    "sglang_resolved",
    "sglang_resolve_result",
    "sglang_validate_result",
    "sglang_failure",
)
GROUPS = ("sglang_hosts", "proxmox_hosts")
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str, int, float), "text"),
    "path": ((str,), "a path"),
    "raw": ((object,), "anything"),
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "list": ((list, tuple), "a list"),
    "dict": ((dict,), "a dictionary"),
}
_TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0")


@functools.cache
def specs() -> dict[str, dict[str, t.Any]]:
    """Variable name to its option in an argument spec, over all roles and playbooks; empty for collection-wide ones."""
    found: dict[str, dict[str, t.Any]] = {name: {} for name in (*COLLECTION_WIDE, *RESULTS)}
    files = [*COLLECTION.glob("roles/*/meta/argument_specs.yml"), *COLLECTION.glob("playbooks/*.meta.yml")]
    for path in sorted(files):
        content = read_yaml(path)
        entries = content.get("argument_specs") if isinstance(content, dict) else None
        for entry in (entries or {}).values():
            for name, option in ((entry or {}).get("options") or {}).items():
                if name not in COLLECTION_WIDE:
                    found[str(name)] = option or {}
    return found


@functools.cache
def prefixes() -> tuple[str, ...]:
    """Beginnings of names that belong to this collection: ``sglang_`` and each role's name."""
    roles = sorted(path.name for path in (COLLECTION / "roles").iterdir() if path.is_dir())
    return ("sglang_", *(f"{role}_" for role in roles))


@functools.cache
def misspelling(name: str) -> tuple[str, ...] | None:
    """Nearest known names of a variable that nobody reads; None for one that is known or none of ours."""
    if name in specs() or name.startswith(("ansible_", "__")):
        return None
    if name.startswith(prefixes()):
        return tuple(nearest(name, specs(), 0.6))
    # A slip in the beginning itself: slgang_instances, sglan_vmid. Only near misses count: the name may be anybody's.
    if len(name) > 6 and name[:1] in "sgnpbd":
        return tuple(nearest(name, specs(), 0.9)) or None
    return None


def check_names(variables: t.Iterable[str], findings: Findings) -> None:
    """Report variables with this collection's prefixes that nobody reads."""
    for name in sorted(variables):
        close = misspelling(name)
        if close is not None:
            findings.problem(
                name,
                "is no variable that the collection reads",
                "a known name",
                f"write {' or '.join(close)}" if close else "rename it, or remove it",
                "unknown_variable",
            )


def check_types(variables: t.Mapping[str, t.Any], render: Render, findings: Findings) -> None:
    """Report role variables whose value does not fit the type or the choices of their argument spec.

    Values are not shown: any of them may be a secret. One that cannot be rendered here is left to the role, whose
    defaults it may need.
    """
    for name in sorted(set(variables) & set(specs())):
        option = specs()[name]
        if not option:
            continue
        try:
            value = render(variables[name])
        except Exception:
            continue
        if value is None:
            continue
        allowed, said = _TYPES.get(option.get("type", "str"), _TYPES["raw"])
        if not _fits(value, option.get("type", "str"), allowed):
            findings.problem(name, f"is {kind_of(value)}", said, f"write {name} as {said}", "type")
        elif option.get("choices") and not isinstance(value, (list, dict)) and value not in option["choices"]:
            listed = ", ".join(map(str, option["choices"]))
            findings.problem(
                name,
                "has a value that is not among its choices",
                f"one of {listed}",
                f"write {name}: {option['choices'][0]}",
                "choice",
            )


def _fits(value: t.Any, kind: str, allowed: tuple[type, ...]) -> bool:
    if kind == "bool":
        return isinstance(value, bool) or str(value).lower() in _TRUTH
    if kind in ("int", "float") and isinstance(value, str):
        return value.strip().lstrip("-").replace(".", "", 1 if kind == "float" else 0).isdigit()
    if isinstance(value, bool) and kind != "raw":
        return False
    if isinstance(value, (datetime.date, datetime.datetime)):
        return kind in ("str", "raw")
    return isinstance(value, allowed)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stacks as an inventory writes them: merged over the shipped ones, checked, digested (private to the collection)."""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_series
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._findings import (
    Findings,
    Table,
    deep_merge,
    did_you_mean,
    kind_of,
    plain,
    shown,
)

CHANNELS = ("nightly", "stable", "wheelhouse")
INDEXES = ("default", "pytorch", "flashinfer")
STACK_KEYS = (
    "channel",
    "description",
    "engine_version",
    "exceptions",
    "indexes",
    "kernel",
    "overrides",
    "python",
    "requirements",
    "source",
    "wheelhouse",
)
REQUIREMENT_KEYS = ("version", "index", "prerelease")
KERNEL_KEYS = (
    "build",
    "cmake_args",
    "commit",
    "cuda_arch_list",
    "distribution",
    "env",
    "patches",
    "repository",
    "series",
    "subdirectory",
    "version",
)
# What resolve adds to a stack, and what only says where it comes from; no part of what is installed.
ADDED_KEYS = ("name", "digest", "engine_version", "exceptions", "description", "source", "wheelhouse")
_URL_STARTS = ("http://", "https://", "file://", "/")


def stack_digest(stack: t.Mapping[str, t.Any]) -> str:
    """First 12 hex digits of SHA-256 over the canonical JSON of what a resolved stack installs.

    Exceptions, descriptions and what resolve adds (``name``, ``digest``, ``engine_version``) do not count, so lifting a
    guard or renaming a stack builds no new release.
    """
    body = {key: value for key, value in stack.items() if key not in ADDED_KEYS}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def engine_version(stack: t.Mapping[str, t.Any]) -> str | None:
    """The SGLang version that a stack installs: its ``engine_version`` if it has one, else the exact pin, else None."""
    said = stack.get("engine_version")
    if not said:
        requirements = stack.get("requirements")
        wanted = requirements.get("sglang") if isinstance(requirements, dict) else None
        clause = wanted.get("version") if isinstance(wanted, dict) else wanted
        if not isinstance(clause, str) or "," in clause or not clause.strip().startswith("=="):
            return None
        said = clause.strip().lstrip("=").strip()
    parsed = EngineVersion.try_parse(str(said))
    return str(said) if parsed is not None else None


def resolved_stack(name: str, shipped: Table, own: Table, indexes: Table, findings: Findings) -> Table:
    """One stack: the inventory's over the shipped one, ``sglang_indexes`` over its indexes; problems are collected."""
    base = shipped.get(name)
    over = own.get(name)
    where = f"sglang_stacks.{name}"
    if over is not None and not isinstance(over, dict):
        findings.problem(
            where,
            f"is {kind_of(over)}",
            "a dictionary such as {channel: nightly, requirements: {...}}",
            f"write {where} as a dictionary, or remove it",
            "type",
        )
        over = None
    stack = deep_merge(base if isinstance(base, dict) else {}, over or {})
    if indexes:
        current = stack.get("indexes")
        stack = dict(stack, indexes=deep_merge(current if isinstance(current, dict) else {}, indexes))
    _check(stack, where, findings)
    stack = plain(stack)
    kernel = stack.get("kernel")
    if isinstance(kernel, dict) and kernel.get("series") is not None:
        series = _stack_series.load(kernel["series"], f"{where}.kernel.series", findings)
        stack = dict(stack, kernel=dict(kernel, series=series))
    return dict(stack, name=name, digest=stack_digest(stack), engine_version=engine_version(stack))


def _check(stack: Table, where: str, findings: Findings) -> None:
    findings.table(stack, where)
    findings.known_keys({key: None for key in stack if isinstance(key, str)}, where, STACK_KEYS)
    findings.choice(stack.get("channel", "nightly"), f"{where}.channel", CHANNELS, "nightly")
    for index, python in enumerate(findings.listing(stack.get("python"), f"{where}.python", '["3.12"]')):
        if not (isinstance(python, str) and python.count(".") == 1 and python.replace(".", "").isdigit()):
            findings.problem(
                f"{where}.python[{index}]",
                f"is {shown(python)}",
                'a quoted version such as "3.12"',
                f'write "{python}" in quotes' if isinstance(python, float) else 'write "3.12"',
                "type",
            )
    check_indexes(findings.table(stack.get("indexes"), f"{where}.indexes"), f"{where}.indexes", findings)
    _check_requirements(stack, where, findings)
    for key in ("overrides",):
        for index, entry in enumerate(findings.listing(stack.get(key), f"{where}.{key}", "[torch]")):
            findings.text(entry, f"{where}.{key}[{index}]", "torch")
    _check_wheelhouse(stack.get("wheelhouse"), f"{where}.wheelhouse", findings)
    if stack.get("kernel") is not None:
        _check_kernel(findings.table(stack["kernel"], f"{where}.kernel"), f"{where}.kernel", findings)


def _check_wheelhouse(wheelhouse: t.Any, where: str, findings: Findings) -> None:
    if wheelhouse is None:
        return
    if not isinstance(wheelhouse, str) or not pathlib.Path(wheelhouse).is_file():
        findings.problem(
            where,
            f"is {shown(wheelhouse)}, and there is no such file on the controller",
            "the absolute path of a file that playbooks/wheelhouse.yml made",
            f"correct {where}, or remove it to install from the indexes",
            "wheelhouse",
        )


def check_indexes(indexes: Table, where: str, findings: Findings) -> Table:
    """Those of the indexes (name to URL) that are usable; the others are problems."""
    usable = {}
    for name, url in indexes.items():
        if isinstance(url, str) and url.startswith(_URL_STARTS):
            usable[name] = url
            continue
        findings.problem(
            f"{where}.{name}",
            f"is {shown(url)}",
            "the URL of a wheel index, or a folder",
            f"write {where}.{name}: https://pypi.org/simple",
            "type",
        )
    return usable


def _check_requirements(stack: Table, where: str, findings: Findings) -> None:
    place = f"{where}.requirements"
    requirements = findings.table(stack.get("requirements"), place, "{sglang: {version: ==0.5.12.post1}}")
    indexes = stack.get("indexes") if isinstance(stack.get("indexes"), dict) else {}
    for name, asked in requirements.items():
        entry = findings.table(asked, f"{place}.{name}", '{version: "==1.0", index: default}')
        findings.known_keys(entry, f"{place}.{name}", REQUIREMENT_KEYS)
        version = entry.get("version")
        if version is not None and not isinstance(version, str):
            findings.problem(
                f"{place}.{name}.version",
                f"is {kind_of(version)}",
                'text such as "==0.5.12.post1"',
                f'quote it: "=={version}"',
                "type",
            )
        index = entry.get("index")
        if index not in (None, "default") and index not in (indexes or {}):
            findings.problem(
                f"{place}.{name}.index",
                f"is {shown(index)}, which {where}.indexes does not name",
                "one of " + (", ".join(sorted(map(str, indexes or {}))) or "the stack's indexes"),
                did_you_mean(str(index), map(str, indexes or {}), f"add {where}.indexes.{index}: URL"),
                "unknown_index",
            )


def _check_kernel(kernel: Table, where: str, findings: Findings) -> None:
    findings.known_keys(kernel, where, KERNEL_KEYS)
    findings.choice(kernel.get("build", "source"), f"{where}.build", ("source", "wheel"), "source")
    for index, word in enumerate(findings.listing(kernel.get("cmake_args"), f"{where}.cmake_args", '["-DX=ON"]')):
        findings.text(word, f"{where}.cmake_args[{index}]", '"-DX=ON"')
    arches = kernel.get("cuda_arch_list")
    if arches is not None and not isinstance(arches, str):
        findings.problem(
            f"{where}.cuda_arch_list",
            f"is {kind_of(arches)}",
            'text such as "12.0a"',
            'write "12.0a" in quotes',
            "type",
        )
    patches = kernel.get("patches", "auto")
    if patches != "auto":
        findings.listing(patches, f"{where}.patches", "auto, or a list of patch ids")
    findings.table(kernel.get("env"), f"{where}.env")

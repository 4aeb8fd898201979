# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack to what uv resolves, and from uv's lock to a list of changes (private to the collection).

The lock is pip's requirements format with hashes, as ``uv export`` writes it: it installs with ``--require-hashes`` by
uv and pip alike. Its comments carry who asked for a package (``# via``) and its index (``# from``).
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

PROJECT = "sglang-stack"
# A release is for one host, so nothing is resolved for other systems.
ENVIRONMENT = "implementation_name == 'cpython' and platform_machine == '{machine}' and sys_platform == 'linux'"
# Both names of the kernel own the same files, so a source build must keep either from coming in as a wheel.
KERNEL_DISTRIBUTIONS = ("sglang-kernel", "sgl-kernel")

_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_REGISTRY = re.compile(
    r'^\[\[package\]\]\nname = "([^"]+)"\n(?:version = "[^"]*"\n)?source = \{ registry = "([^"]+)"', re.MULTILINE
)
_HASH = re.compile(r"--hash=(\w+:[0-9a-f]+)")
_DIST_INFO = re.compile(r"^(?P<name>.+?)-(?P<version>[^-]+)\.dist-info$")
_LOCAL = re.compile(r"\+([A-Za-z0-9.]+)$")


@dataclasses.dataclass
class Package:
    """One resolved package: ``index`` is the URL it comes from, ``via`` who requires it (distribution names)."""

    name: str
    version: str
    index: str | None = None
    hashes: list[str] = dataclasses.field(default_factory=list)
    via: list[str] = dataclasses.field(default_factory=list)

    def as_dict(self) -> dict[str, t.Any]:
        """The fields, for a module's result."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Change:
    """What the plan does to one distribution; ``action`` is add, remove, upgrade, downgrade, rebuild or keep."""

    name: str
    before: str | None
    after: str | None
    action: str


def normalize(name: str) -> str:
    """The name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def local_part(version: str) -> str:
    """The build tag of a version, such as ``cu130``; empty without one."""
    match = _LOCAL.search(version)
    return match.group(1) if match else ""


def is_prerelease(version: str) -> bool:
    """Whether a version is an alpha, beta, candidate or development release."""
    return bool(re.search(r"(?:\d(?:a|b|rc)\d)|\.dev\d", version.split("+", maxsplit=1)[0]))


def requirement(name: str, asked: t.Mapping[str, t.Any]) -> str:
    """One requirement of a stack as pip writes it: ``torch==2.12.0.dev20260307+cu130``."""
    extras = asked.get("extras") or []
    listed = f"[{','.join(extras)}]" if extras else ""
    return f"{name}{listed}{asked.get('version') or ''}"


def overrides(stack: t.Mapping[str, t.Any]) -> list[str]:
    """Lines that win over what others require: the stack's ``overrides``, and no kernel wheel where one is built."""
    requirements = {normalize(name): asked or {} for name, asked in (stack.get("requirements") or {}).items()}
    lines = []
    for name in stack.get("overrides") or []:
        lines.append(requirement(name, requirements.get(normalize(name), {})))
    if (stack.get("kernel") or {}).get("build") == "source":
        # A marker that is never true takes the distribution out of the resolution.
        lines += [f"{name} ; python_version < '0'" for name in KERNEL_DISTRIBUTIONS]
    return lines


def project_file(stack: t.Mapping[str, t.Any], python: str, machine: str = "x86_64") -> str:
    """The pyproject.toml that uv resolves: requirements, and each index asked only for what is pinned to it.

    An index other than ``default`` is ``explicit``, so a package of the same name on it is never taken by chance. The
    overrides stand in here and not on the command line, since only here they keep the index that they are pinned to.
    """
    requirements: dict[str, dict[str, t.Any]] = {
        name: asked or {} for name, asked in (stack.get("requirements") or {}).items()
    }
    lines = [requirement(name, asked) for name, asked in requirements.items()]
    kernel = stack.get("kernel") or {}
    if kernel.get("build") == "wheel" and kernel.get("distribution") and kernel["distribution"] not in requirements:
        lines.append(
            f"{kernel['distribution']}=={kernel['version']}" if kernel.get("version") else kernel["distribution"]
        )
    text = [
        "[project]",
        f'name = "{PROJECT}"',
        'version = "0"',
        f'requires-python = "=={python}.*"',
        f"dependencies = {json.dumps(lines, indent=2)}",
        "",
        "[tool.uv]",
        "package = false",
        f"environments = [{json.dumps(ENVIRONMENT.format(machine=machine))}]",
        f"override-dependencies = {json.dumps(overrides(stack), indent=2)}",
        "",
    ]
    indexes = stack.get("indexes") or {}
    pinned = {name: asked["index"] for name, asked in requirements.items() if asked.get("index") in indexes}
    pinned = {name: index for name, index in pinned.items() if index != "default"}
    if pinned:
        text.append("[tool.uv.sources]")
        text += [f"{json.dumps(name)} = {{ index = {json.dumps(index)} }}" for name, index in pinned.items()]
        text.append("")
    for name, url in indexes.items():
        mark = "default = true" if name == "default" else "explicit = true"
        text += ["[[tool.uv.index]]", f"name = {json.dumps(name)}", f"url = {json.dumps(url)}", mark, ""]
    return "\n".join(text)


def write_lock(exported: str, uv_lock: str, machine: str = "x86_64") -> str:
    """The lock that is kept: what ``uv export`` printed, with the index of each package out of uv.lock.

    Markers that only say what :data:`ENVIRONMENT` says are dropped, since they hold on every host that reads the lock.
    """
    indexes = {normalize(name): url for name, url in _REGISTRY.findall(uv_lock)}
    lines: list[str] = []
    current: str | None = None
    marker = f" ; {ENVIRONMENT.format(machine=machine)}"
    for line in exported.splitlines():
        match = _PINNED.match(line)
        if match or not line.strip():
            lines += _from(current, indexes)
            current = normalize(match["name"]) if match else None
        lines.append(line.replace(marker, ""))
    lines += _from(current, indexes)
    return "\n".join(lines).strip() + "\n"


def read_lock(text: str) -> dict[str, Package]:
    """Read a lock into packages by normalized name.

    Raises:
        SglangError: the text names no package.
    """
    packages: dict[str, Package] = {}
    current: Package | None = None
    in_via = False
    for line in text.splitlines():
        match = _PINNED.match(line)
        if match:
            current = Package(normalize(match["name"]), match["version"])
            packages[current.name] = current
            in_via = False
        if current is None:
            continue
        current.hashes += _HASH.findall(line)
        comment = line.strip()
        if not comment.startswith("#"):
            continue
        body = comment.lstrip("#").strip()
        if body.startswith("from "):
            current.index = body[5:].strip()
            in_via = False
        elif body == "via":
            in_via = True
        elif body.startswith("via "):
            current.via.append(_requirer(body[4:]))
            in_via = True
        elif in_via and body:
            current.via.append(_requirer(body))
    if not packages:
        raise SglangError("the lock names no package", expected="lines such as torch==2.11.0 --hash=sha256:...")
    return packages


def read_environment(site_packages: str | pathlib.Path) -> dict[str, str]:
    """Distributions of an environment and their versions, from its ``*.dist-info`` folders; empty if it is missing."""
    found: dict[str, str] = {}
    folder = pathlib.Path(site_packages)
    if not folder.is_dir():
        return found
    for entry in sorted(folder.iterdir()):
        match = _DIST_INFO.match(entry.name)
        if match:
            found[normalize(match["name"])] = match["version"]
    return found


def site_packages(venv: str | pathlib.Path) -> pathlib.Path:
    """The folder of an environment's packages; one that does not exist if the environment is not there."""
    found = sorted(pathlib.Path(venv).glob("lib/python3*/site-packages"))
    return found[-1] if found else pathlib.Path(venv, "lib/python3/site-packages")


def compare(before: str, after: str) -> int:
    """-1, 0 or 1 as ``after`` is older than, equal to or newer than ``before``, build tags aside.

    Versions that cannot be read compare as text.
    """
    old, new = EngineVersion.try_parse(before), EngineVersion.try_parse(after)
    if old is None or new is None:
        return (after > before) - (after < before)
    return (new > old) - (new < old)


def changes(before: t.Mapping[str, str], packages: t.Mapping[str, Package]) -> list[Change]:
    """What installing the resolution changes in an environment, by name."""
    result = []
    for name in sorted({*before, *packages}):
        old = before.get(name)
        new = packages[name].version if name in packages else None
        if old is None:
            action = "add"
        elif new is None:
            action = "remove"
        elif old == new:
            action = "keep"
        else:
            action = {1: "upgrade", -1: "downgrade", 0: "rebuild"}[compare(old, new)]
        result.append(Change(name, old, new, action))
    return result


def chain(name: str, packages: t.Mapping[str, Package]) -> list[str]:
    """Who asks for a package: from the stack down to it, one step each, shortest way first found.

    ``["sglang-stack", "sglang 0.5.9", "torch 2.9.1"]`` reads: the stack asks for sglang, sglang asks for torch.
    """
    queue: list[list[str]] = [[normalize(name)]]
    seen = {normalize(name)}
    best = queue[0]
    while queue:
        way = queue.pop(0)
        package = packages.get(way[-1])
        # A direct requirement is also one of the stack; the way through another package explains more.
        requirers = [other for other in (package.via if package else []) if other != PROJECT or len(way) > 1]
        if package is not None and not requirers and PROJECT in package.via:
            best = [*way, PROJECT]
            break
        if way[-1] == PROJECT:
            best = way
            break
        # The lock does not say who pins and who merely requires; SGLang is the one that pins everything with ==.
        for other in sorted(requirers, key=lambda requirer: requirer != "sglang"):
            if other not in seen:
                seen.add(other)
                queue.append([*way, other])
    return [f"{step} {packages[step].version}" if step in packages else step for step in reversed(best)]


def _from(name: str | None, indexes: t.Mapping[str, str]) -> list[str]:
    return [f"    # from {indexes[name]}"] if name is not None and name in indexes else []


def _requirer(text: str) -> str:
    return normalize(text.split("(", maxsplit=1)[0].split("[", maxsplit=1)[0].strip())

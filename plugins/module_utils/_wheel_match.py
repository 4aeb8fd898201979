# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of an index fit a host, and what there is of FlashInfer for a torch (private to the collection).

Sources: PEP 425 and 427 (file names and tags), PEP 600 (manylinux_X_Y), PEP 440 (specifiers). Targets have no
``packaging`` library before gpu_host ran, hence a reader of our own; the unit tests hold it against ``packaging``.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_plan import is_prerelease, local_part, normalize
from ansible_collections.blackwell.sglang.plugins.module_utils._wheel_index import IndexFile, Project

# The glibc that the old manylinux names stand for (PEP 600).
LEGACY_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_WHEEL = re.compile(
    r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-(?P<build>\d[^-]*))?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl$"
)
_CLAUSE = re.compile(r"^(===|==|!=|>=|<=|~=|>|<)\s*([^\s]+)$")
_TORCH_BOUND = re.compile(r"^cu\d+torch(\d+\.\d+)$")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?$")


@dataclasses.dataclass(frozen=True)
class Target:
    """A host: interpreter ``3.12``, machine ``x86_64``, its glibc, and the build tag of CUDA (``cu130``) or None."""

    python: str
    machine: str = "x86_64"
    glibc: tuple[int, int] = (2, 28)
    cuda: str | None = None

    @property
    def minor(self) -> int:
        """The interpreter's minor version."""
        return int(self.python.split(".")[1])


@dataclasses.dataclass(frozen=True)
class Wheel:
    """What the name of a wheel says."""

    name: str
    version: str
    python: tuple[str, ...]
    abi: tuple[str, ...]
    platform: tuple[str, ...]


def read_name(filename: str) -> Wheel | None:
    """Read the name of a wheel; None for another kind of file."""
    match = _WHEEL.match(filename)
    if match is None:
        return None
    tags = (tuple(match[key].split(".")) for key in ("python", "abi", "platform"))
    return Wheel(normalize(match["name"]), match["version"].replace("_", "-"), *tags)


def fits(wheel: Wheel, target: Target) -> bool:
    """Whether a wheel can be installed on a host: one of its interpreters, ABIs and platforms is the host's."""
    if not any(_platform_fits(tag, target) for tag in wheel.platform):
        return False
    return any(_python_fits(python, abi, target.minor) for python in wheel.python for abi in wheel.abi)


def admits(specifier: str | None, version: str) -> bool:
    """Whether a version satisfies a PEP 440 specifier such as ``>=3.10,<4``; one that cannot be read admits all.

    Build tags of the version count only where the clause has one, as PEP 440 says.
    """
    found = EngineVersion.try_parse(version)
    for clause in filter(None, (part.strip() for part in (specifier or "").split(","))):
        match = _CLAUSE.match(clause)
        if match is None or found is None:
            continue
        operator, text = match.groups()
        if text.endswith(".*"):
            if _starts(version, _release(text[:-2])) != (operator == "=="):
                return False
            continue
        bound = EngineVersion.try_parse(text)
        if bound is None:
            continue
        equal = found == bound and (not local_part(text) or local_part(text) == local_part(version))
        compatible = found >= bound and _starts(version, _release(text)[:-1])
        # Exclusive comparisons leave out the bound's own post-releases and pre-releases.
        near = _starts(version, _release(text)) and _starts(text, _release(version))
        above = found > bound and not (near and ".post" in version and ".post" not in text)
        below = found < bound and not (near and is_prerelease(version) and not is_prerelease(text))
        holds = {
            "==": equal, "===": version == text, "!=": not equal, ">=": found >= bound, "<=": found <= bound,
            "~=": compatible, ">": above, "<": below,
        }[operator]  # fmt: skip
        if not holds:
            return False
    return True


def requires(metadata: t.Mapping[str, list[str]] | None, name: str) -> str | None:
    """The specifier by which a distribution requires another; empty for any version, None if it does not.

    Requirements of extras do not count.
    """
    for line in (metadata or {}).get("Requires-Dist", []):
        match = _REQUIREMENT.match(line.strip())
        if match and normalize(match[1]) == normalize(name) and "extra" not in (match[3] or ""):
            return match[2].strip()
    return None


def usable(project: Project, target: Target, *, yanked: bool = False) -> dict[str, list[IndexFile]]:
    """Files that fit a host by version, oldest version first.

    A version with a CUDA build tag counts only for the host's own CUDA; one without any counts always.
    """
    found: dict[str, list[IndexFile]] = {}
    for entry in project.files:
        wheel = read_name(entry.name)
        if wheel is None or (entry.yanked is not None and not yanked):
            continue
        tag = re.match(r"cu\d+|cpu|rocm|xpu", local_part(wheel.version))
        if target.cuda and tag and tag.group(0) != target.cuda:
            continue
        if fits(wheel, target) and admits(entry.requires_python, target.python):
            found.setdefault(wheel.version, []).append(entry)
    return {version: found[version] for version in sorted(found, key=_sort_key)}


def flashinfer(
    projects: t.Mapping[str, Project],
    target: Target,
    torch: str,
    torch_requirement: str | None = None,
    wanted: str | None = None,
) -> dict[str, t.Any]:
    """Is there a FlashInfer build for this torch, and if not, which decoupled parts are there?

    Until 0.2 FlashInfer was built per torch (``+cu124torch2.6``). Since then flashinfer-python is pure, the jit-cache
    is built per CUDA only and independent of torch's ABI (it goes through TVM-FFI), and the cubins are data.

    Args:
        projects: ``flashinfer-python``, ``flashinfer-jit-cache`` and ``flashinfer-cubin`` as their indexes have them.
        target: the host.
        torch: the torch that will be installed, such as ``2.12.0.dev20260307+cu130``.
        torch_requirement: what flashinfer-python's metadata asks of torch; None if it asks nothing or is unknown.
        wanted: a version of FlashInfer; else the newest with most parts.
    """
    parts: dict[str, dict[str, str]] = {}
    bound = []
    series = ".".join(torch.split("+", maxsplit=1)[0].split(".")[:2])
    for part in ("flashinfer-python", "flashinfer-jit-cache", "flashinfer-cubin"):
        project = projects.get(part)
        for version in usable(project, target) if project is not None else {}:
            match = _TORCH_BOUND.match(local_part(version))
            if match:
                bound += [version] if match[1] == series else []
                continue
            parts.setdefault(version.split("+")[0], {})[part] = version
    complete = [
        version for version, have in parts.items() if {"flashinfer-python", "flashinfer-jit-cache"} <= set(have)
    ]
    candidates = complete or [version for version, have in parts.items() if "flashinfer-python" in have]
    chosen = wanted if wanted is not None else max(candidates, key=_sort_key, default=None)
    have = parts.get(chosen or "", {})
    admitted = torch_requirement is None or admits(torch_requirement, torch)
    decoupled = {part: have.get(part) for part in ("flashinfer-python", "flashinfer-jit-cache", "flashinfer-cubin")}
    return {
        "torch": torch,
        "build": max(bound, key=_sort_key, default=None),
        "version": chosen,
        "decoupled": decoupled,
        "usable": bool(bound) or (decoupled["flashinfer-python"] is not None and admitted),
        "torch_admitted": admitted,
        "versions": sorted(parts, key=_sort_key),
        "answer": _answer(torch, bound, chosen, decoupled, admitted),
    }


def _answer(
    torch: str,
    bound: list[str],
    chosen: str | None,
    decoupled: t.Mapping[str, str | None],
    admitted: bool,
) -> str:
    if bound:
        return f"FlashInfer {max(bound, key=_sort_key)} was built for torch {torch}."
    if decoupled["flashinfer-python"] is None:
        return f"There is no FlashInfer {chosen or ''} for this host.".replace("  ", " ")
    if not admitted:
        return f"FlashInfer {chosen} does not admit torch {torch}."
    has = [f"{part} {version}" for part, version in decoupled.items() if version is not None]
    lacks = {
        "flashinfer-jit-cache": "its kernels are compiled at first use, which needs nvcc on the host",
        "flashinfer-cubin": "its cubins are downloaded at first use",
    }
    missing = [f"there is no {part} ({why})" for part, why in lacks.items() if decoupled[part] is None]
    return (
        f"No FlashInfer was built for torch {torch}, and none needs to be: {', '.join(has)} "
        "do not depend on torch's ABI" + (f"; {'; '.join(missing)}." if missing else ".")
    )


def _python_fits(python: str, abi: str, minor: int) -> bool:
    if abi == "none":
        if python in ("py3", "py2.py3", f"cp3{minor}"):
            return True
        match = re.fullmatch(r"py3(\d+)", python)
        return match is not None and int(match[1]) <= minor
    match = re.fullmatch(r"cp3(\d+)", python)
    if match is None:
        return False
    return int(match[1]) <= minor if abi == "abi3" else int(match[1]) == minor and abi == f"cp3{minor}"


def _platform_fits(tag: str, target: Target) -> bool:
    if tag in ("any", f"linux_{target.machine}"):
        return True
    match = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{target.machine}", tag)
    if match:
        return (int(match[1]), int(match[2])) <= target.glibc
    name = tag.removesuffix(f"_{target.machine}")
    return name != tag and LEGACY_MANYLINUX.get(name, (99, 0)) <= target.glibc


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match.group(0).split(".")) if match else ()


def _starts(version: str, prefix: tuple[int, ...]) -> bool:
    release = _release(version)
    return (release + (0,) * len(prefix))[: len(prefix)] == prefix


def _sort_key(text: str) -> tuple[bool, EngineVersion, str]:
    parsed = EngineVersion.try_parse(text)
    return parsed is not None, parsed or EngineVersion.parse("0"), text

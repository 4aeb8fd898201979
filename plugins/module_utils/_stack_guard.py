# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guard: what a plan must not do, since the resolver does it without a word (private to the collection).

uv and pip exit 0 on a plan that takes torch from a nightly back to a release; each rule here names what would happen,
the chain of requirements that causes it, and what to write. A refusal is lifted by an exception of the stack that
names its id (``downgrade:torch``) or its rule (``downgrade``).
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine import known_bad
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_plan import (
    KERNEL_DISTRIBUTIONS,
    Package,
    chain,
    changes,
    is_prerelease,
    local_part,
    normalize,
)

# What is built against one torch and moves with it.
TORCH_COMPANIONS = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton", "torchao", "torchcodec")
FLASHINFER_PARTS = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")
# Distributions that install files of the same names.
SAME_FILES = (KERNEL_DISTRIBUTIONS, ("pytorch-triton", "triton"), ("pynvml", "nvidia-ml-py"))
# CUDA's redistributable libraries; other nvidia-* wheels (cutlass-dsl-libs-cu12, mathdx) may stand side by side.
CUDA_LIBRARY = re.compile(
    r"^nvidia-(?:cublas|cuda-runtime|cuda-nvrtc|cuda-cupti|cudnn|cufft|curand|cusolver|cusparse|cusparselt|nccl"
    r"|nvjitlink|nvshmem|nvtx)-cu(?P<major>\d+)$"
)
# Since CUDA 13 the toolkit's own libraries carry no suffix and their version says the major.
CUDA_PLAIN = re.compile(r"^nvidia-(?:cublas|cuda-runtime|cuda-nvrtc|cuda-cupti|nvjitlink|nvtx)$")


@dataclasses.dataclass
class Finding:
    """One thing that the guard says; ``severity`` is refuse or warn, ``lifted`` the reason of an exception."""

    id: str
    what: str
    chain: list[str]
    fix: str
    severity: str = "refuse"
    lifted: str | None = None

    def text(self) -> str:
        """One paragraph that a person can act on."""
        way = f" Because: {' -> '.join(self.chain)}." if len(self.chain) > 1 else ""
        lift = f" To allow it, give the stack an exception {{id: '{self.id}', reason: ...}}."
        return f"[{self.id}] {self.what}.{way} Fix: {self.fix}.{lift if self.severity == 'refuse' else ''}"

    def as_dict(self) -> dict[str, t.Any]:
        """The fields, for a module's result."""
        return dataclasses.asdict(self)


def judge(
    stack: t.Mapping[str, t.Any],
    packages: t.Mapping[str, Package],
    before: t.Mapping[str, str],
    today: datetime.date | None = None,
) -> list[Finding]:
    """All findings about a plan, refusals that nothing lifts first.

    Args:
        stack: the resolved stack (``requirements``, ``indexes``, ``kernel``, ``exceptions``).
        packages: what the resolver chose.
        before: distribution to version of the release that is in use now; empty on a new host.
        today: the day on which an exception's ``until`` is judged.
    """
    findings: list[Finding] = []
    for rule in (_downgrade, _builds, _flashinfer, _same_files, _cuda_majors, _prereleases, _indexes, _known_bad):
        findings += rule(stack, packages, before)
    _lift(findings, stack.get("exceptions") or [], today or datetime.date.today())
    return sorted(findings, key=lambda finding: (finding.lifted is not None, finding.severity, finding.id))


def refusals(findings: t.Iterable[Finding]) -> list[Finding]:
    """Those that stop a run."""
    return [finding for finding in findings if finding.severity == "refuse" and finding.lifted is None]


Rule = t.Callable[[t.Mapping[str, t.Any], t.Mapping[str, Package], t.Mapping[str, str]], list[Finding]]


def _downgrade(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    found = []
    for change in changes(before, packages):
        if change.name in TORCH_COMPANIONS and change.action == "downgrade":
            found.append(
                Finding(
                    f"downgrade:{change.name}",
                    f"{change.name} would go down from {change.before} to {change.after}",
                    chain(change.name, packages),
                    f"pin {change.name} in the stack's requirements and name it in its overrides",
                )
            )
    return found


def _builds(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    found = []
    for name in TORCH_COMPANIONS:
        package = packages.get(name)
        if package is None:
            continue
        old, new = local_part(before.get(name, "")), local_part(package.version)
        if old.startswith("cu") and old != new and package.version != before.get(name):
            tag = new or "none"
            what = f"{name} would leave its CUDA build: {before[name]} to {package.version} (build tag {tag})"
        elif new == "cpu":
            what = f"{name} {package.version} is a build without CUDA"
        else:
            continue
        fix = f"pin {name} with its build tag, from the index that has it: {{version: '==...+cu130', index: pytorch}}"
        found.append(Finding(f"build:{name}", what, chain(name, packages), fix))
    return found


def _flashinfer(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    parts = {name: packages[name].version.split("+")[0] for name in FLASHINFER_PARTS if name in packages}
    if len(set(parts.values())) < 2:
        return []
    listed = ", ".join(f"{name} {version}" for name, version in parts.items())
    wanted = parts.get("flashinfer-python", "X")
    odd = next(name for name, version in parts.items() if version != wanted) if "flashinfer-python" in parts else ""
    return [
        Finding(
            "flashinfer-parts",
            f"the parts of FlashInfer differ ({listed}); it refuses to be imported then",
            chain("flashinfer-python", packages) if "flashinfer-python" in packages else [],
            f"pin {odd or 'the parts'} to {wanted}, or leave it out of the stack",
        )
    ]


def _same_files(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    present = set(packages)
    kernel = stack.get("kernel") or {}
    if kernel.get("build") == "source" and kernel.get("distribution"):
        present.add(normalize(kernel["distribution"]))
    found = []
    for group in SAME_FILES:
        both = [name for name in group if name in present]
        # nvidia-ml-py replaced pynvml's module, and current pynvml only depends on it.
        if len(both) < 2 or group[0] == "pynvml":
            continue
        listed = " and ".join(both)
        ways = [step for name in both if name in packages for step in chain(name, packages)]
        fix = f"leave one of them out: add \"{both[-1]} ; python_version < '0'\" to the overrides"
        found.append(Finding(f"same-files:{'+'.join(both)}", f"{listed} install the same files", ways, fix))
    return found


def _cuda_majors(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    majors: dict[str, list[str]] = {}
    for name, package in packages.items():
        match = CUDA_LIBRARY.match(name)
        if match:
            majors.setdefault(match["major"], []).append(name)
        elif CUDA_PLAIN.match(name):
            majors.setdefault(package.version.split(".")[0], []).append(name)
    if len(majors) < 2:
        return []
    listed = "; ".join(f"CUDA {major}: {', '.join(sorted(names))}" for major, names in sorted(majors.items()))
    rare = min(majors.values(), key=len)[0]
    return [
        Finding(
            "cuda-majors",
            f"libraries of more than one CUDA major would be loaded into one process ({listed})",
            chain(rare, packages),
            "pin the package at the head of this chain to a version for the CUDA of torch",
        )
    ]


def _prereleases(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    asked = {normalize(name): value or {} for name, value in (stack.get("requirements") or {}).items()}
    found = []
    for name, package in packages.items():
        entry = asked.get(name, {})
        # Asked for: by the stack, or by a package that requires this pre-release (uv takes one from others only so).
        if not is_prerelease(package.version) or entry.get("prerelease") or is_prerelease(entry.get("version") or ""):
            continue
        if name not in asked and package.via:
            continue
        found.append(
            Finding(
                f"prerelease:{name}",
                f"{name} {package.version} is a pre-release and the stack did not ask for one",
                chain(name, packages),
                f"pin {name} to a release, or write prerelease: true in its requirement",
            )
        )
    return found


def _indexes(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    asked = {normalize(name): value or {} for name, value in (stack.get("requirements") or {}).items()}
    urls = {name: url.rstrip("/") for name, url in (stack.get("indexes") or {}).items()}
    found = []
    for name, package in packages.items():
        pinned = asked.get(name, {}).get("index") or "default"
        allowed = urls.get(pinned)
        if package.index is None:
            continue
        seen = package.index.rstrip("/")
        others = {index: url for index, url in urls.items() if index != pinned}
        if (allowed is not None and seen == allowed) or (allowed is None and seen not in others.values()):
            continue
        found.append(
            Finding(
                f"index:{name}",
                f"{name} {package.version} would come from {package.index}, but it is pinned to the index {pinned}",
                chain(name, packages),
                f"name the index in its requirement: {{index: ...}}, one of {', '.join(sorted(urls)) or 'default'}",
            )
        )
    return found


def _known_bad(
    stack: t.Mapping[str, t.Any], packages: t.Mapping[str, Package], before: t.Mapping[str, str]
) -> list[Finding]:
    found = []
    for name, package in packages.items():
        for row in known_bad.find(name, package.version):
            found.append(
                Finding(
                    f"known-bad:{name}",
                    f"{name} {package.version} is known to be bad on SM120: {row.symptom} (source: {row.source})",
                    chain(name, packages),
                    f"take {row.use}",
                    row.severity,
                )
            )
    return found


def _lift(findings: list[Finding], exceptions: t.Iterable[t.Mapping[str, t.Any]], today: datetime.date) -> None:
    for exception in exceptions:
        until = exception.get("until")
        if until and str(until) < today.isoformat():
            continue
        for finding in findings:
            if exception.get("id") in (finding.id, finding.id.split(":")[0]):
                finding.lifted = str(exception.get("reason") or "no reason given")

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a stack needs a source build and why, and when another stack is the better choice (private)."""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._stack_plan import is_prerelease

RECOMMENDED = "stable"


def source_build(stack: t.Mapping[str, t.Any], release: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """``needed``: whether the kernel has to be built from source; ``why`` in words."""
    kernel = stack.get("kernel") or {}
    named = f"{kernel.get('distribution') or 'the kernel'} {kernel.get('version') or ''}".strip()
    if kernel.get("build") != "source":
        return {"needed": False, "why": f"{named} comes as a wheel that holds SM120 code"}
    built = (release or {}).get("kernel") or {}
    if built.get("wheel"):
        return {"needed": False, "why": f"the release holds a kernel built for it, stamp {built.get('stamp')}"}
    torch = (stack.get("requirements") or {}).get("torch") or {}
    version = str(torch.get("version") or "")
    if torch.get("prerelease") or is_prerelease(version.lstrip("=<>~! ")):
        why = f"prebuilt kernels are linked to the C++ interface of a stable torch, and this stack takes torch{version}"
    else:
        why = "the stack's kernel.build is source"
    return {"needed": True, "why": why}


def advice(
    stacks: t.Mapping[str, t.Mapping[str, t.Any]], used: t.Mapping[str, str], asked: t.Collection[str]
) -> list[str]:
    """Sentences about nightly stacks that are used only because nothing else was said.

    Args:
        stacks: resolved stacks by name.
        used: instance name to the name of its stack.
        asked: instances that name their stack themselves; a shipped profile's choice is a default and no wish.
    """
    said = []
    for name in sorted(set(used.values())):
        users = [instance for instance, stack in used.items() if stack == name]
        if set(users) & set(asked) or (stacks.get(name, {}).get("channel") or "nightly") != "nightly":
            continue
        said.append(
            f"nothing asks for the stack {name}: {', '.join(users)} took it by default. Recommended: write "
            f"`stack: {RECOMMENDED}` in the instance. It is a released SGLang whose own kernel wheel holds SM120 code, "
            "so nothing is built and no wheel vanishes from its index"
        )
    return said

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patch catalogue for sgl-kernel's source (private to the collection).

Each entry probes the source and edits its structure, never line numbers. A probe answers one of

* ``needed``: the symptom would show, and the edit cures it;
* ``present``: the cure is there already, from upstream or from this catalogue;
* ``obsolete``: the code that caused the symptom is gone;
* ``unrecognised``: the place is there but has no form that this catalogue knows, so nothing is done to it.

Sources that the probes know: sgl-kernel/ of autumn 2025 and early 2026, and python/sglang/kernels/aot/ since July 2026
(facts/engine.md, section 1).
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _cmake

NEEDED = "needed"
PRESENT = "present"
OBSOLETE = "obsolete"
UNRECOGNISED = "unrecognised"

MARK = "blackwell.sglang"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a probe found: ``status``, why, and the text after the edit where it is needed."""

    status: str
    why: str
    text: str | None = None


@dataclasses.dataclass(frozen=True)
class Patch:
    """An entry: ``file`` within the kernel's folder, what it ``cures``, how to do ``without`` it, and the probe."""

    id: str
    file: str
    cures: str
    without: str
    probe: t.Callable[[str], Verdict]


def _policy(text: str, policy: str) -> Verdict:
    calls = [call for call in _cmake.commands(text) if call.name == "cmake_policy" and policy in call.words]
    if not calls:
        return Verdict(OBSOLETE, f"the file does not set {policy}")
    bare = [call for call in calls if not _guarded(call, policy)]
    if not bare:
        return Verdict(PRESENT, f"{policy} is set only where CMake knows it")
    for call in reversed(bare):
        inner = text[call.start : call.end]
        text = f"{text[: call.start]}if(POLICY {policy}) # {MARK}\n    {inner}\nendif(){text[call.end :]}"
    return Verdict(NEEDED, f"{policy} is set without a guard", text)


def _guarded(call: _cmake.Command, policy: str) -> bool:
    return any(block.name == "if" and block.words[:2] == ["POLICY", policy] for block in call.within)


def _cccl(text: str) -> Verdict:
    if "include/cccl" in text:
        return Verdict(PRESENT, "the file names include/cccl")
    if "mscclpp" not in text:
        return Verdict(OBSOLETE, "no target of the host compiler includes CUDA's C++ headers")
    found = [
        call for call in _cmake.commands(text) if call.name == "find_package" and call.words[:1] == ["CUDAToolkit"]
    ]
    if not found:
        return Verdict(UNRECOGNISED, "find_package(CUDAToolkit ...) is not where it was")
    end = found[0].end
    lines = (
        f"\n# {MARK}: CUDA 13 keeps cuda/, cub/ and thrust/ here; nvcc knows, the host compiler does not.\n"
        "foreach(cccl_folder IN ITEMS ${CUDAToolkit_INCLUDE_DIRS})\n"
        '    if(EXISTS "${cccl_folder}/cccl")\n'
        '        include_directories(SYSTEM "${cccl_folder}/cccl") # include/cccl\n'
        "    endif()\n"
        "endforeach()"
    )
    return Verdict(NEEDED, "host code includes <cuda/...>, which CUDA 13 moved", text[:end] + lines + text[end:])


def _fa3_option(text: str) -> Verdict:
    calls = list(_cmake.commands(text))
    declared = [call for call in calls if call.name == "option" and call.words[:1] == ["SGL_KERNEL_ENABLE_FA3"]]
    sets = [call for call in calls if call.name == "set" and call.words[:1] == ["SGL_KERNEL_ENABLE_FA3"]]
    if not declared and not sets:
        if re.search(r"SGL_KERNEL_ENABLE_FA3\b", text):
            return Verdict(UNRECOGNISED, "SGL_KERNEL_ENABLE_FA3 is used but declared in no known way")
        return Verdict(OBSOLETE, "there is no option for FA3")
    forced = [call for call in sets if call.words == ["SGL_KERNEL_ENABLE_FA3", "ON"] and call.within]
    if not forced:
        known = [call for call in sets if call.words[1:2] == ["ON"] and "CACHE" not in call.words and not call.within]
        if known:
            return Verdict(UNRECOGNISED, "SGL_KERNEL_ENABLE_FA3 is set ON outside of any condition")
        return Verdict(PRESENT, "the caller's SGL_KERNEL_ENABLE_FA3 is respected")
    for call in reversed(forced):
        text = f"{text[: call.start]}# {MARK}: the caller decides; was set(SGL_KERNEL_ENABLE_FA3 ON){text[call.end :]}"
    return Verdict(NEEDED, "SGL_KERNEL_ENABLE_FA3 is set ON whatever the caller says", text)


GENCODE = re.compile(r'^"?-gencode=arch=compute_(\w+),code=(?:sm|compute)_\w+"?$')
KEEP = "120a"


def _gencode(text: str) -> Verdict:
    """Cut every list of flags that has sm_120a down to it; lists without it (FA3, FlashMLA) are for other GPUs."""
    if "gencode" not in text:
        return Verdict(OBSOLETE, "the file has no list of architectures")
    entries: list[tuple[str, str, _cmake.Word]] = []
    for call in _cmake.commands(text):
        target = _flag_list(call)
        if target is None:
            continue
        for word in call.tokens:
            match = GENCODE.match(word.text)
            if match:
                entries.append((target, match[1], word))
    if not entries:
        return Verdict(UNRECOGNISED, "the architectures stand in no set() or list(APPEND) that is known")
    for_sm120 = {target for target, arch, _word in entries if arch in (KEEP, "120f")}
    if not for_sm120:
        return Verdict(UNRECOGNISED, "no list of the file has sm_120a: this source is older than its SM120 kernels")
    extra = [word for target, arch, word in entries if target in for_sm120 and arch not in (KEEP, "120f")]
    if not extra:
        return Verdict(PRESENT, "the list holds SM120 only")
    for word in reversed(extra):
        text = _drop_word(text, word)
    return Verdict(NEEDED, f"{len(extra)} architectures would be compiled for GPUs that are not here", text)


def _flag_list(call: _cmake.Command) -> str | None:
    if call.name == "set" and call.words:
        return call.words[0]
    if call.name == "list" and call.words[:1] == ["APPEND"] and len(call.words) > 1:
        return call.words[1]
    return None


def _drop_word(text: str, word: _cmake.Word) -> str:
    """Take a word out; if it had a line for itself, the line goes with it."""
    start, end = word.start, word.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    alone = not text[line_start:start].strip() and not text[end:line_end].strip()
    if alone:
        return text[:line_start] + text[line_end + 1 :]
    return text[:start].rstrip(" ") + text[end:]


_RAISES = re.compile(
    r"^try:\n(?P<body>(?:[ \t]+.*\n)+?)"
    r"except(?: ImportError)?(?: as \w+)?:\n"
    r"(?P<indent>[ \t]+)raise ImportError\((?P<args>[^)]*)\)(?: from \w+)?[ \t]*\n",
    re.MULTILINE,
)


def _fa3_import(text: str) -> Verdict:
    if "flash_ops" not in text:
        return Verdict(OBSOLETE, "the module does not load FA3")
    if f"# {MARK}" in text:
        return Verdict(PRESENT, "the import fails only where FA3 is used")
    match = _RAISES.search(text)
    if match is None:
        if re.search(r"raise ImportError", text):
            return Verdict(UNRECOGNISED, "ImportError is raised in a form that is not known")
        return Verdict(PRESENT, "the module can be imported without FA3")
    if "flash_ops" not in match["body"]:
        return Verdict(UNRECOGNISED, "the import that fails is not that of flash_ops")
    pad = match["indent"]
    deferred = (
        f"try:\n{match['body']}except ImportError:  # {MARK}: SM120 has no FA3; this must be importable all the same\n"
        f"{pad}class _NoFlashOps:\n"
        f"{pad}{pad}def __getattr__(self, name):\n"
        f"{pad}{pad}{pad}raise ImportError({match['args']})\n\n"
        f"{pad}flash_ops = _NoFlashOps()\n"
    )
    why = "the module cannot be imported where FA3 was not built"
    return Verdict(NEEDED, why, text[: match.start()] + deferred + text[match.end() :])


def _make_policy(policy: str) -> t.Callable[[str], Verdict]:
    return lambda text: _policy(text, policy)


CATALOGUE: tuple[Patch, ...] = (
    Patch(
        "cmp0169-guard",
        "CMakeLists.txt",
        "CMake older than 3.30: Policy CMP0169 is not known to this version of CMake",
        "CMake 3.31 or newer in the build environment; sgl_kernel installs one",
        _make_policy("CMP0169"),
    ),
    Patch(
        "cmp0177-guard",
        "CMakeLists.txt",
        "CMake older than 3.31: Policy CMP0177 is not known to this version of CMake",
        "CMake 3.31 or newer in the build environment; sgl_kernel installs one",
        _make_policy("CMP0177"),
    ),
    Patch(
        "cccl-include",
        "CMakeLists.txt",
        "CUDA 13: fatal error: cuda/atomic: No such file or directory",
        "CPLUS_INCLUDE_PATH and C_INCLUDE_PATH naming CUDA's include/cccl in kernel.env",
        _cccl,
    ),
    Patch(
        "fa3-option",
        "CMakeLists.txt",
        "FA3 is compiled, the largest part of the build, although SGL_KERNEL_ENABLE_FA3 is OFF",
        "let it be built; it costs time and 0.8 to 1.1 GB and does nothing on SM120",
        _fa3_option,
    ),
    Patch(
        "gencode-sm120",
        "CMakeLists.txt",
        "every kernel is compiled for six or more architectures, TORCH_CUDA_ARCH_LIST has no say",
        "let it be built; it costs time and size only",
        _gencode,
    ),
    Patch(
        "fa3-import",
        "python/sgl_kernel/flash_attn.py",
        "SGLang 0.5.9 and older: Can not import FA3 in sgl_kernel, and then: no SGlang implementation of the model",
        "keep FA3 in the build (patches without fa3-option), or SGLang 0.5.11 and newer, which imports it late",
        _fa3_import,
    ),
)


def by_id(names: t.Sequence[str] | None = None) -> list[Patch]:
    """Entries of the catalogue, all or the named ones in the catalogue's order.

    Raises:
        KeyError: an id that the catalogue does not have.
    """
    known = {patch.id: patch for patch in CATALOGUE}
    for name in names or []:
        if name not in known:
            raise KeyError(name)
    return [patch for patch in CATALOGUE if names is None or patch.id in names]


def read(path: pathlib.Path) -> str | None:
    """Text of a file with its own line ends, or None if it is not there."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None

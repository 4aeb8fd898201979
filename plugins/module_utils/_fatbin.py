# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU architectures a library holds code for, read from its fatbinary headers (private to the collection).

The section ``.nv_fatbin`` is a row of containers, each a header and then entries; an entry is a header and a payload
(a cubin or PTX, compressed or not). Only headers are touched, so a library of 1.1 GB takes milliseconds, and no CUDA
tool is needed. NVIDIA does not document the format. The layout below was read off the output of nvcc 13.0 for
sm_90, 90a, 100a, 100f, 103a, 120, 120a, 120f and 121a in every --compress-mode, and agrees with cuobjdump on the
libraries of the sglang-kernel 0.4.10 wheel (tests/unit/plugins/module_utils/test_fatbin.py).
"""

from __future__ import annotations

import collections
import dataclasses
import mmap
import os
import pathlib
import re
import shutil
import struct
import tempfile
import typing as t
import zipfile

from ansible_collections.blackwell.sglang.plugins.module_utils._elf import Elf
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

CONTAINER_MAGIC = 0xBA55ED50
CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes of entries
ENTRY = struct.Struct("<HHIQI")  # kind, version, header size, bytes of payload, compressed bytes (0: not compressed)
ENTRY_ARCH = 28  # u32: 120 for sm_120
ENTRY_FLAGS = 40  # u64
FLAG_ARCH_SPECIFIC = 1 << 20  # the "a" of sm_120a
FLAG_FAMILY_SPECIFIC = 1 << 21  # the "f" of sm_120f
KIND_PTX = 1
KIND_SASS = 2
KIND_LTO = 8

# Libraries whose soname carries the CUDA major. cuSPARSE, cuSOLVER and cuFFT count for themselves and are left out.
CUDA_SONAME = re.compile(r"^lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink)\.so\.(\d+)")

# Parts of mangled names that only torch's C++ interface has: namespaces c10, at, torch, caffe2, and its C shims.
TORCH_SYMBOL = re.compile(r"^_Z\w*?N?K?(?:3c10|2at(?=\d)|5torch|6caffe2)|^aoti_torch_|^THP[A-Z]|^torch_")

LIBRARY = re.compile(r"\.so(\.\d+)*$")


@dataclasses.dataclass
class Library:
    """What one shared library holds.

    ``sass``, ``ptx`` and ``lto`` count entries per architecture (``{"sm_120a": 35}``), ``compressed`` counts the
    compressed ones among them, ``torch_symbols`` lists undefined symbols that torch has to provide.
    """

    path: str
    sass: dict[str, int]
    ptx: dict[str, int]
    lto: dict[str, int]
    compressed: int
    cuda_majors: list[int]
    needed: list[str]
    torch_symbols: list[str]

    def as_dict(self) -> dict[str, t.Any]:
        """The fields, for a module's result."""
        return dataclasses.asdict(self)


def architecture(number: int, flags: int) -> str:
    """The name that cuobjdump prints: ``sm_120``, ``sm_120a`` or ``sm_120f``."""
    if flags & FLAG_ARCH_SPECIFIC:
        return f"sm_{number}a"
    if flags & FLAG_FAMILY_SPECIFIC:
        return f"sm_{number}f"
    return f"sm_{number}"


def walk(data: t.Any, start: int, size: int, where: str) -> t.Iterator[tuple[int, str, bool]]:
    """Yield (kind, architecture, compressed) of every entry between ``start`` and ``start + size`` bytes of ``data``.

    Raises:
        SglangError: a header does not fit the format, so that nothing is guessed from the rest.
    """
    position, end = start, start + size
    while position + CONTAINER.size <= end:
        magic, _version, header_size, body = CONTAINER.unpack_from(data, position)
        if magic != CONTAINER_MAGIC:
            # Containers are aligned to 8 bytes; what lies between them is zero.
            if bytes(data[position : position + 8]).strip(b"\0"):
                raise SglangError(f"unknown fatbinary header {magic:#010x} at byte {position}", where=where)
            position += 8
            continue
        entry = position + header_size
        position = entry + body
        if header_size < CONTAINER.size or position > end:
            raise SglangError(f"fatbinary container at byte {entry - header_size} runs past its section", where=where)
        while entry < position:
            kind, _version, entry_header, payload, packed = ENTRY.unpack_from(data, entry)
            if entry_header < ENTRY_FLAGS + 8 or entry + entry_header + payload > position:
                raise SglangError(f"fatbinary entry at byte {entry} runs past its container", where=where)
            (number,) = struct.unpack_from("<I", data, entry + ENTRY_ARCH)
            (flags,) = struct.unpack_from("<Q", data, entry + ENTRY_FLAGS)
            yield kind, architecture(number, flags), packed > 0
            entry += entry_header + payload
        position += -(position - start) % 8


def read_buffer(data: t.Any, where: str) -> Library:
    """Read one library from a buffer that holds all of it."""
    elf = Elf(data, where)
    kinds = (KIND_SASS, KIND_PTX, KIND_LTO)
    counts: dict[int, collections.Counter[str]] = {kind: collections.Counter() for kind in kinds}
    compressed = 0
    section = elf.section(".nv_fatbin")
    if section is not None:
        if section.offset + section.size > len(data):
            raise SglangError("the file is cut off inside section .nv_fatbin", where=where)
        for kind, name, packed in walk(data, section.offset, section.size, where):
            if kind in counts:
                counts[kind][name] += 1
                compressed += packed
    needed = elf.needed()
    majors = {int(match.group(1)) for match in map(CUDA_SONAME.match, needed) if match}
    undefined, _defined = elf.dynamic_symbols()
    return Library(
        path=where,
        sass=_sorted(counts[KIND_SASS]),
        ptx=_sorted(counts[KIND_PTX]),
        lto=_sorted(counts[KIND_LTO]),
        compressed=compressed,
        cuda_majors=sorted(majors),
        needed=needed,
        torch_symbols=sorted(name for name in undefined if TORCH_SYMBOL.match(name)),
    )


def read_file(path: str) -> Library:
    """Read one library; the file is mapped, so only its headers come from disk."""
    with pathlib.Path(path).open("rb") as handle:
        if os.fstat(handle.fileno()).st_size == 0:
            raise SglangError("the file is empty", where=path, expected="a shared library")
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return read_buffer(data, path)


def exported(path: str) -> set[str]:
    """Names that a library defines for others."""
    with pathlib.Path(path).open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return Elf(data, path).dynamic_symbols()[1]


def read(path: str, tmpdir: str | None = None) -> list[Library]:
    """Read a library, every library of a wheel, or every library under a folder.

    Args:
        path: file or folder. A wheel's members are unpacked one at a time into ``tmpdir`` and are named
            ``WHEEL!MEMBER``.
        tmpdir: where a wheel's largest library has room; the system's default if None.

    Raises:
        SglangError: the path is missing, or a file is no readable library or wheel.
    """
    if pathlib.Path(path).is_dir():
        return [read_file(name) for name in sorted(_libraries(path))]
    if not pathlib.Path(path).exists():
        raise SglangError("no such file or folder", where=path, expected="a shared library, a wheel or a folder")
    if path.endswith((".whl", ".zip")):
        return list(_read_wheel(path, tmpdir))
    return [read_file(path)]


def summary(libraries: t.Iterable[Library]) -> dict[str, t.Any]:
    """All libraries together: architectures of SASS and PTX (sorted, counts added), CUDA majors, torch symbols."""
    sass: collections.Counter[str] = collections.Counter()
    ptx: collections.Counter[str] = collections.Counter()
    majors: set[int] = set()
    symbols: set[str] = set()
    for library in libraries:
        sass.update(library.sass)
        ptx.update(library.ptx)
        majors.update(library.cuda_majors)
        symbols.update(library.torch_symbols)
    return {
        "sass": _sorted(sass),
        "ptx": _sorted(ptx),
        "cuda_majors": sorted(majors),
        "torch_symbols": sorted(symbols),
    }


def _sorted(counter: collections.Counter[str]) -> dict[str, int]:
    def key(name: str) -> tuple[int, str]:
        match = re.search(r"\d+", name)
        return (int(match.group()) if match else 0, name)

    return {name: counter[name] for name in sorted(counter, key=key)}


def _libraries(folder: str) -> t.Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = pathlib.Path(root, name)
            if LIBRARY.search(name) and path.is_file() and not path.is_symlink() and _is_elf(path):
                yield str(path)


def _is_elf(path: pathlib.Path) -> bool:
    # A linker script such as libc.so also ends in .so.
    with path.open("rb") as handle:
        return handle.read(4) == b"\x7fELF"


def _read_wheel(path: str, tmpdir: str | None) -> t.Iterator[Library]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise SglangError(f"the wheel cannot be read: {error}", where=path) from error
    with archive:
        for member in sorted(archive.namelist()):
            if not LIBRARY.search(member):
                continue
            with tempfile.TemporaryFile(dir=tmpdir) as handle:
                with archive.open(member) as source:
                    shutil.copyfileobj(source, handle, 1 << 20)
                handle.flush()
                if handle.tell() == 0:
                    continue
                with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    if data[:4] == b"\x7fELF":
                        yield read_buffer(data, f"{pathlib.Path(path).name}!{member}")

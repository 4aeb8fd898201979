# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a shared library says about itself: sections, needed libraries, dynamic symbols (private to the collection).

Only 64-bit little-endian ELF is read, since that is what CUDA libraries for Linux are. Field offsets are those of the
System V ABI, chapters "Object Files" and "Dynamic Linking".
"""

from __future__ import annotations

import dataclasses
import mmap
import struct

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

SHT_DYNAMIC = 6
SHT_DYNSYM = 11
DT_NEEDED = 1
SHN_UNDEF = 0
STB_LOCAL = 0


@dataclasses.dataclass(frozen=True)
class Section:
    """One section: ``offset`` and ``size`` in bytes within the file, ``link`` the index of its string table."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    entry_size: int


class Elf:
    """Reads an ELF file that lies in a buffer; nothing is copied but the names that are asked for.

    Args:
        data: the whole file.
        where: how messages name it.

    Raises:
        SglangError: not a 64-bit little-endian ELF file, cut off, or without section headers.
    """

    def __init__(self, data: bytes | mmap.mmap | memoryview, where: str) -> None:
        self.data = data
        self.where = where
        if len(data) < 64 or bytes(data[:4]) != b"\x7fELF":
            raise SglangError("not an ELF file", where=where, expected="a shared library")
        if data[4] != 2 or data[5] != 1:
            raise SglangError("not a 64-bit little-endian ELF file", where=where)
        self.sections = self._read_sections()

    def section(self, name: str) -> Section | None:
        """The section of that name, or None."""
        for section in self.sections:
            if section.name == name:
                return section
        return None

    def needed(self) -> list[str]:
        """Names of the libraries that the dynamic linker loads first (DT_NEEDED), in file order."""
        names: list[str] = []
        for section in self.sections:
            if section.kind != SHT_DYNAMIC:
                continue
            strings = self.sections[section.link]
            for tag, value in struct.iter_unpack("<QQ", self._bytes(section)):
                if tag == DT_NEEDED:
                    names.append(self._string(strings.offset + value))
        return names

    def dynamic_symbols(self) -> tuple[set[str], set[str]]:
        """Names of the (undefined, defined) dynamic symbols."""
        undefined: set[str] = set()
        defined: set[str] = set()
        for section in self.sections:
            if section.kind != SHT_DYNSYM:
                continue
            strings = self.sections[section.link]
            table = bytes(self._bytes(strings))
            whole = section.size - section.size % 24
            for name, info, _other, index, _value, _size in struct.iter_unpack("<IBBHQQ", self._bytes(section)[:whole]):
                if name == 0 or info >> 4 == STB_LOCAL:
                    continue
                text = table[name : table.index(b"\0", name)].decode("utf-8", "replace")
                (undefined if index == SHN_UNDEF else defined).add(text)
        return undefined, defined

    def _read_sections(self) -> list[Section]:
        (offset,) = struct.unpack_from("<Q", self.data, 0x28)
        entry_size, count, names_index = struct.unpack_from("<HHH", self.data, 0x3A)
        if offset == 0 or count == 0:
            raise SglangError(
                "the file has no section headers", where=self.where, expected="a library made by a linker"
            )
        if offset + entry_size * count > len(self.data) or names_index >= count:
            raise SglangError("the file is cut off: its section headers lie past its end", where=self.where)
        raw = []
        for number in range(count):
            name, kind, _flags, _address, start, size, link, _info, _align, entry = struct.unpack_from(
                "<IIQQQQIIQQ", self.data, offset + number * entry_size
            )
            raw.append((name, kind, start, size, link, entry))
        names_at = raw[names_index][2]
        return [
            Section(self._string(names_at + name), kind, start, size, link, entry)
            for name, kind, start, size, link, entry in raw
        ]

    def _bytes(self, section: Section) -> bytes:
        end = section.offset + section.size
        if end > len(self.data):
            raise SglangError(f"the file is cut off inside section {section.name}", where=self.where)
        return bytes(self.data[section.offset : end])

    def _string(self, start: int) -> str:
        if start >= len(self.data):
            raise SglangError("the file is cut off: a name lies past its end", where=self.where)
        chunk = bytes(self.data[start : start + 4096])
        return chunk.split(b"\0", 1)[0].decode("utf-8", "replace")

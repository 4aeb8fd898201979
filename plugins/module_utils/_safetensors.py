# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headers and single values of safetensors files, by range; never a weight (private to the collection).

Format: 8 bytes little-endian length N, N bytes of JSON (name -> {dtype, shape, data_offsets} and ``__metadata__``),
then the data; offsets count from the end of the header (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import struct
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._json_files import parse_json

# A quote inside a JSON string is escaped, so this text occurs only as a key. Counting offsets with a pattern instead of
# a parser makes the check of 120 headers (48 MB of JSON) three times as fast.
_ENDS = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d{1,19}\s*,\s*(\d{1,19})\s*\]')
# The end of a header whose last entry is a tensor: no text that is cut short or runs on into the data ends so.
_LAST = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d{1,19}\s*,\s*(\d{1,19})\s*\]\s*\}\s*\}\s*\Z')
_TAIL = 512  # bytes of the header's end that are read to find it
_DTYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}


@dataclasses.dataclass(frozen=True)
class Header:
    """A file's header: ``data`` is its JSON text, ``size`` the length of the file, both in bytes."""

    path: str
    data: bytes
    size: int

    @property
    def start(self) -> int:
        """Position of the first data byte."""
        return 8 + len(self.data)

    def expected_size(self) -> int:
        """The length that the file must have: header plus the end of its last tensor."""
        return self.start + max(map(int, _ENDS.findall(self.data)), default=0)

    def names(self) -> list[str]:
        """Names of the tensors."""
        return [name for name in parse_json(self.data, self.path) if name != "__metadata__"]


class CutShort(SglangError):
    """The file ends before its header does: a copy that stopped, if the length is believable."""


def read_header(path: str, limit: int) -> Header:
    """Read the header of a file.

    Raises:
        CutShort: the file ends within the header.
        SglangError: not readable, or the header's length is beyond ``limit``, or it is no JSON object.
    """
    try:
        with pathlib.Path(path).open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            start = handle.read(8)
            if len(start) < 8:
                raise CutShort(
                    f"the file has {size} bytes, too few for a safetensors header", where=path, kind="truncated"
                )
            length = struct.unpack("<Q", start)[0]
            if length > limit:
                raise SglangError(
                    f"the header claims {length} bytes in a file of {size}",
                    where=f"{path} bytes 0-7",
                    expected=f"at most {limit}",
                    fix="fetch the file again; this is no safetensors file or its start is damaged",
                    kind="bad_header",
                )
            if 8 + length > size:
                raise CutShort(
                    f"the header claims {length} bytes, but the file ends after {size}",
                    where=f"{path} bytes 0-7",
                    expected=f"at least {8 + length} bytes",
                    fix="fetch the file again",
                    kind="truncated",
                )
            data = handle.read(length)
    except OSError as exc:
        raise SglangError(f"cannot be read: {exc.strerror or exc}", where=path, kind="unreadable") from exc
    # Parsing 120 headers costs more than all the rest, so an object whose braces match is taken for whole; a length
    # that is wrong cuts the text elsewhere.
    text = data.rstrip(b" \n\t\r\0")
    if not (text.startswith(b"{") and text.endswith(b"}") and text.count(b"{") == text.count(b"}")):
        try:
            parse_json(text, path)
        except SglangError as exc:
            raise SglangError(
                f"the {length} bytes that the header claims are no JSON object",
                where=f"{path} bytes 8-{8 + length}",
                expected="text from { to }",
                fix="fetch the file again; its start is damaged",
                kind="bad_header",
            ) from exc
    return Header(path, data, size)


def data_size(path: str, limit: int) -> int | None:
    """Bytes of data of a file whose last tensor in the header ends where the file does, from two short reads.

    None where the header has to be read to know: another order, another end, a wrong length, a file that is cut short.
    """
    try:
        with pathlib.Path(path).open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            start = handle.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 0 < length <= min(limit, size - 8):
                return None
            handle.seek(8 + max(0, length - _TAIL))
            last = _LAST.search(handle.read(min(length, _TAIL)))
    except OSError:
        return None
    data = size - 8 - length
    return data if last and int(last[1]) == data else None


def read_scalar(header: Header, name: str) -> float | None:
    """The value of a tensor that holds one number (or equal ones), read by range; None where that is not cheap or
    clear.

    A list of up to 4,096 values (one scale a head) is read too: None unless all are the same, except that a list with a
    value other than 1 yields that value.
    """
    entry = _entry(header, name)
    if entry is None:
        return None
    width = _DTYPE_BYTES.get(str(entry.get("dtype")), 0)
    offsets = entry.get("data_offsets")
    if not (width and isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(x, int) for x in offsets)):
        return None
    begin, end = offsets
    if not (0 <= begin < end and (end - begin) % width == 0 and (end - begin) // width <= 4096):
        return None
    with pathlib.Path(header.path).open("rb") as handle:
        handle.seek(header.start + begin)
        data = handle.read(end - begin)
    if len(data) != end - begin:
        return None
    values = _decode(data, str(entry["dtype"]))
    odd = [value for value in values if value != 1.0]
    return odd[0] if odd else 1.0


def _entry(header: Header, name: str) -> dict[str, t.Any] | None:
    """One tensor's entry, found by its key, so that a header of thousands need not be parsed."""
    key = b'"' + name.encode() + b'"'
    at = header.data.find(key)
    if at < 0:
        return None
    begin = header.data.find(b"{", at)
    end = header.data.find(b"}", begin)
    if begin < 0 or end < 0:
        return None
    try:
        return parse_json(header.data[begin : end + 1], header.path)
    except SglangError:
        return None


def _decode(data: bytes, dtype: str) -> list[float]:
    if dtype in ("F64", "F32", "F16"):
        code = {"F64": "d", "F32": "f", "F16": "e"}[dtype]
        return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
    if dtype == "BF16":  # the upper half of a float32
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    one = {"F8_E4M3": 0x38, "F8_E5M2": 0x3C}[dtype]
    return [1.0 if byte == one else 0.0 for byte in data]

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a checkpoint's JSON files: bounded, and with errors that name file, line and key (private)."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bytes up to which a file is read. Real ones: config 1 MB, layer maps 3 MB, an index of 370,000 tensors 40 MB."""

    config: int = 32 * MIB
    quantization: int = 128 * MIB
    index: int = 256 * MIB
    # safetensors itself refuses a longer header (its MAX_HEADER_SIZE is 100,000,000)
    header: int = 100_000_000


def read_json(path: str, limit: int) -> dict[str, t.Any]:
    """The object in a JSON file.

    Raises:
        SglangError: not readable, longer than ``limit`` bytes, not UTF-8, not JSON (with line and column), nested
        beyond
            what the parser takes, or something else than an object.
    """
    return parse_json(read_bytes(path, limit), path)


def read_bytes(path: str, limit: int) -> bytes:
    """A file's bytes, if there are at most ``limit``."""
    try:
        # One byte more than allowed is asked for, so that a file that grows meanwhile cannot pass.
        with pathlib.Path(path).open("rb") as handle:
            data = handle.read(limit + 1)
    except OSError as exc:
        raise SglangError(f"cannot be read: {exc.strerror or exc}", where=path, kind="unreadable") from exc
    if len(data) > limit:
        raise SglangError(
            f"the file has {pathlib.Path(path).stat().st_size} bytes",
            where=path,
            expected=f"at most {limit} bytes",
            fix="check that this is the file it should be",
            kind="too_large",
        )
    return data


def parse_json(data: bytes, path: str) -> dict[str, t.Any]:
    """As :func:`read_json`, for bytes at hand."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - (data.rfind(b"\n", 0, exc.start) + 1) + 1
        raise SglangError(
            f"byte {data[exc.start]:#04x} is not UTF-8",
            where=f"{path} line {line} column {column}",
            expected="JSON in UTF-8",
            fix="copy the file again from its source",
            kind="not_utf8",
        ) from exc
    try:
        value = json.loads(text)
    except json.JSONDecodeError as exc:
        raise SglangError(
            f"the file is not JSON: {exc.msg}",
            where=f"{path} line {exc.lineno} column {exc.colno}",
            expected="a JSON object",
            fix="copy the file again from its source; it may have been cut short",
            kind="not_json",
        ) from exc
    except RecursionError as exc:
        raise SglangError(
            "the JSON is nested too deeply to read", where=path, expected="a few levels", kind="not_json"
        ) from exc
    except ValueError as exc:  # an integer of more digits than Python converts
        raise SglangError(f"the JSON holds a value that cannot be read: {exc}", where=path, kind="not_json") from exc
    if not isinstance(value, dict):
        raise wrong_type(path, "(top level)", value, "an object")
    return value


def wrong_type(file: str, key: str, value: t.Any, expected: str) -> SglangError:
    """An error for a value that makes no sense where it stands."""
    shown = repr(value)
    return SglangError(
        f"{type_name(value)} {shown if len(shown) <= 60 else shown[:57] + '...'} makes no sense here",
        where=f"{file} key {key}",
        expected=expected,
        fix="correct the file, or fetch it again",
        kind="wrong_type",
    )


def type_name(value: t.Any) -> str:
    """JSON's word for a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "the boolean"
    if isinstance(value, (int, float)):
        return "the number"
    if isinstance(value, str):
        return "the string"
    return "the array" if isinstance(value, list) else "the object"


class Section:
    """A JSON object that knows where it stands, and hands out values of a type or says which key is wrong.

    A missing key and a null are the same: None.
    """

    def __init__(self, data: t.Mapping[str, t.Any], file: str, key: str = "") -> None:
        self.data = data
        self.file = file
        self.key = key

    def path(self, name: str) -> str:
        """``quantization.group_size``: the key's full path inside its file."""
        return f"{self.key}.{name}" if self.key else name

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def raw(self, name: str) -> t.Any:
        """The value as it is."""
        return self.data.get(name)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.data.get(name)
        if value is None or isinstance(value, str):
            return value
        raise wrong_type(self.file, self.path(name), value, "a string or null")

    def number(self, name: str) -> int | None:
        """A whole number, not negative."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise wrong_type(self.file, self.path(name), value, "a whole number, zero or more, or null")
        return value

    def section(self, name: str) -> Section | None:
        """An object."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise wrong_type(self.file, self.path(name), value, "an object or null")
        return Section(value, self.file, self.path(name))

    def strings(self, name: str) -> list[str] | None:
        """A list of strings."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise wrong_type(self.file, self.path(name), value, "a list of strings or null")
        for position, item in enumerate(value):
            if not isinstance(item, str):
                raise wrong_type(self.file, f"{self.path(name)}[{position}]", item, "a string")
        return value

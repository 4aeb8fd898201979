# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the commands of a CMake file with their places, so that edits follow its structure (private).

Covers CMake's lexical grammar (manual cmake-language(7)): line and bracket comments, quoted, unquoted and bracket
arguments, and the nesting of if, foreach, while, function, macro and block.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

OPENERS = {"if": "endif", "foreach": "endforeach", "while": "endwhile", "function": "endfunction", "macro": "endmacro"}
OPENERS["block"] = "endblock"
CLOSERS = set(OPENERS.values())

_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACKET = re.compile(r"\[(=*)\[")
_UNQUOTED = re.compile(r'(?:\\.|[^\s()#"\\])+')


@dataclasses.dataclass(frozen=True)
class Word:
    """An argument: its text without quotes, and where it stands, quotes included."""

    text: str
    start: int
    end: int


@dataclasses.dataclass
class Command:
    """A command: lower-case name, arguments, place of all of it, and the open blocks that it stands in."""

    name: str
    tokens: list[Word]
    start: int
    end: int
    within: list[Command]

    @property
    def words(self) -> list[str]:
        """Texts of the arguments."""
        return [word.text for word in self.tokens]


def commands(text: str) -> t.Iterator[Command]:
    """Yield the commands of a file in order; what is no command (an unfinished line) ends the reading."""
    position, blocks = 0, list[Command]()
    while True:
        position = _blank(text, position)
        name = _NAME.match(text, position)
        if name is None:
            return
        opened = _blank(text, name.end())
        if text[opened : opened + 1] != "(":
            return
        parsed = _arguments(text, opened + 1)
        if parsed is None:
            return
        words, end = parsed
        command = Command(name.group().lower(), words, position, end, list(blocks))
        if command.name in CLOSERS and blocks:
            blocks.pop()
            command.within = list(blocks)
        yield command
        if command.name in OPENERS:
            blocks.append(command)
        position = end


def _arguments(text: str, position: int) -> tuple[list[Word], int] | None:
    words: list[Word] = []
    depth = 1
    while True:
        position = _blank(text, position)
        if position >= len(text):
            return None
        character = text[position]
        bracket = _BRACKET.match(text, position)
        if character == "(":
            depth += 1
            position += 1
        elif character == ")":
            depth -= 1
            position += 1
            if depth == 0:
                return words, position
        elif character == '"':
            end = _quoted(text, position)
            words.append(Word(text[position + 1 : end - 1], position, end))
            position = end
        elif bracket:
            close = text.find(f"]{bracket[1]}]", bracket.end())
            end = len(text) if close < 0 else close + len(bracket[1]) + 2
            words.append(Word(text[bracket.end() : close], position, end))
            position = end
        else:
            match = _UNQUOTED.match(text, position)
            if match is None:
                return None
            words.append(Word(match.group(), position, match.end()))
            position = match.end()


def _quoted(text: str, position: int) -> int:
    position += 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == '"':
            return position + 1
        else:
            position += 1
    return position


def _blank(text: str, position: int) -> int:
    """Skip white space and comments."""
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == "#":
            bracket = _BRACKET.match(text, position + 1)
            if bracket:
                close = text.find(f"]{bracket[1]}]", bracket.end())
                position = len(text) if close < 0 else close + len(bracket[1]) + 2
            else:
                newline = text.find("\n", position)
                position = len(text) if newline < 0 else newline
        else:
            return position
    return position

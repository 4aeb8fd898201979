# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments as words of the engine's command line, and words as arguments (private to the collection).

Arguments are given by field name; renamed ones are translated (``renames``), values are brought to the option's type or
refused with what it takes. Words are read back as the engine's argparse reads them. What is wrong is returned as
:class:`Trouble`, never raised.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.option_table import (
    Option,
    candidates,
    field_for_spelling,
    nearest_table,
    options_for,
    spellings_for,
    table_versions,
    versions_with,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.renames import fork_only, note_on, renamed

__all__ = [
    "Option",
    "Trouble",
    "field_for_spelling",
    "field_of_key",
    "nearest_table",
    "normalise",
    "options_for",
    "parse_argv",
    "table_versions",
    "to_argv",
]


@dataclasses.dataclass(frozen=True)
class Trouble:
    """What is wrong with one argument; ``warning`` where it stops nothing (an unread version, a translation)."""

    key: str
    what: str
    expected: str = ""
    fix: str = ""
    id: str = "argument"
    warning: bool = False


def to_argv(args: t.Mapping[str, t.Any], version: str | None) -> tuple[list[str], list[Trouble]]:
    """Arguments by field name as the words of a version's command line, sorted by field, and what is wrong with them.

    A trouble does not keep the other arguments from being turned into words; null leaves one out.
    """
    words: list[str] = []
    troubles: list[Trouble] = []
    normal, found = normalise(args, version)
    troubles += found
    for field in sorted(normal):
        words += _words_of(options_for(version)[field], normal[field])
    return words, troubles


def field_of_key(key: str, version: str | None) -> str:
    """The field that a key of ``args`` sets in a version; the key itself where no option is known."""
    option, _troubles = _option_for_key(key, version)
    return option.field if option is not None else key


def normalise(args: t.Mapping[str, t.Any], version: str | None) -> tuple[dict[str, t.Any], list[Trouble]]:
    """Arguments under the field names of a version and with values of the options' types; troubles beside them."""
    normal: dict[str, t.Any] = {}
    troubles: list[Trouble] = []
    for key, value in args.items():
        if value is None:
            continue
        option, found = _option_for_key(str(key), version)
        troubles += found
        if option is None:
            continue
        if option.field in normal:
            troubles.append(
                Trouble(
                    str(key),
                    f"sets {option.field}, which another key sets too",
                    "each argument once",
                    f"remove one; {option.field} is the field's name",
                    "argument_twice",
                )
            )
            continue
        checked, trouble = _checked(option, str(key), value, version)
        if trouble is None:
            normal[option.field] = checked
        else:
            troubles.append(trouble)
    if not nearest_table(version)[1]:
        troubles = [dataclasses.replace(trouble, warning=True) for trouble in troubles]
    return normal, troubles


def _option_for_key(key: str, version: str | None) -> tuple[Option | None, list[Trouble]]:
    known = options_for(version)
    option = known.get(key)
    renames = [row for row in renamed(key) if row.new in known or row.old in known]
    if option is not None and not option.deprecated:
        return option, []
    for row in renames:
        other = row.new if key == row.old else row.old
        if other in known and not known[other].deprecated:
            return known[other], [
                Trouble(
                    key,
                    f"is called {other} in sglang {version}; it is passed on as that",
                    "",
                    f"write {other}",
                    "argument_renamed",
                    warning=True,
                )
            ]
    if option is not None:
        return option, [
            Trouble(
                key,
                f"is deprecated in sglang {version}: {option.deprecated}",
                "",
                "write what it names",
                "argument_deprecated",
                warning=True,
            )
        ]
    field = spellings_for(version).get("--" + key.replace("_", "-"))
    if field is not None and key == key.lower() and "-" not in key:
        return known[field], []  # the flag's own spelling in snake case, as in fp4_gemm_backend or tensor_parallel_size
    return None, [_unknown(key, version)]


def _unknown(key: str, version: str | None) -> Trouble:
    known = options_for(version)
    plain = key.lstrip("-").replace("-", "_").lower()
    note = note_on(plain)
    there = versions_with(plain)
    if plain in known or "--" + plain.replace("_", "-") in spellings_for(version):
        field = plain if plain in known else spellings_for(version)["--" + plain.replace("_", "-")]
        return Trouble(
            key,
            "is not how an argument is written here",
            "the field's name in snake case, without dashes",
            f"write {field}",
            "unknown_argument",
        )
    names = [*known, *(name[2:].replace("-", "_") for name in spellings_for(version))]
    close = list(dict.fromkeys(difflib.get_close_matches(plain[:100], names, n=4, cutoff=0.6)))[:3]
    what = f"is no argument of sglang {version or nearest_table(version)[0]}"
    if note:
        what += f": {note}"
    elif there:
        what += f" (it is one of {there[0]}" + (f" to {there[-1]})" if len(there) > 1 else ")")
    fix = f"write {' or '.join(close)}" if close else "remove it, or look at the options of this version"
    return Trouble(
        key,
        what,
        "a field name of this version",
        fix,
        "fork_only" if fork_only(note) else "unknown_argument",
    )


def _checked(option: Option, key: str, value: t.Any, version: str | None) -> tuple[t.Any, Trouble | None]:
    """The value in the option's type, or what is wrong with it."""
    if option.kind in ("flag", "toggle"):
        if isinstance(value, bool):
            return value, None
        return None, Trouble(
            key,
            f"is {_said(value)}, but {option.spelling} takes no value",
            "true or false",
            f"write {key}: true",
            "argument_type",
        )
    if option.kind == "optional" and isinstance(value, bool):
        return (
            (value, None)
            if value
            else (
                None,
                Trouble(key, "is false", "a value, or true for the flag alone", f"remove {key}", "argument_type"),
            )
        )
    if option.kind in ("list", "list0"):
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if not values and option.kind == "list":
            return None, Trouble(key, "is an empty list", "at least one value", f"remove {key}", "argument_type")
        checked = []
        for entry in values:
            one, trouble = _scalar(option, key, entry, version)
            if trouble is None and _looks_like_flag(_word(one)):
                trouble = Trouble(
                    key,
                    f"holds {_said(one)}, which argparse takes for another option",
                    "values without a leading dash",
                    "write it otherwise, or leave it out",
                    "argument_type",
                )
            if trouble is not None:
                return None, trouble
            checked.append(one)
        return checked, None
    return _scalar(option, key, value, version)


def _scalar(option: Option, key: str, value: t.Any, version: str | None) -> tuple[t.Any, Trouble | None]:
    read = _READERS[option.type](value)
    if read is None:
        return None, Trouble(
            key,
            f"is {_said(value)}",
            _EXPECTED.get(option.type, "one line of text"),
            f"write {key}: {_example(option)}",
            "argument_type",
        )
    note = note_on(option.field, read)
    # An option without choices takes any word at first; what only a fork knows fails later there.
    if (read not in option.choices) if option.choices else fork_only(note):
        close = difflib.get_close_matches(str(read), [str(entry) for entry in option.choices], n=2, cutoff=0.6)
        fix = f"write {' or '.join(close)}" if close else "write one of them" if option.choices else f"remove {key}"
        return None, Trouble(
            key,
            f"is {read!r}, which sglang {version or nearest_table(version)[0]} does not take"
            + (f": {note}" if note else ""),
            "one of " + ", ".join(map(str, option.choices)) if option.choices else "what this version has",
            fix,
            "fork_only" if fork_only(note) else "argument_choice",
        )
    return read, None


def _read_str(value: t.Any) -> str | None:
    if isinstance(value, (dict, list)):
        return _json_text(value) if isinstance(value, dict) else None  # options such as json_model_override_args
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value)
    return None if not text or any(ord(char) < 32 or ord(char) == 127 for char in text) else text


def _read_int(value: t.Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", value):
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _read_float(value: t.Any) -> float | int | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_human_int(value: t.Any) -> int | str | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(Ki|Mi|Gi|Ti)|[0-9]{1,12}(\.[0-9]{1,12})?[kMGT]", value):
        return str(value)
    return _read_int(value)


def _read_json(value: t.Any) -> t.Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    try:
        return value if isinstance(value, (dict, list)) and _json_text(value) else None
    except (TypeError, ValueError):
        return None


def _json_text(value: t.Any) -> str | None:
    try:
        return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None


_READERS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "str": _read_str,
    "int": _read_int,
    "float": _read_float,
    "human_int": _read_human_int,
    "json": _read_json,
}


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "human_int": "a whole number, or one with k, M, Ki, Mi such as 32k",
    "json": "a dictionary or a list, or JSON text of one",
}


def _example(option: Option) -> str:
    if option.choices:
        return str(option.choices[0])
    if option.default not in (None, "", []) and not isinstance(option.default, (list, dict)):
        return str(option.default)
    return {"int": "8", "float": "0.9", "human_int": "32768", "json": "{key: value}"}.get(option.type, "text")


def _said(value: t.Any) -> str:
    """A value for a message, without repeating long or nested ones."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str)) and len(str(value)) <= 60:
        return repr(value) if not isinstance(value, str) else repr(str(value))
    return {dict: "a dictionary", list: "a list", type(None): "null", str: "a long text"}.get(
        type(value), "no plain value"
    )


def _words_of(option: Option, value: t.Any) -> list[str]:
    name = option.spelling
    if option.kind == "flag":
        return [name] if value else []
    if option.kind == "toggle":
        return [name if value else "--no-" + name[2:]]
    if option.kind == "optional" and value is True:
        return [name]
    if option.kind in ("list", "list0"):
        return [name, *(_word(entry) for entry in value)]
    word = _word(value)
    # argparse takes a word with a leading dash for another option.
    return [f"{name}={word}"] if word.startswith("-") else [name, word]


def _word(value: t.Any) -> str:
    if isinstance(value, (dict, list)):
        return _json_text(value) or ""
    return repr(value) if isinstance(value, float) else str(value)


def parse_argv(words: t.Sequence[t.Any], version: str | None) -> tuple[dict[str, t.Any], list[Trouble]]:
    """Read words as the version's argparse would: abbreviations, ``--x=value``, lists; the last of equal flags wins.

    The key of a trouble is the position of its word.
    """
    args: dict[str, t.Any] = {}
    troubles: list[Trouble] = []
    position = 0
    while position < len(words):
        start, word = position, words[position]
        position += 1
        if not isinstance(word, str):
            troubles.append(Trouble(str(start), f"is {_said(word)}", "text", f'write "{word}"', "argument_type"))
            continue
        if not _looks_like_flag(word):
            troubles.append(
                Trouble(
                    str(start),
                    f"is {_said(word)}, which belongs to no option",
                    "an option such as --x",
                    "write one word of the command line per entry, option and value apart",
                    "unknown_argument",
                )
            )
            continue
        name, has_value, inline = word.partition("=")
        values: list[t.Any] = [inline] if has_value else []
        while not has_value and position < len(words) and not _looks_like_flag(words[position]):
            values.append(words[position])
            position += 1
        trouble = _one_flag(args, str(start), (name, values), version)
        if trouble is not None:
            troubles.append(trouble)
    if not nearest_table(version)[1]:
        troubles = [dataclasses.replace(trouble, warning=True) for trouble in troubles]
    return args, troubles


def _looks_like_flag(word: t.Any) -> bool:
    return isinstance(word, str) and word.startswith("-") and not re.fullmatch(r"-\d+|-\d*\.\d+|-", word)


def _one_flag(args: dict[str, t.Any], key: str, flag: tuple[str, list[t.Any]], version: str | None) -> Trouble | None:
    name, values = flag
    fields = candidates(name, version)
    if not fields:
        return dataclasses.replace(_unknown(name, version), key=key, what=f"{name} {_unknown(name, version).what}")
    if len(fields) > 1:
        return Trouble(
            key,
            f"{name} is the beginning of several options",
            "one option",
            "write one in full: " + ", ".join(sorted(fields)),
            "ambiguous_argument",
        )
    field = next(iter(fields))
    option = options_for(version)[field]
    if option.kind in ("flag", "toggle"):
        if values:
            return Trouble(
                key,
                f"{name} takes no value, but {_said(values[0])} follows",
                "the flag alone",
                f"remove {_said(values[0])}",
                "argument_type",
            )
        negated = option.kind == "toggle" and not any(spelling.startswith(name) for spelling in option.spellings)
        target = options_for(version).get(option.sets)
        args[option.sets if target is not None and target.kind in ("flag", "toggle") else field] = not negated
        return None
    if option.kind == "optional" and not values:
        args[field] = True
        return None
    if (option.kind in ("value", "optional") and len(values) != 1) or (option.kind == "list" and not values):
        said = "has no value" if not values else f"has {len(values)} values"
        return Trouble(
            key,
            f"{name} {said}",
            "one value" if option.kind != "list" else "at least one value",
            f"write {option.spelling}, then the value as the next entry",
            "argument_type",
        )
    checked, trouble = _checked(option, key, values if option.kind in ("list", "list0") else values[0], version)
    if trouble is not None:
        return dataclasses.replace(trouble, what=f"{name} {trouble.what}")
    args[option.sets or field] = checked
    return None

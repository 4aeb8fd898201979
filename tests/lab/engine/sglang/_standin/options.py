"""The command line of SGLang 0.5.12.post1 as data (options.tsv), and the parser made from it.

The table was derived from the captured `--help` (flags, choices, arity, order) and from the captured
`server_args=ServerArgs(...)` line (fields, their order, defaults that the engine does not fill in).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent / "options.tsv"

# Flags whose argparse destination (their first long name) differs from the field of ServerArgs.
FIELD_OF_DEST = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
    "attention_context_parallel_size": "attn_cp_size",
    "moe_data_parallel_size": "moe_dp_size",
}
# Flags with choices and an explicit destination in the real parser, so that no metavar betrays it.
DEST_OF_FLAG = {
    "--fp4-gemm-backend": "fp4_gemm_runner_backend",
    "--fp8-gemm-backend": "fp8_gemm_runner_backend",
}


@dataclass(frozen=True)
class Option:
    """One line of the table; `field` is None for flags that set nothing, `flags` is empty for internal fields."""

    flags: tuple[str, ...]
    field: str | None
    place: int
    kind: str
    nargs: str
    required: bool
    choices: tuple[str, ...]
    default: Any


@cache
def load(path: Path = TABLE) -> list[Option]:
    """Return the options in the order of the real `--help`."""
    options = []
    with path.open(encoding="utf-8") as handle:
        for line in handle:
            if line.startswith("#") or not line.strip():
                continue
            flags, field, place, kind, choices, default = line.rstrip("\n").split("\t")
            match = re.fullmatch(r"([a-z]+)(!?)([?*+]?)", kind)
            if match is None:
                raise ValueError(f"{path}: kind {kind!r} of {flags} is not understood")
            options.append(
                Option(
                    flags=() if flags == "-" else tuple(flags.split(",")),
                    field=None if field == "-" else field,
                    place=-1 if place == "-" else int(place),
                    kind=match.group(1),
                    nargs=match.group(3),
                    required=bool(match.group(2)),
                    choices=() if choices == "-" else tuple(choices.split(" ")),
                    default=json.loads(default),
                )
            )
    return options


def human_readable_int(text: str) -> int:
    """Parse `25.6k`, `1Mi`, `4096` as the real parser does: SI suffixes take decimals, IEC suffixes do not."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(k|M|G|T|Ki|Mi|Gi|Ti)?", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"invalid human readable integer: {text!r}")
    number, suffix = match.groups()
    powers = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    powers |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    if "." in number and (suffix is None or suffix.endswith("i")):
        raise argparse.ArgumentTypeError(f"decimals are not allowed here: {text!r}")
    return int(float(number) * powers[suffix]) if "." in number else int(number) * powers[suffix]


TYPES: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "human": human_readable_int,
    "json": json.loads,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every option of the table to `parser`, abbreviations and aliases included."""
    for option in load():
        if not option.flags:
            continue
        words: dict[str, Any] = {"default": option.default}
        if option.flags[0] in DEST_OF_FLAG:
            words["dest"] = DEST_OF_FLAG[option.flags[0]]
        if option.kind == "flag":
            words["action"] = "store_true"
        elif option.kind == "boolean":
            words["action"] = argparse.BooleanOptionalAction
        else:
            words["type"] = TYPES[option.kind]
            if option.nargs:
                words["nargs"] = option.nargs
            if option.nargs == "?":
                words["const"] = ""
            if option.choices:
                words["choices"] = [TYPES[option.kind](choice) for choice in option.choices]
            if option.required:
                words["required"] = True
        flags = [flag for flag in option.flags if option.kind != "boolean" or not flag.startswith("--no-")]
        parser.add_argument(*flags, **words)


def defaults() -> dict[str, Any]:
    """Return the fields of ServerArgs with their defaults, in the real order."""
    rows = sorted((option for option in load() if option.field), key=lambda option: option.place)
    return {option.field: option.default for option in rows if option.field}

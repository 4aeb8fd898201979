"""ServerArgs: the parsed command line, importable without a GPU and with nothing but the standard library."""

from __future__ import annotations

import argparse
from typing import Any

from sglang._standin import options

PROG = "sglang serve"


class ServerArgs:
    """The fields of the real dataclass, with its repr; `complete` fills in what the real one fills in."""

    host: str
    port: int
    model_path: str

    def __init__(self, **values: Any) -> None:
        fields = options.defaults()
        unknown = sorted(set(values) - set(fields))
        if unknown:
            raise TypeError(f"ServerArgs.__init__() got an unexpected keyword argument '{unknown[0]}'")
        fields.update(values)
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return "ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items()) + ")"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields in the order of the real dataclass."""
        return {name: getattr(self, name) for name in options.defaults()}

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Add every captured option to `parser`."""
        options.add_arguments(parser)

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> ServerArgs:
        """Turn parsed words into fields; destinations that differ from their field are translated."""
        values = {}
        for dest, value in vars(args).items():
            field = options.FIELD_OF_DEST.get(dest, dest)
            if field in options.defaults():
                values[field] = value
        return cls(**values)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m sglang.launch_server`; its errors name `sglang serve`, as captured."""
    parser = argparse.ArgumentParser(prog=PROG)
    ServerArgs.add_cli_args(parser)
    return parser


def prepare_server_args(argv: list[str]) -> ServerArgs:
    """Parse `argv` (words after the module name); argparse exits with status 2 on a mistake."""
    return ServerArgs.from_cli_args(make_parser().parse_args(argv))

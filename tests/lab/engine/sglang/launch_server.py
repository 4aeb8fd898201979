"""`python -m sglang.launch_server`: parse, wait as long as the imports take, start."""

from __future__ import annotations

import sys
from pathlib import Path


def main(argv: list[str], *, recommended: bool = False) -> None:
    """Run the server until it ends; it never returns normally."""
    from sglang._standin import faults, launch, log

    settings = faults.read()
    if not recommended:
        log.write(
            f"{Path(__file__).resolve()}:54: UserWarning: 'python -m sglang.launch_server' is still supported, but "
            "'sglang serve' is the recommended entrypoint.\n  Example: sglang serve --model-path <model> [options]\n"
            "  warnings.warn(\n"
        )
    launch.run(argv, settings)


def console() -> None:
    """`sglang serve ...`: the other way to start the same server."""
    words = sys.argv[1:]
    if words[:1] == ["version"]:
        from sglang import __version__

        print(f"sglang version: {__version__}")
        return
    if words[:1] != ["serve"]:
        raise SystemExit("usage: sglang {serve,version} ...")
    main(words[1:], recommended=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m sglang.launch_server`: parse, wait as long as the imports take, start."""

from __future__ import annotations

import os
import sys


def main(argv: list[str]) -> None:
    """Run the server until it ends; it never returns normally."""
    from sglang._standin import faults, launch, log

    settings = faults.read()
    here = os.path.abspath(__file__)
    log.write(
        f"{here}:54: UserWarning: 'python -m sglang.launch_server' is still supported, but 'sglang serve' is the "
        "recommended entrypoint.\n  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n"
    )
    launch.run(argv, settings)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/env python3
"""Command line of the lab: `lab.py --lab NAME up | down | status | ssh HOST [COMMAND...]`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from labkit.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env bash
# One molecule scenario; the lab's hosts are removed whatever happens.
# usage: molecule.sh SCENARIO
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=$1
down() { .venv/bin/python tests/lab/lab.py --lab "$scenario" down >/dev/null || true; }
trap down EXIT INT TERM
.venv/bin/molecule --no-command-borders test --scenario-name "$scenario"

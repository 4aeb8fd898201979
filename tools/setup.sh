#!/usr/bin/env bash
# What a checkout needs on the controller: Debian packages, uv, a Python >= 3.12 with the locked tools, and the link
# that makes the checkout usable as the collection blackwell.sglang. Runs again in a second when nothing is missing.
# usage: setup.sh [full]    full: what `make test-full` needs besides
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# openssh-client and git serve every user; the rest is for the lab and for `make test`.
packages=(
  git make ca-certificates openssh-client python3-venv python3-pip
  systemd-container mmdebstrap debian-archive-keyring iproute2 nftables util-linux shellcheck
)
# `make test-full` opens a report in a browser. Ubuntu has Chromium as a snap only; there the test says that it is missing.
if [ "${1:-}" = full ] && grep -qx 'ID=debian' /etc/os-release; then
  packages+=(chromium)
fi

install_packages() {
  command -v dpkg-query >/dev/null || die "this setup knows Debian 12, 13 and Ubuntu 24.04; install yourself: ${packages[*]}"
  local missing=() name
  for name in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  [ "$(id -u)" = 0 ] || die "not root, and these packages are missing: ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  local log=.cache/setup-apt.log
  mkdir -p .cache
  if ! { DEBIAN_FRONTEND=noninteractive apt-get update -q &&
         DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]}; the whole log is in $log"
  fi
}

# A venv of uv's own, so that nothing is installed into the system's Python.
install_uv() {
  local wanted
  wanted=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements/uv.txt)
  if [ "$(.tools/uv/bin/uv --version 2>/dev/null | awk '{print $2}')" != "$wanted" ]; then
    say "installing uv $wanted"
    # /usr/bin/python3 first: a version manager's shim may name an interpreter without ensurepip.
    local python
    for python in /usr/bin/python3 python3; do
      rm -rf .tools/uv
      "$python" -m venv .tools/uv 2>/dev/null && break
    done
    [ -x .tools/uv/bin/python ] || die "python3 -m venv failed; is python3-venv installed?"
    .tools/uv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
  fi
}

# ansible-core 2.21 needs 3.12 or newer on the controller. Shims of pyenv refuse to run a version that is not selected,
# so its versions are looked up by path; an interpreter counts only if it runs.
find_python() {
  local candidate
  for candidate in \
    "${SGLANG_PYTHON:-}" \
    "$(command -v python3.13 || true)" "$(command -v python3.12 || true)" "$(command -v python3 || true)" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3; do
    if [ -x "$candidate" ] &&
       "$candidate" -c 'import sys, ssl, ctypes; sys.exit(not (3, 12) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say "no Python 3.12 or 3.13 on this host: uv fetches one"
  .tools/uv/bin/uv python install -q 3.13 || die "uv could not fetch Python 3.13; install python3.12 or newer, or name one in SGLANG_PYTHON"
  .tools/uv/bin/uv python find --managed-python 3.13
}

install_venv() {
  local stamp
  stamp=$(sha256sum requirements/dev.txt | cut -d' ' -f1)
  if [ "$(cat .venv/.stamp 2>/dev/null || true)" = "$stamp" ] && .venv/bin/python -c '' 2>/dev/null; then
    return
  fi
  local python
  python=$(find_python)
  say "making .venv on $("$python" --version)"
  .tools/uv/bin/uv venv -q --clear --seed --python "$python" .venv
  .tools/uv/bin/uv pip sync -q --compile-bytecode --python .venv/bin/python --require-hashes requirements/dev.txt
  printf '%s\n' "$stamp" >.venv/.stamp
}

make_link() {
  mkdir -p .collections/ansible_collections/blackwell
  ln -sfn ../../.. .collections/ansible_collections/blackwell/sglang
}

mkdir -p .tools .cache
install_packages
install_uv
install_venv
make_link

#!/usr/bin/env bash
# The demo: a hypervisor and a guest that this machine boots, and site.yml over ssh against them.
# usage: demo.sh up|down
set -euo pipefail
cd "$(dirname "$0")/.."
lab() { .venv/bin/python tests/lab/lab.py --lab demo "$@"; }

case ${1:-} in
  up)
    lab up --hosts pve1,sglang1
    # The lab stays up when the run fails: the host is what one wants to look at then.
    if ! .venv/bin/ansible-playbook site.yml -i inventories/lab; then
      echo "The run failed; the lab is still up. Look around with: .venv/bin/python tests/lab/lab.py --lab demo ssh sglang1" >&2
      exit 1
    fi
    cat <<TEXT

The lab is up and serves. Try:
  .venv/bin/ansible-playbook site.yml -i inventories/lab             a second run: changed=0
  .venv/bin/ansible-playbook playbooks/status.yml -i inventories/lab one screen per host
  .venv/bin/python tests/lab/lab.py --lab demo ssh sglang1           a shell on the guest
  make demo-down                                                    remove every trace
TEXT
    ;;
  down)
    # Works without a venv too: after an interrupted setup there may be none.
    python=.venv/bin/python
    [ -x "$python" ] || python=python3
    "$python" tests/lab/lab.py --lab demo down
    # Locks of wheels that the lab made; a real inventory keeps its own.
    rm -rf inventories/lab/.locks
    ;;
  *)
    sed -n '2,3s/^# //p' "$0" >&2
    exit 2
    ;;
esac

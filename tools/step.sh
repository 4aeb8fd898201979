#!/usr/bin/env bash
# One part of `make test`: name it, time it. With STEP_LOGS set (parts run side by side) its output goes to a file, of
# which a success shows what pytest counted and why it skipped, and a failure everything.
# usage: step.sh NAME COMMAND...
set -euo pipefail
name=$1
shift
start=$SECONDS
rc=0
if [ -n "${STEP_LOGS:-}" ]; then
  log=.cache/steps/$name.log
  mkdir -p "${log%/*}"
  printf -- '--- %s: started, its output goes to %s\n' "$name" "$log"
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  if [ "$rc" -eq 0 ]; then
    sed -E 's/\x1b\[[0-9;]*m//g; s/^ *│ ?//' "$log" | grep -E '^(SKIPPED|[= ]*[0-9]+ (passed|skipped))' || true
  else
    cat "$log"
  fi
else
  printf '\033[1m--- %s\033[0m\n' "$name"
  "$@" || rc=$?
fi
if [ "$rc" -eq 0 ]; then
  printf -- '--- %s: passed in %d s\n' "$name" $((SECONDS - start))
else
  printf -- '--- %s: FAILED (exit %d) after %d s: %s\n' "$name" "$rc" $((SECONDS - start)) "$*" >&2
fi
exit "$rc"

#!/usr/bin/env bash
# One part of `make test`: name it, time it, and keep the part's own output.
# usage: step.sh NAME COMMAND...
set -euo pipefail
name=$1
shift
printf '\033[1m--- %s\033[0m\n' "$name"
start=$SECONDS
if "$@"; then
  printf -- '--- %s: passed in %d s\n' "$name" $((SECONDS - start))
else
  rc=$?
  printf -- '--- %s: FAILED (exit %d) after %d s: %s\n' "$name" "$rc" $((SECONDS - start)) "$*" >&2
  exit "$rc"
fi

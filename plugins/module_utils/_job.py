# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long commands that outlive the connection: the script that runs one, and what its log says (private).

A job is a folder ``/run/sglang-jobs/NAME``: ``run.sh`` (what runs), ``digest`` (of what was asked), ``pid``, and ``rc``
when it ended; like the job itself it does not outlive a reboot. Under systemd the job is the transient unit
``sglang-job-NAME.service``, else a session of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import typing as t

UNIT_PREFIX = "sglang-job-"
FOLDER = "/run/sglang-jobs"
# Ninja and CMake "[12/340] Building ...", make "[ 12%] ...", uv and pip.
PROGRESS = re.compile(
    r"^\s*(\[\s*\d+(?:/\d+|%)\].*|Resolved .*|Prepared .*|Installed .*|Downloading .*|Building .*|Collecting .*|-- .*)$"
)
# What a compiler, linker, CMake, ninja, pip, uv or the kernel says when something really failed. Order does not matter:
# the first line of the log that matches is the first error.
ERROR_PATTERN = (
    r"(^|[^_[:alnum:]-])(fatal error|[Ee]rror|ERROR)( C[0-9]+)?:|^FAILED:|^CMake Error|undefined reference|"
    r"No space left on device|Killed signal|^Killed|cc1plus: out of memory|^Traceback|^fatal:|ptxas fatal"
)


def digest(argv: t.Sequence[str], environment: t.Mapping[str, str], chdir: str | None) -> str:
    """What tells one command from another: first 12 hex digits of SHA-256 over command, environment and folder."""
    text = json.dumps([list(argv), dict(environment), chdir], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def script(name: str, argv: t.Sequence[str], environment: t.Mapping[str, str], chdir: str | None, log: str) -> str:
    """The shell script of a job; it writes the exit status by a rename, so a status that is there is whole."""
    job = _folder(name)
    lines = ["#!/bin/sh", f"exec >>{shlex.quote(log)} 2>&1 </dev/null", f"echo $$ >{job}/pid"]
    lines += [f"export {key}={shlex.quote(str(value))}" for key, value in sorted(environment.items())]
    if chdir:
        lines.append(f"cd {shlex.quote(chdir)} || {{ echo 127 >{job}/rc; exit 127; }}")
    lines += [
        " ".join(shlex.quote(word) for word in argv),
        "rc=$?",
        f"echo $rc >{job}/rc.new && mv {job}/rc.new {job}/rc",
        "exit $rc",
        "",
    ]
    return "\n".join(lines)


def start_command(name: str, log: str, text: str, wanted: str) -> str:
    """A shell command that starts the job unless one of that name runs; prints ``started``, ``attached`` or ``other``.

    ``other`` means that a job of this name runs which was asked for something else.
    """
    job, unit = _folder(name), shlex.quote(f"{UNIT_PREFIX}{name}")
    # The script may hold the URL of an index with a password in it.
    return f"""set -e
mkdir -p {job}
chmod 700 {job}
{_alive(unit, job)}
# A job that has written its status is only moments from its end.
i=0
while alive && [ -f {job}/rc ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done
if alive; then
  if [ "$(cat {job}/digest 2>/dev/null)" = {wanted} ]; then echo attached; else echo other; fi
  exit 0
fi
rm -f {job}/rc {job}/pid
printf %s {shlex.quote(text)} >{job}/run.sh
echo {wanted} >{job}/digest
: >{shlex.quote(log)}
if [ -d /run/systemd/system ]; then
  systemctl reset-failed {unit}.service 2>/dev/null || true
  systemd-run --quiet --collect --unit={unit} --property=KillMode=control-group --property=Nice=5 /bin/sh {job}/run.sh
else
  setsid nohup /bin/sh {job}/run.sh >/dev/null 2>&1 </dev/null &
  echo $! >{job}/pid
fi
echo started
"""


def poll_command(name: str, log: str) -> str:
    """A shell command that prints ``running``, ``ended RC`` or ``vanished``, and then the last lines of the log."""
    job, unit = _folder(name), shlex.quote(f"{UNIT_PREFIX}{name}")
    return f"""{_alive(unit, job)}
if [ -f {job}/rc ]; then echo "ended $(cat {job}/rc)"
elif alive; then echo running
elif sleep 1; [ -f {job}/rc ]; then echo "ended $(cat {job}/rc)"
else echo vanished; fi
tail -c 4000 {shlex.quote(log)} 2>/dev/null | tr '\\r' '\\n' | tail -n 25
"""


def stop_command(name: str) -> str:
    """A shell command that ends the job and all its processes."""
    job, unit = _folder(name), shlex.quote(f"{UNIT_PREFIX}{name}")
    return f"""if [ -d /run/systemd/system ]; then systemctl stop {unit}.service
else kill -TERM -"$(cat {job}/pid)" 2>/dev/null; fi; true
"""


def error_command(log: str) -> str:
    """A shell command that prints the first real error of a log with the lines that explain it."""
    # 60 lines, since a Python traceback ends with what it has to say.
    return f"grep -n -m 1 -A 60 -E {shlex.quote(ERROR_PATTERN)} {shlex.quote(log)}; true"


def interesting(tail: str) -> str:
    """The line of a log's tail that shows progress best: the last one with a counter or a step, else the last one."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for line in reversed(lines):
        if PROGRESS.match(line):
            return line[:160]
    return lines[-1][:160] if lines else ""


def first_error(found: str, tail: str) -> str:
    """The first error out of :func:`error_command`'s output; the last line of the log if it found none."""
    lines = [re.sub(r"^\d+[:-]", "", line).rstrip() for line in found.splitlines() if line.strip() and line != "--"]
    if not lines:
        rest = [line.strip() for line in tail.splitlines() if line.strip()]
        return rest[-1] if rest else "the log is empty"
    # A Traceback's own message stands in the first line that is not indented.
    if lines[0].startswith("Traceback"):
        last = [line for line in lines[1:] if not line.startswith(" ")]
        return last[0] if last else lines[-1].strip()
    # ninja prints "FAILED: target" and the command before the compiler's own words.
    if lines[0].startswith("FAILED:"):
        words = [line for line in lines[1:] if re.search(r"(?i)\berror\b|undefined reference", line)]
        return "\n".join([lines[0], *(words[:4] or lines[-3:])])
    return "\n".join(lines[:5])


def elapsed(seconds: float) -> str:
    """Minutes and seconds as 03:25."""
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _folder(name: str) -> str:
    return shlex.quote(f"{FOLDER}/{name}")


def _alive(unit: str, job: str) -> str:
    return f"""alive() {{
  if [ -d /run/systemd/system ]; then
    case "$(systemctl is-active {unit}.service)" in active|activating|deactivating) return 0;; *) return 1;; esac
  fi
  [ -f {job}/pid ] && kill -0 "$(cat {job}/pid)" 2>/dev/null
}}"""

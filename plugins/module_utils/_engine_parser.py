# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the installed engine's own parser about a command line (private to the collection).

The tables that ship with the collection check an inventory before anything is installed. Of a fork or a version that no
table knows only the engine itself can tell, so it is asked before a running server is stopped: in the release's own
interpreter, with its class of arguments, and no further than parsing, which touches no GPU and no checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

# Importing the engine reads some thousand files: 20 s on a cold disk in a field report.
LONGEST_S = 180
# Command lines that are remembered for a release; an instance seldom has more than two or three.
KEPT = 8
_MARK = "sglang-arguments: "
# Imports may print anything, so the answer has a mark of its own; argparse would end the process, so error() raises.
_SCRIPT = f"""
import argparse, json, sys
class Refused(Exception):
    pass
class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)
answer = {{"asked": True, "accepted": True, "error": ""}}
try:
    from sglang.srt.server_args import ServerArgs
    parser = Parser(prog="sglang")
    ServerArgs.add_cli_args(parser)
except BaseException as exc:
    answer = {{"asked": False, "accepted": None, "error": type(exc).__name__ + ": " + str(exc)[:300]}}
else:
    try:
        parser.parse_args(sys.argv[1:])
    except Refused as exc:
        answer.update(accepted=False, error=str(exc)[:600])
    except BaseException as exc:
        answer.update(accepted=False, error=type(exc).__name__ + ": " + str(exc)[:300])
print("\\n{_MARK}" + json.dumps(answer))
"""


def confirm(run: Run, places: Places, release: str, words: list[str], keep: bool = True) -> dict[str, t.Any]:
    """Whether the engine of a release takes a command line.

    Args:
        run: command runner.
        places: paths of the instance.
        release: id of the release.
        words: what comes after ``-m sglang.launch_server``.
        keep: remember an accepted command line, so that the next deployment of it costs nothing.

    Returns ``{asked, accepted, error, cached}``. ``asked`` is False where the engine could not be imported or is not
    there; ``accepted`` is None then, and ``error`` says why.
    """
    cache = places.proof.with_name("arguments.json")
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()
    known = _service.read_json(cache)
    accepted = known.get("accepted") if isinstance(known, dict) and known.get("release") == release else None
    accepted = accepted if isinstance(accepted, list) else []
    if digest in accepted:
        return {"asked": True, "accepted": True, "error": "", "cached": True}
    python = places.release(release) / "venv" / "bin" / "python"
    if not release or not python.exists():
        return {"asked": False, "accepted": None, "error": f"{python} is not there", "cached": False}
    answer = ask(run, python, words)
    if answer["accepted"] and keep:
        _service.write_json(cache, {"version": 1, "release": release, "accepted": [digest, *accepted][:KEPT]})
    return {**answer, "cached": False}


def ask(run: Run, python: pathlib.Path, words: list[str]) -> dict[str, t.Any]:
    """Run the parser once: ``{asked, accepted, error}``."""
    # -I and -B: nothing from the caller's environment comes in, nothing is written into the release.
    # GPUs are hidden, so that no import makes a context on one that serves.
    env = ["env", "HOME=/nonexistent", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1"]
    status, out, err = run(["timeout", str(LONGEST_S), *env, str(python), "-I", "-B", "-c", _SCRIPT, *words])
    for line in reversed(out.splitlines()):
        if line.startswith(_MARK):
            answer: dict[str, t.Any] = json.loads(line[len(_MARK) :])
            return answer
    words_of_end = f"no end after {LONGEST_S} s" if status == 124 else f"it ended with {status}"
    last = next((line for line in reversed(err.splitlines()) if line.strip()), "")
    return {"asked": False, "accepted": None, "error": f"{words_of_end}. {last}".strip()[:400]}

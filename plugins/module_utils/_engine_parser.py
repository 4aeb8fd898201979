# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the installed engine's own parser about a command line (private to the collection).

The tables that ship with the collection check an inventory before anything is installed. Of a fork or a version that no
table knows only the engine itself can tell, so it is asked before a running server is stopped: in the release's own
interpreter, with its class of arguments, and no further than parsing, which touches no GPU and no checkpoint.

Two failures are told apart. A parser that is no longer where it was leaves the arguments to the tables: the engine may
well start. An engine that cannot be imported at all will not start either, whatever its arguments.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose, _service
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

# Importing the engine reads some thousand files: 20 s on a cold disk in a field report.
LONGEST_S = 180
# Command lines that are remembered for a release; an instance seldom has more than two or three.
KEPT = 8
# Lets an engine pass that cannot be imported.
EXCEPTION = "engine_import"
_MARK = "sglang-arguments: "
_GPU_WORDS = ("GPU", "CUDA", "NVIDIA", "NVML", "device", "driver")
# Imports may print anything, so the answer has a mark of its own; argparse would end the process, so error() raises.
_SCRIPT = f"""
import argparse, json, sys, traceback
MODULE = "sglang.srt.server_args"
class Refused(Exception):
    pass
class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)
answer = {{"asked": True, "accepted": True, "importable": True, "error": ""}}
imported = False
try:
    from sglang.srt.server_args import ServerArgs
    imported = True
    parser = Parser(prog="sglang")
    ServerArgs.add_cli_args(parser)
except BaseException as exc:
    traceback.print_exc()
    absent = isinstance(exc, ImportError) and exc.name in (MODULE, "sglang.srt") and "partially" not in str(exc)
    # What an import says of a missing GPU may be due to their being hidden from it.
    hidden = not isinstance(exc, (ImportError, OSError)) and any(word in str(exc) for word in {_GPU_WORDS!r})
    importable = True if imported or absent else None if hidden else False
    error = type(exc).__name__ + ": " + str(exc)[:300]
    answer = {{"asked": False, "accepted": None, "importable": importable, "error": error}}
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

    Returns ``{asked, accepted, importable, error, cached, diagnosis}``. ``asked`` is False where the parser could not
    be reached; ``accepted`` is None then, and ``error`` says why. ``importable`` is False where the engine itself
    cannot be imported, so that no start of it can succeed, and None where that is not known (no end in time, or a
    complaint on GPUs, which are hidden from it). ``diagnosis`` is ``{id, what, why, fix}`` where the catalogue knows.
    """
    cache = places.proof.with_name("arguments.json")
    digest = hashlib.sha256(json.dumps(words).encode()).hexdigest()
    known = _service.read_json(cache)
    accepted = known.get("accepted") if isinstance(known, dict) and known.get("release") == release else None
    accepted = accepted if isinstance(accepted, list) else []
    if digest in accepted:
        return {"asked": True, "accepted": True, "importable": True, "error": "", "cached": True, "diagnosis": None}
    python = places.release(release) / "venv" / "bin" / "python"
    if not release or not python.exists():
        absent = {"asked": False, "accepted": None, "importable": False, "error": f"{python} is not there"}
        return {**absent, "cached": False, "diagnosis": None}
    answer = ask(run, python, words)
    if answer["accepted"] and keep:
        _service.write_json(cache, {"version": 1, "release": release, "accepted": [digest, *accepted][:KEPT]})
    return {**answer, "cached": False}


def ask(run: Run, python: pathlib.Path, words: list[str]) -> dict[str, t.Any]:
    """Run the parser once: ``{asked, accepted, importable, error, diagnosis}``, as :func:`confirm` has them."""
    # -I and -B: nothing from the caller's environment comes in, nothing is written into the release.
    # GPUs are hidden, so that no import makes a context on one that serves.
    env = ["env", "HOME=/nonexistent", "CUDA_VISIBLE_DEVICES=", "OMP_NUM_THREADS=1"]
    status, out, err = run(["timeout", str(LONGEST_S), *env, str(python), "-I", "-B", "-c", _SCRIPT, *words])
    marked = next((line for line in reversed(out.splitlines()) if line.startswith(_MARK)), "")
    answer: dict[str, t.Any] = json.loads(marked[len(_MARK) :]) if marked else _no_answer(status, err)
    return {**answer, "diagnosis": _known(err, answer["error"]) if answer["importable"] is False else None}


def unimportable(release: str, answer: t.Mapping[str, t.Any]) -> str:
    """What to say of an engine that cannot be imported, with the fix."""
    known = answer["diagnosis"]
    cause = f" {known['what']}. {known['why']}" if known else ""
    fix = known["fix"] if known else "build the release anew (another pin in its stack, then site.yml), or take another"
    return f"The engine of release {release} cannot be imported ({answer['error']}).{cause} Fix: {fix.rstrip('.')}."


def granted(exceptions: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """The reason for which an engine that cannot be imported passes, if one is given."""
    return next((str(entry.get("reason") or "") for entry in exceptions if entry.get("id") == EXCEPTION), None)


def _no_answer(status: int, err: str) -> dict[str, t.Any]:
    """It ended without a word of ours: by a signal, by an exit in some import, or not in time."""
    timed_out = status == 124
    words_of_end = f"no end after {LONGEST_S} s" if timed_out else f"it ended with {status}"
    last = next((line for line in reversed(err.splitlines()) if line.strip()), "")
    error = f"{words_of_end}. {last}".strip()[:400]
    return {"asked": False, "accepted": None, "importable": None if timed_out else False, "error": error}


def _known(err: str, error: str) -> dict[str, str] | None:
    """What the catalogue says of the traceback, or else of its last line."""
    found = _diagnose.diagnose(err.splitlines())
    hits = [] if found["source"] else _diagnose.find([error])
    words = {**found, "id": hits[0].signature.id, **hits[0].texts} if hits else found
    return {key: words[key] for key in ("id", "what", "why", "fix")} if hits or found["source"] else None

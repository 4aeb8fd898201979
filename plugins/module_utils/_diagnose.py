# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a log to what happened, why, and what to do (private to the collection)."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
import string
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures import CATALOGUE
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Run

# Newest lines of a start that are read: a crash lies at the end, its first exception some thousand lines before it.
LINES = 6000
# Lines longer than this are cut before matching: the engine prints its arguments in one line of 10 KiB.
LONGEST = 4000
# Newest lines of systemd itself on a unit: some six a start that fails.
MANAGER_LINES = 40
_SETTLED = re.compile(r"(?:Started|Stopped) ")
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?P<rank>(?: [A-Z]+\d+)*)\] ?")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\s*$")
_STOP = re.compile(r"SIGTERM received\.|sglang-launch: stopped;")
_HARMLESS = re.compile(r"Ignore import error when loading")
_KEY = re.compile(r"(api_key\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s,)]+)|(--api-key[ =])(\S+)|(Bearer )(\S+)")


@dataclasses.dataclass(frozen=True)
class Hit:
    """A signature and the line that it was found in."""

    signature: Signature
    index: int
    line: str
    texts: dict[str, str]


def diagnose(
    lines: list[str],
    state: dict[str, t.Any] | None = None,
    gate: t.Sequence[str] = (),
    manager: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Say what happened.

    Args:
        lines: the log of one start, oldest first.
        state: state of the unit as :func:`_service.unit_states` gives it.
        gate: failed checks of the gate, ``gate: id: words`` each.
        manager: what systemd itself said of the unit since its last start or stop, as :func:`manager_lines` gives it.

    Returns ``{id, what, why, fix, fixed_in, source, line, rank, also: [{id, level, what, fix}], exception, tail}``.
    ``id`` is ``unknown`` where no signature fits, and then ``what`` is the first exception of the first process that
    failed; it is ``nothing`` where nothing speaks of a failure.
    """
    lines = [redact(line[:LONGEST]) for line in lines]
    extra = [*gate, *manager, *_unit_lines(state)]
    # What processes say of each other after SIGTERM is part of a stop, not a failure.
    stop = next((index for index, line in enumerate(lines) if _STOP.search(line)), len(lines))
    hits = find([*lines, *extra])
    hits = [hit for hit in hits if hit.signature.level != "generic" or not stop < hit.index < len(lines)]
    exception = first_exception(lines)
    fatal = [hit for hit in hits if hit.signature.level == "fatal"]
    generic = [hit for hit in hits if hit.signature.level == "generic"]
    chosen = _choose(fatal, exception, len(lines)) or (None if exception else next(iter(generic), None))
    result: dict[str, t.Any] = {
        "exception": exception,
        "also": _also(hits, chosen),
        "tail": [line for line in lines[-15:] if line.strip()],
    }
    if chosen:
        signature = chosen.signature
        result.update(
            {
                "id": signature.id,
                **chosen.texts,
                "fixed_in": signature.fixed_in,
                "source": signature.source,
                "line": chosen.line,
                "rank": _rank(chosen.line),
            }
        )
    elif exception:
        result.update(
            {
                "id": "unknown",
                "what": exception["text"],
                "why": "No signature fits; this is the first exception of the first process that failed.",
                "fix": "Read the lines around it in the journal.",
                "fixed_in": "",
                "source": "",
                "line": exception["text"],
                "rank": exception["rank"],
            }
        )
    else:
        result.update(_nothing(state))
    return result


def of_unit(
    run: Run, unit: str, invocation_id: str = "", gate: t.Sequence[str] = (), state: dict[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """Diagnose one start of a unit (the last one, if no InvocationID is given).

    ``state`` is how that start ended, where systemd has begun another since; without it the unit is asked.
    """
    state = state or _service.unit_states(run, [unit])[unit]
    invocation = invocation_id or state["invocation_id"]
    lines = journal(run, invocation)
    result = diagnose(lines, state, gate, manager_lines(run, unit))
    result["unit"] = unit
    result["invocation_id"] = invocation
    return result


def journal(run: Run, invocation_id: str, lines: int = LINES) -> list[str]:
    """The newest lines of one start, by InvocationID; empty where there is no journal or no such start."""
    if not invocation_id:
        return []
    words = ["journalctl", "--quiet", "--no-pager", "--all", "--output=cat", f"--lines={lines}"]
    status, out, _err = run([*words, f"_SYSTEMD_INVOCATION_ID={invocation_id}"])
    return out.splitlines() if status == 0 else []


def manager_lines(run: Run, unit: str) -> list[str]:
    """What systemd itself wrote of a unit in this boot after it last said that it was started or stopped.

    A start that fails before any process of the unit runs leaves no other trace; where a dependency failed there is not
    even an InvocationID.
    """
    words = ["journalctl", "--quiet", "--no-pager", "--boot", "--output=cat", f"--lines={MANAGER_LINES}"]
    status, out, _err = run([*words, "_PID=1", f"UNIT={unit}"])
    lines = out.splitlines() if status == 0 else []
    # An automatic restart says that the unit was stopped, too; why it failed before stands above that.
    settled = [
        index
        for index, line in enumerate(lines)
        if _SETTLED.match(line) and not (index and "Scheduled restart job" in lines[index - 1])
    ]
    return lines[settled[-1] + 1 :] if settled else lines


def find(lines: list[str]) -> list[Hit]:
    """Every signature that a line matches, with its first line; in the order of the lines."""
    # One search a signature over the whole text: a search a line would cost seconds on a long log.
    text = "\n".join("" if _HARMLESS.search(line) else line for line in lines)
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    found = []
    for signature in CATALOGUE:
        match = signature.regex.search(text)
        if match:
            index = bisect.bisect_right(starts, match.start()) - 1
            groups = {key: value or "" for key, value in match.groupdict().items()}
            texts = {name: fill(getattr(signature, name), groups) for name in ("what", "why", "fix")}
            found.append(Hit(signature, index, lines[index][:500], texts))
    return sorted(found, key=lambda hit: hit.index)


def fill(text: str, groups: dict[str, str]) -> str:
    """Put the caught groups into a text; braces that name no group stay as they are."""
    names = (
        {name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name} if "{" in text else set()
    )
    for name in names:
        if name in groups:
            text = text.replace("{" + name + "}", groups[name].strip())
    return re.sub(r"\s+", " ", text).strip()


def first_exception(lines: list[str]) -> dict[str, t.Any] | None:
    """The first exception that ended a process: ``{text, rank, index, where}``; ``where`` is the innermost frame.

    The first traceback of the log counts, since the others follow from it; where a chain is printed, its first part is
    the cause. Tracebacks that are part of a warning (an ignored import) are no failure.
    """
    for index, line in enumerate(lines):
        if not _TRACEBACK.search(line) or _HARMLESS.search(line):
            continue
        where = ""
        for number in range(index + 1, len(lines)):
            text = _STAMP.sub("", lines[number])
            if text.startswith(("  ", "\t")) or not text.strip():
                where = text.strip() if text.lstrip().startswith("File ") else where
                continue
            return {"text": text.strip()[:500], "rank": _rank(line), "index": number, "where": where}
    return None


def redact(line: str) -> str:
    """Take API keys out of a line of a log that another launcher may have written."""
    if "api" not in line and "Bearer" not in line:
        return line
    return _KEY.sub(lambda match: next(g for g in match.groups()[::2] if g) + "***", line)


def _choose(fatal: list[Hit], exception: dict[str, t.Any] | None, count: int) -> Hit | None:
    """The hit that explains most: one of the first exception itself, else the earliest one, else one of the gate."""
    if exception:
        near = [hit for hit in fatal if exception["index"] - 1 <= hit.index <= exception["index"] + 1]
        if near:
            return near[0]
    early = [hit for hit in fatal if exception is None or hit.index <= exception["index"] or hit.index >= count]
    return early[0] if early else (fatal[0] if fatal else None)


def _also(hits: list[Hit], chosen: Hit | None) -> list[dict[str, str]]:
    return [
        {"id": hit.signature.id, "level": hit.signature.level, "what": hit.texts["what"], "fix": hit.texts["fix"]}
        for hit in hits
        if hit is not chosen and hit.signature.level != "generic"
    ][:8]


def _unit_lines(state: dict[str, t.Any] | None) -> list[str]:
    if not state or state.get("result") in ("success", "", None):
        return []
    return [f"systemd: status {state.get('exit_status', 0)}, result {state['result']}"]


def _rank(line: str) -> str:
    match = _STAMP.match(line)
    return match["rank"].strip() if match else ""


def _nothing(state: dict[str, t.Any] | None) -> dict[str, t.Any]:
    words = "The log of this start speaks of no failure"
    if state and state.get("active") not in ("active", "activating"):
        words = f"The unit is {state.get('active')} ({state.get('result')}) and the log says no reason"
    return {
        "id": "nothing",
        "what": words,
        "why": "",
        "fix": "Read the journal of the unit" if state else "",
        "fixed_in": "",
        "source": "",
        "line": "",
        "rank": "",
    }

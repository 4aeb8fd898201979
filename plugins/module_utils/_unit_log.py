# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of one start of one engine: from the journal by InvocationID, or from a file by process id (private).

Nothing here judges what the lines say. What matters is that a log of another start or of another server is never taken
for this one: a unit's lines are selected by InvocationID, a file's by the process that wrote it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

Run = t.Callable[[list[str]], tuple[int, str, str]]

# Lines of a start that are read: a start of a 397B model on 8 ranks writes about 2,000; the rest is headroom.
HEAD_LINES = 20000
# Seconds after the start of the unit in which its loading must lie. A cold start with kernel builds takes up to an
# hour.
START_WINDOW_S = 2 * 3600
MAX_FILE_BYTES = 256 * 1024 * 1024
# systemd's own messages about a start (sd-messages.h, SD_MESSAGE_UNIT_STARTING and _STARTED).
_START_MESSAGE_IDS = ("7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf")
_BEGIN = re.compile(r"server_args=ServerArgs\(")
_STARTED_PID = re.compile(r"Started server process \[(\d+)\]")


@dataclasses.dataclass
class UnitLog:
    """Lines of one start and how sure it is that they belong to it.

    Attributes:
        invocation_id: systemd's id of this start; None for a file.
        active_state: systemd's ActiveState; for a file ``active`` or ``inactive`` by the process; ``unknown``
        otherwise.
        main_pid: process id, 0 when there is none.
        pids: processes of the start, main one first.
        lines: from the start on, oldest first, without line ends.
        complete: the start itself is in ``lines`` and nothing of it was dropped, rotated away or cut.
        belongs: ``yes`` (these lines are this start's), ``unknown`` (nothing ties them to it) or ``no`` (something
        speaks
            against it). Lines that do not belong are left out of ``lines``.
        source: what was read, for evidence.
        notes: sentences on completeness and belonging.
        tail: last lines, when asked for.
    """

    invocation_id: str | None = None
    active_state: str = "unknown"
    main_pid: int = 0
    pids: list[int] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)
    complete: bool = False
    belongs: str = "unknown"
    source: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)
    tail: list[str] = dataclasses.field(default_factory=list)
    sub_state: str = ""
    restarts: int = 0


def read_unit(run: Run, unit: str, tail: int = 0, head: int = HEAD_LINES) -> UnitLog:
    """Read the current (or last) start of a systemd unit from the journal.

    Args:
        run: a command runner that takes a list of words and returns (status, stdout, stderr), as
        ``module.run_command``.
        unit: for instance ``sglang-qwen.service``.
        tail: how many of the newest lines to return in ``tail``.
        head: how many of the oldest lines to return in ``lines``.

    Raises:
        SglangError: there is no systemd here, or it does not know the unit.
    """
    if shutil.which("systemctl") is None or shutil.which("journalctl") is None:
        raise SglangError(
            "systemctl or journalctl is missing",
            where=unit,
            fix="where no systemd runs the engine, give log_file and pid",
            kind="no_systemd",
        )
    state = _show(run, unit)
    invocation = state.get("InvocationID", "")
    main_pid = int(state.get("MainPID") or 0)
    log = UnitLog(
        invocation_id=invocation or None,
        active_state=state.get("ActiveState", "unknown"),
        sub_state=state.get("SubState", ""),
        restarts=int(state.get("NRestarts") or 0),
        main_pid=main_pid,
        pids=_unit_pids(state.get("ControlGroup", ""), main_pid),
        source=f"journal of {unit}, invocation {invocation or 'none'}",
    )
    if not invocation:
        log.belongs = "no"
        log.notes.append(f"{unit} has no InvocationID: it was not started since this host booted")
        return log
    log.belongs = "yes"
    entries = _journal(run, invocation, _start_window(state), f"+{head}")
    log.lines, dropped, started = _messages(entries)
    log.complete = started and not dropped
    if not started:
        log.notes.append("the journal no longer holds the start of this invocation (rotated away)")
    if dropped:
        log.notes.append(f"the journal dropped {dropped} messages of this start (rate limit)")
    if len(entries) >= head:
        log.notes.append(f"only the first {head} journal entries of this start were read")
    if tail:
        log.tail = _messages(_journal(run, invocation, [], str(tail)))[0]
    return log


def read_file(path: str, pid: int | None = None) -> UnitLog:
    """Read the newest start in a log file and tie it to the process ``pid``.

    The lines belong to the process when they name it ("Started server process [PID]", also as the number that the
    process has inside its own PID namespace), or when its stdout or stderr is that very file; they do not when they
    name another one. A process that is gone cannot be the one that answers, and a file that was last written before the
    process was born cannot be its own, so then nothing ties the lines to it (``belongs`` is ``unknown``).

    Raises:
        SglangError: the file is not there, cannot be read or is larger than 256 MiB.
    """
    try:
        stat = pathlib.Path(path).stat()
        if stat.st_size > MAX_FILE_BYTES:
            raise SglangError(
                f"the log has {stat.st_size} bytes",
                where=path,
                expected=f"at most {MAX_FILE_BYTES}",
                fix="give the log of one start, or run the engine as a unit",
                kind="too_large",
            )
        text = pathlib.Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as exc:
        raise SglangError(f"cannot read the log: {exc.strerror or exc}", where=path, kind="unreadable") from exc
    return from_lines(text.splitlines(), pid=pid, source=path, stat=stat)


def from_lines(
    lines: t.Iterable[str], pid: int | None = None, source: str = "lines", stat: os.stat_result | None = None
) -> UnitLog:
    """As :func:`read_file`, for lines at hand."""
    every = list(lines)
    begins = [i for i, line in enumerate(every) if _BEGIN.search(line)]
    own = every[begins[-1] :] if begins else every
    log = UnitLog(main_pid=pid or 0, pids=[pid] if pid else [], lines=own, complete=bool(begins), source=source)
    if len(begins) > 1:
        log.notes.append(f"the file holds {len(begins)} starts; the newest is read")
    if not begins:
        log.notes.append("the line that begins a start (server_args=ServerArgs) is not in the file")
    named = [int(match[1]) for match in map(_STARTED_PID.search, own) if match]
    _tie(log, pid, named[-1] if named else None, len(begins), stat)
    if log.belongs == "no":
        log.lines, log.complete = [], False
    return log


def _tie(log: UnitLog, pid: int | None, named: int | None, starts: int, stat: os.stat_result | None) -> None:
    if pid is None:
        log.notes.append("no process id was given, so nothing ties the file to a process")
        return
    alive = _alive(pid)
    log.active_state = "active" if alive else "inactive"
    names = {pid, *_namespace_pids(pid)}
    if named is not None and named not in names:
        log.belongs = "no"
        log.notes.append(f"the log is of process {named}, not of {pid}")
    elif not alive:
        log.notes.append(f"process {pid} is not running here, so the log is no proof of what runs")
    elif stat is not None and (born := _born(pid)) is not None and stat.st_mtime < born - 2:
        # The number was used before; only the answers of a server could still tie these lines to it.
        log.notes.append(f"the file was last written before process {pid} was born")
    elif named is not None:
        log.belongs = "yes"
        log.notes.append(f"the log names process {named}, which is running")
    elif starts == 1 and stat is not None and _is_output_of(pid, stat):
        # With several starts in the file the newest may be one that died before this process wrote its first line.
        log.belongs = "yes"
        log.notes.append(f"process {pid} writes to this very file, which holds one start")
    else:
        log.notes.append(f"nothing in the log names process {pid}, and the process does not write to the file")


def _show(run: Run, unit: str) -> dict[str, str]:
    wanted = "InvocationID,LoadState,ActiveState,SubState,MainPID,ControlGroup,NRestarts,InactiveExitTimestamp"
    status, out, err = run(["systemctl", "show", unit, "--timestamp=unix", f"--property={wanted}"])
    if status != 0:  # --timestamp=unix came with systemd 251
        status, out, err = run(["systemctl", "show", unit, f"--property={wanted}"])
    state = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    if status != 0 or state.get("LoadState") == "not-found":
        raise SglangError(
            "systemd does not know the unit" + (f": {err.strip()}" if err.strip() else ""), where=unit, kind="no_unit"
        )
    return state


def _start_window(state: dict[str, str]) -> list[str]:
    start = state.get("InactiveExitTimestamp", "")
    return [f"--until=@{int(start[1:]) + START_WINDOW_S}"] if re.fullmatch(r"@\d+", start) else []


def _journal(run: Run, invocation: str, window: list[str], lines: str) -> list[dict[str, t.Any]]:
    # Three matches in one query: what the unit's processes wrote, what systemd said about the start, and what journald
    # said about lines of it that it dropped.
    matches = [
        f"_SYSTEMD_INVOCATION_ID={invocation}",
        "+",
        f"INVOCATION_ID={invocation}",
        "+",
        f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}",
    ]
    fields = "MESSAGE,MESSAGE_ID,N_DROPPED,_PID,_STREAM_ID,_LINE_BREAK,_TRANSPORT,_COMM"
    base = ["journalctl", "--quiet", "--no-pager", "--all", "--output=json", f"--output-fields={fields}", *window]
    # --lines=+N, the oldest N, came with systemd 254; older ones take it for N and show the newest, without a word.
    limits = [f"--lines={lines}"] if not lines.startswith("+") or _systemd_version(run) >= 254 else []
    status, out, err = run([*base, *limits, *matches])
    if status != 0:
        raise SglangError(
            f"journalctl failed: {err.strip() or status}",
            where=f"invocation {invocation}",
            fix="run as root or as a member of systemd-journal",
            kind="unreadable",
        )
    entries = []
    for line in out.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    limit = int(lines.lstrip("+"))
    return entries[:limit] if lines.startswith("+") else entries[-limit:]


def _systemd_version(run: Run) -> int:
    """The number in "systemd 255 (255.4-1ubuntu8)"; 0 where it cannot be read."""
    _code, out, _err = run(["journalctl", "--version"])
    match = re.match(r"systemd (\d+)", out)
    return int(match[1]) if match else 0


def _messages(entries: list[dict[str, t.Any]]) -> tuple[list[str], int, bool]:
    """Lines of the unit's own processes, messages dropped, and whether systemd's word of the start is among the
    entries.
    """
    lines: list[str] = []
    open_streams: dict[str, int] = {}
    dropped = 0
    started = False
    for entry in entries:
        if entry.get("MESSAGE_ID") in _START_MESSAGE_IDS:
            started = True
            continue
        if "N_DROPPED" in entry:
            dropped += int(entry["N_DROPPED"])
            continue
        if entry.get("_PID") == "1":
            continue
        message = _text(entry.get("MESSAGE"))
        stream = str(entry.get("_STREAM_ID", ""))
        if stream in open_streams:  # journald cut a long line (LineMax=48K); put it together again
            lines[open_streams[stream]] += message
        else:
            lines.append(message)
        if entry.get("_LINE_BREAK") == "line-max":
            open_streams.setdefault(stream, len(lines) - 1)
        else:
            open_streams.pop(stream, None)
    return lines, dropped, started


def _text(message: t.Any) -> str:
    """A MESSAGE in journald's JSON: text, or a list of bytes where it holds control characters."""
    if isinstance(message, str):
        return message
    if isinstance(message, list) and all(isinstance(part, int) for part in message):
        return bytes(part & 255 for part in message).decode("utf-8", "replace")
    return ""


def _unit_pids(control_group: str, main_pid: int) -> list[int]:
    found: set[int] = set()
    root = pathlib.Path("/sys/fs/cgroup") / control_group.strip("/")
    if control_group.strip("/"):
        for procs in [root / "cgroup.procs", *root.glob("**/cgroup.procs")]:
            try:
                found.update(int(word) for word in procs.read_text().split())
            except (OSError, ValueError):
                continue
    rest = sorted(found - {main_pid})
    return [main_pid, *rest] if main_pid else rest


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    # A zombie still has an entry but serves nobody.
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return True


def _namespace_pids(pid: int) -> list[int]:
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    match = re.search(r"^NSpid:\s*(.+)$", text, re.MULTILINE)
    return [int(word) for word in match[1].split()] if match else []


def _is_output_of(pid: int, stat: os.stat_result) -> bool:
    for fd in (1, 2):
        try:
            out = pathlib.Path(f"/proc/{pid}/fd/{fd}").stat()
        except OSError:
            continue
        if (out.st_dev, out.st_ino) == (stat.st_dev, stat.st_ino):
            return True
    return False


def _born(pid: int) -> float | None:
    """Seconds since the epoch at which a process was born (field 22 of /proc/PID/stat, in clock ticks since boot)."""
    try:
        ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = re.search(r"^btime (\d+)$", pathlib.Path("/proc/stat").read_text(), re.MULTILINE)
        return float(boot[1]) + ticks / os.sysconf("SC_CLK_TCK") if boot else None
    except (OSError, ValueError, IndexError):
        return None

"""The processes beside the main one: a scheduler per rank and a detokenizer.

They write lines and hold GPU memory on request.

A child is forked before the main process starts a thread, waits on a pipe and costs next to nothing. Like the real ones
it dies with the main process, unless it is told to be an orphan.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from sglang._standin import gpus, log

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15


def set_title(title: str) -> None:
    """Give the process a name in `ps` and nvidia-smi: the command line is overwritten, as setproctitle does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, title[:15].encode(), 0, 0, 0)
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    if 0 < start < end:
        ctypes.memmove(start, title.encode()[: end - start - 1].ljust(end - start, b"\0"), end - start)


class ChildDied(Exception):
    """A child ended while the main process talked to it."""


class Child:
    """The main process's end of one child."""

    def __init__(self, name: str, title: str, rank: int | None, holders: str, **habits: Any) -> None:
        self.name = name
        self.rank = rank
        down_read, self._write = os.pipe()
        self._read, up_write = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._write)
                os.close(self._read)
                _prepare(title, parent, habits)
                _serve(title, rank, holders, commands=down_read, answers=up_write)
                _linger(habits)
                gpus.release(holders, os.getpid())
            finally:
                os._exit(0)
        os.close(down_read)
        os.close(up_write)

    def tell(self, **command: Any) -> None:
        """Send a command and wait until it is done."""
        try:
            os.write(self._write, json.dumps(command).encode() + b"\n")
            if os.read(self._read, 1):
                return
        except OSError:
            pass
        raise ChildDied(self.name)

    def line(self, text: str) -> None:
        """Write a stamped line from the child."""
        self.tell(line=text)

    def raw(self, text: str) -> None:
        """Write text as it is from the child (progress bars, warnings of libraries)."""
        self.tell(raw=text)

    def hold(self, index: int, gib: float) -> None:
        """Hold `gib` GiB of GPU `index`, in place of what was held before."""
        self.tell(hold={str(index): round(gib * 1024)})


def _prepare(title: str, parent: int, habits: dict[str, Any]) -> None:
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if habits.get("ignore_sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if habits.get("orphan"):
        _become_orphan()
    else:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
    set_title(title)


def _serve(title: str, rank: int | None, holders: str, *, commands: int, answers: int) -> None:
    with os.fdopen(commands, encoding="utf-8") as stream:
        for text in stream:
            command = json.loads(text)
            if "line" in command:
                log.line(command["line"], rank)
            if "raw" in command:
                log.write(command["raw"])
            if "hold" in command:
                try:
                    gpus.hold(holders, title, {int(k): v for k, v in command["hold"].items()})
                except OSError as error:
                    log.write(f"sglang stand-in: {title} cannot hold GPU memory: {error}\n")
            try:
                os.write(answers, b".")
            except OSError:
                break


def _linger(habits: dict[str, Any]) -> None:
    """The main process is gone. The real children exit; an orphan keeps its memory until somebody kills it."""
    while habits.get("orphan"):
        time.sleep(3600)


def _become_orphan() -> None:
    """Outlive the main process: own session, deaf to polite signals, where allowed outside the unit's control group."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    try:
        inside = Path("/proc/self/cgroup").read_text(encoding="utf-8").strip().rpartition(":")[2].strip("/")
        above = Path("/sys/fs/cgroup", inside).parent / "cgroup.procs"
        above.write_text(str(os.getpid()), encoding="utf-8")
    except OSError:
        pass  # an unprivileged service cannot leave its control group

"""Log lines as the real server writes them: one write each, so that lines of several processes never mix."""

from __future__ import annotations

import os
import time


def stamp(text: str, rank: int | None = None) -> str:
    """Prefix a line with the time and, for tensor parallel servers, the rank: `[2026-11-29 17:56:43 TP0] ...`."""
    mark = "" if rank is None else f" TP{rank}"
    return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{mark}] {text}\n"


def write(text: str, descriptor: int = 2) -> None:
    """Write all of `text`; a closed pipe is not worth dying for."""
    data = text.encode()
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass


def line(text: str, rank: int | None = None) -> None:
    """Write a stamped line to stderr."""
    write(stamp(text, rank))


def access(peer: tuple[str, int], request: str, status: int, reason: str) -> None:
    """Write uvicorn's access line to stdout."""
    write(stamp(f'INFO:     {peer[0]}:{peer[1]} - "{request}" {status} {reason}'), 1)

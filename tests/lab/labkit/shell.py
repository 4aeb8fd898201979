"""Commands, processes, locks and progress lines."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_START = time.monotonic()
_PRINT = threading.Lock()


class LabError(Exception):
    """Something that the lab needs is missing or failed; the text says what to do."""


def say(text: str) -> None:
    """Print one progress line with the seconds since the start."""
    with _PRINT:
        print(f"[lab {time.monotonic() - _START:6.1f}s] {text}", flush=True)


def run(
    argv: Sequence[str | Path],
    *,
    check: bool = True,
    env: dict[str, str] | None = None,
    data: str | None = None,
    tied: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output; raise LabError with its last lines when it fails.

    A `tied` command is killed when this process ends, however that happens.
    """
    # A build that outlived a killed run would write into a folder that the next run uses.
    words = ["setpriv", "--pdeathsig", "KILL", *map(str, argv)] if tied else [str(word) for word in argv]
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=env, input=data, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{words[0]} is not installed; `make setup` installs what the lab needs") from error
    if check and done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
        raise LabError(f"command failed with status {done.returncode}: {' '.join(words)}\n{tail}")
    return done


def contained(script: str, *args: str | Path, log: Path | None = None) -> None:
    """Run a root shell script whose processes and mounts all end with this process, even by SIGKILL.

    A process-id namespace takes its members with it, a mount namespace its mounts; setpriv ties the first process to
    this one.
    """
    argv = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-euc",
        script,
        "lab-build",
        *args,
    ]
    done = run(argv, check=False)
    if log is not None:
        log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
        raise LabError(f"building for the lab failed with status {done.returncode}:\n{tail}")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the kernel drops it when this process ends, however that happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that holds {path.name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def command_line(pid: int) -> list[str]:
    """Words of a process's command line; empty when it is gone, a zombie or the kernel's."""
    for _ in range(50):
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
            if raw:
                return raw.decode("utf-8", "replace").split("\0")[:-1]
            # In the middle of an execve it is empty for a moment; zombies and kernel threads have no `exe`.
            Path(f"/proc/{pid}/exe").readlink()
        except OSError:
            return []
        time.sleep(0.001)
    return []


def processes() -> Iterator[int]:
    """Process ids of this machine."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def having_words(*words: str) -> list[int]:
    """Process ids whose command line has all these words, each as a whole word: how `down` finds what it started."""
    return [pid for pid in processes() if pid != os.getpid() and set(words) <= set(command_line(pid))]


def kill_and_wait(pids: Sequence[int], seconds: float = 10.0) -> None:
    """SIGKILL these processes and wait until they are gone; raise LabError when one stays."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    for pid in pids:
        while _alive(pid):
            if time.monotonic() > deadline:
                raise LabError(f"process {pid} does not end after SIGKILL: {' '.join(command_line(pid))}")
            time.sleep(0.01)


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def detach(argv: Sequence[str | Path], log: Path) -> int:
    """Start a process that outlives this one, its output in `log`; return its process id."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd="/",
        ).pid


def fail(text: str) -> None:
    """Print an error for people."""
    print(f"lab: {text}", file=sys.stderr, flush=True)

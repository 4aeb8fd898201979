# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the engine of one instance so that its API key shows nowhere.

Run by ``sglang-NAME.service`` as the service user. It stays as the unit's main process, starts the engine as its child
and copies the child's output to the journal. Why not exec the engine:

* The engine takes its key as an argument and prints all of its arguments in its first log line. Here the key comes as a
  systemd credential, reaches the engine over a pipe into its own ``sys.argv`` (the kernel's copy, which everybody may
  read in /proc/PID/cmdline, never holds it), and is replaced by ``***`` in whatever the engine prints.
* Some versions kill themselves with SIGKILL while they handle SIGTERM and so end with status 137. Whether that was a
  stop or an accident only the one who passed the signal on can tell: after SIGTERM this launcher ends with 0, otherwise
  with the engine's own status. ``SuccessExitStatus=137`` would also swallow a real kill, and the service would stay
  down.
* The release is resolved once, here: switching the instance's link never mixes two releases in one running server.

Only the standard library is used; any Python from 3.9 on will do.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import runpy
import select
import signal
import subprocess
import sys
import time
import typing as t

MASK = b"***"
# Bytes of a line without an end that are passed on at once; longer secrets are refused below.
LONGEST_LINE = 65536
# Seconds in which output of grandchildren is still copied after the engine itself has ended.
DRAIN_S = 3.0
# Caches that a just-in-time compiler fills. They belong to one instance and one release: a kernel compiled by another
# version, taken from a shared cache, is a known cause of NaN after an upgrade.
CACHES = {
    "XDG_CACHE_HOME": "xdg",
    "TRITON_CACHE_DIR": "triton",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TVM_FFI_CACHE_DIR": "tvm_ffi",
    "CUDA_CACHE_PATH": "cuda",
    "SGLANG_DG_CACHE_DIR": "deep_gemm",
}


class Masker:
    """Replaces a secret in a stream of bytes, also where it is escaped; by whole lines, so that no cut hides it."""

    def __init__(self, secret: str) -> None:
        forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]} if secret else set()
        self._forms = sorted((form.encode() for form in forms if form), key=len, reverse=True)
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take a piece, give the whole lines that are complete now. Progress bars (CR) become lines of their own."""
        # A CR LF pair is one line end; a bare CR is how a progress bar redraws itself.
        text = (self._rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, sep, self._rest = text.rpartition(b"\n")
        if len(self._rest) > LONGEST_LINE:
            head, sep, self._rest = head + sep + self._rest, b"", b""
        return self._masked(head + sep)

    def end(self) -> bytes:
        """What is left after the last piece."""
        rest, self._rest = self._rest, b""
        return self._masked(rest)

    def _masked(self, text: bytes) -> bytes:
        for form in self._forms:
            text = text.replace(form, MASK)
        return text


def read_key() -> str:
    """The API key of this unit, or an empty text where none is configured."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = pathlib.Path(folder, "api_key") if folder else None
    if path is None or not path.exists():
        return ""
    key = path.read_text(encoding="utf-8").strip()
    if len(key.encode()) > 4096:
        sys.exit("sglang-launch: the api_key is longer than 4096 bytes; write a shorter one")
    return key


def environment(release: pathlib.Path, cache: pathlib.Path) -> dict[str, str]:
    """The engine's environment: the unit's, with caches of this release and the release's programs first on PATH."""
    env = dict(os.environ)
    folder = cache / release.name
    for name, sub in CACHES.items():
        if name not in env:
            path = folder / sub
            path.mkdir(parents=True, exist_ok=True)
            env[name] = str(path)
    path_list = [str(release / "venv" / "bin")]
    cuda = pathlib.Path(env.get("CUDA_HOME", "/usr/local/cuda"))
    if (cuda / "bin").is_dir():
        env.setdefault("CUDA_HOME", str(cuda))
        path_list.append(str(cuda / "bin"))
    env["PATH"] = ":".join([*path_list, env.get("PATH", "/usr/local/bin:/usr/bin:/bin")])
    env["PYTHONUNBUFFERED"] = "1"
    env["VIRTUAL_ENV"] = str(release / "venv")
    return env


def supervise(options: argparse.Namespace, words: list[str]) -> int:
    """Start the engine, copy its output, pass signals on; the status to end with."""
    release = pathlib.Path(options.release).resolve()
    python = release / "venv" / "bin" / "python"
    if not python.exists():
        print(f"sglang-launch: {python} is missing: the release is not complete", file=sys.stderr)
        return 78
    key = read_key()
    key_read, key_write = os.pipe()
    os.write(key_write, key.encode())
    os.close(key_write)
    out_read, out_write = os.pipe()
    command = [str(python), str(pathlib.Path(__file__).resolve()), "--engine", str(key_read), "--", *words]
    stopping = False
    child: subprocess.Popen[bytes] | None = None

    def forward(number: int, _frame: t.Any) -> None:
        nonlocal stopping
        stopping = stopping or number in (signal.SIGTERM, signal.SIGINT)
        if child is not None and child.poll() is None:
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out_write,
        stderr=out_write,
        pass_fds=(key_read,),
        env=environment(release, pathlib.Path(options.cache)),
    )
    os.close(out_write)
    os.close(key_read)
    if stopping:  # the signal came between the handler and the child
        child.terminate()
    copy_output(out_read, child, Masker(key))
    status = child.wait()
    if stopping:
        print(f"sglang-launch: stopped; the engine ended with {status}", flush=True)
        return 0
    print(f"sglang-launch: the engine ended by itself with {status}", flush=True)
    return 128 - status if status < 0 else status


def copy_output(source: int, child: subprocess.Popen[bytes], masker: Masker) -> None:
    """Copy until every writer is gone; children that outlive the engine are heard for :data:`DRAIN_S` seconds more."""
    deadline: float | None = None
    while True:
        if deadline is None and child.poll() is not None:
            deadline = time.monotonic() + DRAIN_S
        if deadline is not None and time.monotonic() > deadline:
            break
        ready, _rest, _rest = select.select([source], [], [], 0.2)
        if not ready:
            continue
        data = os.read(source, 65536)
        if not data:
            break
        write(masker.feed(data))
    write(masker.end())


def write(data: bytes) -> None:
    """Write all of it to standard output."""
    while data:
        data = data[os.write(1, data) :]


def become_engine(descriptor: int, words: list[str]) -> None:
    """In the release's interpreter: take the key from the pipe and run the engine as ``python -m`` would."""
    with os.fdopen(descriptor, "rb") as pipe:
        key = pipe.read().decode()
    own = str(pathlib.Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != own]
    sys.argv = ["sglang.launch_server", *words, *(["--api-key", key] if key else [])]
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)


def main() -> int:
    """Entry of both roles."""
    parser = argparse.ArgumentParser(description="Start the SGLang engine of one instance.")
    parser.add_argument("--release", help="link of the instance, /opt/sglang/instances/NAME/release")
    parser.add_argument("--cache", help="folder of the instance's caches, /var/cache/sglang/NAME")
    parser.add_argument("--engine", type=int, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs=argparse.REMAINDER, help="-- and the engine's arguments")
    options = parser.parse_args()
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if options.engine is not None:
        become_engine(options.engine, words)
        return 0
    if not options.release or not options.cache:
        parser.error("--release and --cache are required")
    return supervise(options, words)


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A benchmark client that runs by itself while short module calls look at it (private to the collection).

A level of a large sweep takes half an hour. A module call that long shows nothing and dies with the connection, so the
client is started in a session of its own in a folder of its own, and its screen, result and exit status are files.
"""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import shutil
import signal
import tempfile
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _bench_client,
    _bench_instant,
    _bench_plan,
    _bench_text,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

PREFIX = "sglang-bench-"
# Bytes of the client's screen that are read to see how far it is.
TAIL_BYTES = 20000

# $1 is the folder; the rest is the client. With a file instant.py an own server is up while the client runs, and its
# address is appended.
SCRIPT = r"""#!/bin/sh
folder=$1; shift
cd "$folder" || exit 1
echo $$ > pid
if [ -f instant.py ]; then
  "$1" instant.py port >instant.txt 2>&1 </dev/null &
  server=$!
  for i in $(seq 200); do [ -f port ] && break; sleep 0.05; done
  url=http://127.0.0.1:$(cat port)
  "$@" --base-url "$url" >out.txt 2>err.txt </dev/null
  rc=$?
  kill "$server"
else
  "$@" >out.txt 2>err.txt </dev/null
  rc=$?
fi
echo $rc > rc.new && mv rc.new rc
"""

RunEnv = t.Callable[[list[str], dict[str, str]], tuple[int, str, str]]


def start(
    run: RunEnv,
    *,
    python: str,
    base_url: str,
    model_path: str,
    tokenizer: str,
    level: _bench_plan.Level,
    shape: _bench_plan.Shape,
    text: str = "",
    seed: int = 1,
    user: str = "",
    api_key: str = "",
    instant: bool = False,
    parent: str = "/var/tmp",
) -> dict[str, t.Any]:
    """Start one level; ``{folder, command, text_digest}``.

    Args:
        run: runs words with further environment variables.
        python: interpreter of the release.
        base_url: the server; unused with ``instant``.
        model_path: checkpoint, for the client's own tokenizer.
        tokenizer: folder of the tokenizer, empty for the checkpoint's.
        level: how many at once and how many in all.
        shape: lengths and kind of the prompts.
        text: a file of prose, empty for Python's help topics.
        seed: of the client.
        user: user to run as when root; empty keeps root.
        api_key: of the server; goes into the environment.
        instant: measure the client against a server that answers at once.
        parent: folder to make the job's folder in.

    Raises:
        SglangError: no client, no text, or the job did not start.
    """
    client = _bench_client.find(python)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    digest = ""
    dataset = ""
    if shape.dataset == "text":
        dataset = str(folder / "text.json")
        digest = _bench_text.write_dataset(
            pathlib.Path(dataset), _bench_text.read(text), level.prompts, shape.input_len
        )
    if instant:
        source = t.cast("t.Any", _bench_instant.__loader__).get_source(_bench_instant.__name__)
        (folder / "instant.py").write_text(source, encoding="utf-8")
    (folder / "job.sh").write_text(SCRIPT, encoding="utf-8")
    words = _bench_client.words(
        client,
        base_url=base_url,
        model_path=model_path,
        tokenizer=tokenizer or model_path,
        level=level,
        shape=shape,
        dataset=dataset,
        output=str(folder / "result.jsonl"),
        seed=seed,
    )
    if instant:
        at = words.index("--base-url")
        words = words[:at] + words[at + 2 :]
    as_user = _hand_over(folder, user)
    env = {**_bench_client.environment(api_key), "HF_HOME": str(folder / "hf"), "HOME": str(folder)}
    command = ["setsid", "--fork", *as_user, "/bin/sh", str(folder / "job.sh"), str(folder), *words]
    status, out, err = run(command, env)
    if status != 0:
        remove(str(folder), parent)
        raise SglangError(f"the client did not start: {(err or out).strip()[:300]}", where=command[0], kind="no_start")
    (folder / "level.json").write_text(json.dumps({"begun": time.time()}), encoding="utf-8")
    return {"folder": str(folder), "command": words, "text_digest": digest, "client": client.module}


def look(folder: str, level: _bench_plan.Level, seconds: float = 0.0) -> dict[str, t.Any]:
    """Wait up to ``seconds`` for the end; ``{finished, progress, row}`` and, when the client failed, ``error``.

    ``row`` is None until the level has ended, and when the client itself failed.
    """
    place = pathlib.Path(folder)
    deadline = time.monotonic() + seconds
    while not (place / "rc").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    screen = _tail(place / "err.txt") + "\n" + _tail(place / "out.txt")
    state: dict[str, t.Any] = {
        "finished": (place / "rc").exists(),
        "progress": _bench_client.progress(screen),
        "row": None,
        "error": "",
    }
    if not state["finished"]:
        return state
    status = (place / "rc").read_text(encoding="ascii").strip()
    try:
        record = _bench_client.read_record(_whole(place / "result.jsonl"))
    except SglangError as exc:
        lines = [line for line in _tail(place / "err.txt").splitlines() if line.strip()]
        last = lines[-1].strip()[:300] if lines else "it printed nothing"
        state["error"] = f"the client ended with {status}: {exc.what}; its last line is: {last}"
        return state
    state["row"] = _bench_client.row(record, level)
    if state["row"]["label"] == "errors":
        state["row"]["why"] = _bench_client.first_error(screen) or f"{state['row']['errors']} requests did not complete"
    return state


def stop(folder: str) -> None:
    """End a job and what it started; one that has ended is left alone."""
    place = pathlib.Path(folder)
    if (place / "rc").exists() or not (place / "pid").exists():
        return
    try:
        group = int((place / "pid").read_text(encoding="ascii"))
        os.killpg(os.getpgid(group), signal.SIGTERM)
    except (OSError, ValueError):
        pass


def remove(folder: str, parent: str = "/var/tmp") -> None:
    """End a job and delete its folder; refuses any other folder."""
    place = pathlib.Path(folder)
    if place.parent != pathlib.Path(parent) or not place.name.startswith(PREFIX):
        raise SglangError(f"{folder} is no folder of a benchmark", expected=f"{parent}/{PREFIX}...", kind="bad_folder")
    stop(folder)
    shutil.rmtree(place, ignore_errors=True)


def _hand_over(folder: pathlib.Path, user: str) -> list[str]:
    """Give the folder to ``user`` and return the words that run a command as that user."""
    if not user or os.geteuid() != 0:
        return []
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return []
    for path in (folder, *folder.iterdir()):
        os.chown(path, entry.pw_uid, entry.pw_gid)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]


def _tail(path: pathlib.Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - TAIL_BYTES))
            return stream.read().decode("utf-8", "replace").replace("\r", "\n")
    except OSError:
        return ""


def _whole(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

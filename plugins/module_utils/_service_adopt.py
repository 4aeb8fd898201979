# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a server that somebody started by hand becomes an instance (private to the collection)."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _procs

# Words that say that a command line is the engine's: `python -m sglang.launch_server`, `sglang serve`.
_ENGINE = ("sglang.launch_server", "sglang.srt.entrypoints.http_server", "sglang/launch_server.py")
# Arguments whose value is a secret; it is never shown.
_SECRET = ("api_key", "admin_api_key", "ssl_keyfile_password", "hf_token")
# The holder of a GPU is a child (or its child) of the process that was started.
_GENERATIONS = 4


def advice(holders: t.Sequence[dict[str, t.Any]]) -> str:
    """A sentence for each server among the holders that was started by hand: what to write to take it over."""
    seen: dict[str, str] = {}
    for holder in holders:
        pid = server_pid(int(holder["pid"]))
        if pid:
            unit = holder["unit"]
            loose = not unit.endswith(".service") or unit.startswith("user@")
            end = f"kill {pid}" if loose else f"systemctl disable --now {unit}"
            seen[end] = proposal(arguments(pid), name_of(unit))
    return "".join(
        f"; to adopt it, write in sglang_instances: {entry}, then {end}, then site.yml" for end, entry in seen.items()
    )


def server_pid(pid: int) -> int:
    """The process of the engine that a process belongs to (itself or an ancestor), or 0."""
    for _generation in range(_GENERATIONS):
        if pid <= 1:
            return 0
        if arguments(pid) is not None:
            return pid
        pid = int(_procs.describe(pid)["ppid"])
    return 0


def arguments(pid: int) -> list[str] | None:
    """The engine's arguments of a process, or None where it is no engine."""
    try:
        words = (_procs.PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    for index, word in enumerate(words):
        if word.endswith(_ENGINE):
            return [each for each in words[index + 1 :] if each]
        if pathlib.PurePath(word).name == "sglang" and words[index + 1 : index + 2] == ["serve"]:
            return [each for each in words[index + 2 :] if each]
    return None


def proposal(words: list[str] | None, name: str) -> str:
    """An entry of ``sglang_instances`` for a command line, on one line of YAML; secrets are left out."""
    args: dict[str, t.Any] = {}
    flag = ""
    for word in words or []:
        if word.startswith("--"):
            flag, _rest, value = word[2:].partition("=")
            flag = flag.replace("-", "_")
            args[flag] = _value(value) if value else True
        elif flag:
            args[flag] = _value(word) if args[flag] is True else f"{args[flag]} {word}"
    entry: dict[str, t.Any] = {
        "name": name,
        "model_path": str(args.pop("model_path", args.pop("model", "/models/NAME"))),
    }
    secret = [key for key in _SECRET if args.pop(key, None) is not None]
    entry["args"] = args
    if "api_key" in secret:
        entry["api_key"] = "{{ vault_sglang_api_key }}"
    return json.dumps(entry)


def name_of(unit: str) -> str:
    """A name of an instance from that of a unit."""
    text = re.sub(r"\.(service|scope)$", "", unit)
    text = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return text.removeprefix("sglang-")[:40].strip("-") or "qwen"


def _value(text: str) -> t.Any:
    return int(text) if re.fullmatch(r"\d{1,12}", text) else text

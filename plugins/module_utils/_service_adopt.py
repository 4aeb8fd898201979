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
PORT = 30000  # where the engine listens unless told


def advice(holders: t.Sequence[dict[str, t.Any]]) -> str:
    """A sentence for each server among the holders that was started by hand: what to write to take it over."""
    seen: dict[str, str] = {}
    for holder in holders:
        pid = server_pid(int(holder["pid"]))
        if pid:
            unit = holder["unit"]
            loose = not unit.endswith(".service") or unit.startswith("user@")
            end = f"kill {pid}" if loose else f"systemctl disable --now {unit}"
            seen[end] = proposal(arguments(pid), name_of(unit), visible_devices(pid))
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
    found = engine_arguments(words)
    return None if found is None else [each for each in found if each]


def engine_arguments(words: t.Sequence[str]) -> list[str] | None:
    """The engine's arguments of a command line: what follows its module or ``sglang serve``; None for others."""
    for index, word in enumerate(words):
        after = list(words[index + 1 :])
        if word.endswith(_ENGINE):
            return after
        if pathlib.PurePath(word).name == "sglang" and (after[:1] == ["serve"] or words[index - 1 : index] == ["-m"]):
            return after[after[:1] == ["serve"] :]
    return None


def visible_devices(pid: int) -> str | None:
    """CUDA_VISIBLE_DEVICES of a process; None where it has none, or may not be asked."""
    try:
        words = (_procs.PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return None
    return next((word.partition("=")[2] for word in words if word.startswith("CUDA_VISIBLE_DEVICES=")), None)


def fields(words: t.Sequence[str]) -> dict[str, t.Any]:
    """The engine's arguments by their flags in snake case; a flag alone is true, several values are one text."""
    args: dict[str, t.Any] = {}
    flag = ""
    for word in words:
        if word.startswith("--"):
            flag, _rest, value = word[2:].partition("=")
            flag = flag.replace("-", "_")
            args[flag] = _value(value) if value else True
        elif flag:
            args[flag] = _value(word) if args[flag] is True else f"{args[flag]} {word}"
    return args


def gpus_of(words: t.Sequence[str], visible: str | None, cards: t.Sequence[t.Mapping[str, t.Any]]) -> list[int]:
    """Indices of the GPUs that a command line uses: the first of the visible ones, as many as it has ranks.

    Args:
        words: the engine's arguments.
        visible: CUDA_VISIBLE_DEVICES, or None where it is not set.
        cards: the host's GPUs, ``{index, uuid}`` each.

    All GPUs of the host where the text does not say.
    """
    every = [int(card["index"]) for card in cards]
    names = {str(card["index"]): int(card["index"]) for card in cards}
    seen = every
    if visible is not None:
        seen = []
        for name in filter(None, (part.strip() for part in visible.split(","))):
            hits = [int(card["index"]) for card in cards if name.startswith("GPU-") and card["uuid"].startswith(name)]
            if name == "-1":
                break  # and what follows it
            if name not in names and len(hits) != 1:
                return every
            seen.append(names.get(name, *hits))
    args = fields(words)
    first = _number(args, 0, "base_gpu_id")
    step = _number(args, 1, "gpu_id_step") or 1
    ranks = _number(args, 1, "tp_size", "tp", "tensor_parallel_size") * _number(
        args, 1, "pp_size", "pp", "pipeline_parallel_size"
    )
    if not args.get("enable_dp_attention"):
        ranks *= _number(args, 1, "dp_size", "dp", "data_parallel_size")
    return seen[first::step][:ranks]


def proposal(words: list[str] | None, name: str, visible: str | None = None) -> str:
    """An entry of ``sglang_instances`` for a command line, on one line of YAML; secrets are left out."""
    args = fields(words or [])
    entry: dict[str, t.Any] = {
        "name": name,
        "model_path": str(args.pop("model_path", args.pop("model", "/models/NAME"))),
    }
    indices = [part.strip() for part in (visible or "").split(",")]
    if all(map(str.isdigit, indices)):
        entry["gpus"] = list(map(int, indices))
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


def _number(args: t.Mapping[str, t.Any], default: int, *names: str) -> int:
    """The first of these fields that is a number."""
    return next(
        (int(args[name]) for name in names if isinstance(args.get(name), int) and args[name] is not True), default
    )

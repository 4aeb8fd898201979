"""Start, stop and misuse the lab's HTTP server (the server itself is in http.py)."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .content import Content
from .names import INDEX_PORT, Lab
from .shell import LabError, command_line, detach, having_words, kill_and_wait, say

_CLI = Path(__file__).resolve().parents[1] / "lab.py"


def start(lab: Lab, content: Content) -> None:
    """Tell the server what to serve, and start it where it does not answer."""
    _replace(lab.state / "content.json", content.as_dict())
    if processes(lab):
        if _answers(lab):
            return
        stop(lab)
    detach([sys.executable, _CLI, "--lab", lab.name, "serve"], lab.state / "http.out")
    deadline = time.monotonic() + 15
    while not _answers(lab):
        if not processes(lab) or time.monotonic() > deadline:
            raise LabError(f"the HTTP server of lab {lab.name} does not start:\n{(lab.state / 'http.out').read_text()}")
        time.sleep(0.02)
    say(f"index and git server at {lab.index_url}")


def stop(lab: Lab) -> None:
    """End the server."""
    kill_and_wait(processes(lab))


def processes(lab: Lab) -> list[int]:
    """Process ids of the lab's server."""
    found = having_words("--lab", lab.name, "serve")
    return [pid for pid in found if any(Path(word).name == "lab.py" for word in command_line(pid))]


def _answers(lab: Lab) -> bool:
    try:
        with socket.create_connection((lab.gateway, INDEX_PORT), timeout=1.0):
            return True
    except OSError:
        return False


def _replace(path: Path, value: Any) -> None:
    tmp = path.with_name(path.name + ".tmp")
    tmp.write_text(json.dumps(value, indent=2) + "\n")
    tmp.replace(path)


def set_faults(lab: Lab, faults: list[Mapping[str, Any]]) -> None:
    """Make the server misbehave from the next request on; an empty list makes it well again."""
    if not lab.state.is_dir():
        raise LabError(f"lab {lab.name} is not up")
    _replace(lab.state / "faults.json", faults)


def faults(lab: Lab) -> list[dict[str, Any]]:
    """The faults in force."""
    path = lab.state / "faults.json"
    return list(json.loads(path.read_text())) if path.exists() else []

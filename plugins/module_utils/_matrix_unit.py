# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start an instance with other arguments for a while, and put it back (private to the collection).

A drop-in under /run replaces ExecStart and nothing else: user, environment, credentials, limits and caches stay the
unit's own, nothing that serves is changed in place, and a power cut in the middle of a matrix ends with the service as
it was, for /run does not survive it.
"""

from __future__ import annotations

import pathlib
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_dropins, _service_gpus
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

HEADING = "Written by backend_matrix for a trial; removed when the service is restored."
# Seconds for GPU memory to become free after a stop: pinned memory and a dying rank take up to a minute.
FREE_WAIT_S = 90.0


def drop_in(places: Places) -> pathlib.Path:
    """Path of the drop-in."""
    return _service_dropins.trial_files(places)[0]


def quiet_verifier(places: Places) -> pathlib.Path:
    """Path of the drop-in that keeps the verifier, wanted by every start, from proving a trial."""
    return _service_dropins.trial_files(places)[1]


def left(places: Places) -> bool:
    """Whether anything of a trial is there."""
    return any(path.exists() for path in _service_dropins.trial_files(places))


def verifier(places: Places) -> str:
    """Unit that proves an instance after every start."""
    return f"sglang-verify@{places.name}.service"


def launcher(unit_text: str) -> str:
    """The words of a unit's ExecStart up to and including ``--``: what starts the engine, without its arguments.

    Raises:
        SglangError: the unit has no such line.
    """
    joined = unit_text.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.startswith("ExecStart=") and " -- " in line:
            return " ".join(line[len("ExecStart=") :].split(" -- ", 1)[0].split()) + " --"
    raise SglangError(
        "has no ExecStart that ends in -- and the engine's arguments",
        where="the unit of the instance",
        expected="a unit written by the role sglang_service",
        fix="run site.yml first",
        kind="bad_unit",
    )


def text(start: str, words: t.Sequence[str], env: t.Mapping[str, str]) -> str:
    """Content of the drop-in. ``words`` are quoted for systemd already; a crash is not started again."""
    lines = [f"# {HEADING}", "[Unit]"]
    lines += ["StartLimitIntervalSec=0", "", "[Service]", "Restart=no"]
    lines += [f'Environment="{name}={value}"' for name, value in sorted(env.items())]
    lines += ["ExecStart=", "ExecStart=" + start + "".join(f" \\\n    {word}" for word in words), ""]
    return "\n".join(lines)


def start(run: Run, places: Places, words: t.Sequence[str], env: t.Mapping[str, str]) -> str:
    """Stop what runs, start the trial, and return its InvocationID.

    Raises:
        SglangError: no unit, another drop-in would be started in the trial's stead, or systemd refused.
    """
    try:
        unit_text = places.unit_file.read_text(encoding="utf-8")
    except OSError as exc:
        raise SglangError(
            f"cannot be read: {exc.strerror}", where=str(places.unit_file), fix="run site.yml first", kind="no_unit"
        ) from exc
    begin = launcher(unit_text)
    # A later name would win over the trial's, and every combination would be the same server.
    loaded = _service.unit_states(run, [places.unit])[places.unit]["drop_ins"]
    for obstacle in _service_dropins.obstacles(places, _service_dropins.find(places, loaded)):
        raise SglangError(obstacle["what"], fix=obstacle["fix"], kind=obstacle["id"])
    trial = drop_in(places)
    # A condition that is not met is no failure: the verifier stays quiet for as long as the trial's drop-in is there.
    _service.write_text(quiet_verifier(places), f"# {HEADING}\n[Unit]\nConditionPathExists=!{trial}\n", 0o644)
    _control(run, "stop", verifier(places), strict=False)
    _control(run, "stop", places.unit)
    _service.write_text(trial, text(begin, words, env), 0o644)
    _control(run, "daemon-reload")
    _control(run, "reset-failed", places.unit, strict=False)
    _control(run, "start", "--no-block", places.unit)
    return str(_service.unit_states(run, [places.unit])[places.unit]["invocation_id"])


def stop(run: Run, places: Places, gpus: str | list[int], wait_s: float = FREE_WAIT_S) -> dict[str, t.Any]:
    """Stop the trial and wait until its GPUs are free; ``{seconds, free, held}``, ``held`` says who holds them."""
    begun = time.monotonic()
    _control(run, "stop", places.unit)
    taken: list[dict[str, t.Any]] = []
    while True:
        state = _service_gpus.read(run)
        taken = [] if state["error"] else _service_gpus.taken(state, gpus, ())
        if not taken or time.monotonic() - begun > wait_s:
            break
        time.sleep(1.0)
    held = _service_gpus.sentence(taken) if taken else ""
    return {"seconds": round(time.monotonic() - begun, 1), "free": not taken, "held": held}


def restore(run: Run, places: Places, running: bool) -> bool:
    """Take the drop-ins away and start the service as it was, if it ran; whether anything was changed."""
    state = _service.unit_states(run, [places.unit])[places.unit]
    if not left(places) and (state["active"] == "active") == running:
        return False
    _control(run, "stop", places.unit)
    _service_dropins.clear_trial(places)
    _control(run, "daemon-reload")
    _control(run, "reset-failed", places.unit, strict=False)
    if running:
        _control(run, "start", "--no-block", places.unit)
    return True


def _control(run: Run, *words: str, strict: bool = True) -> None:
    status, out, err = run(["systemctl", *words])
    if status != 0 and strict:
        what = (err or out).strip()[:300] or f"ended with {status}"
        raise SglangError(what, where=f"systemctl {' '.join(words)}", kind="systemd")

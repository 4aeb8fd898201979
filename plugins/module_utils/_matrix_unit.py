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

from ansible_collections.blackwell.sglang.plugins.module_utils import _service, _service_gpus
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

DROP_IN = "90-backend-matrix.conf"
HEADING = "Written by backend_matrix for a trial; removed when the service is restored."
RUNTIME_ROOT = "/run/systemd/system"
# Seconds for GPU memory to become free after a stop: pinned memory and a dying rank take up to a minute.
FREE_WAIT_S = 90.0


def drop_in(places: Places, runtime_root: str = RUNTIME_ROOT) -> pathlib.Path:
    """Path of the drop-in."""
    return pathlib.Path(runtime_root, f"{places.unit}.d", DROP_IN)


def quiet_verifier(places: Places, runtime_root: str = RUNTIME_ROOT) -> pathlib.Path:
    """Path of the drop-in that keeps the verifier, wanted by every start, from proving a trial."""
    return pathlib.Path(runtime_root, f"{verifier(places)}.d", DROP_IN)


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


def start(
    run: Run, places: Places, words: t.Sequence[str], env: t.Mapping[str, str], runtime_root: str = RUNTIME_ROOT
) -> str:
    """Stop what runs, start the trial, and return its InvocationID.

    Raises:
        SglangError: no unit, or systemd refused.
    """
    try:
        unit_text = places.unit_file.read_text(encoding="utf-8")
    except OSError as exc:
        raise SglangError(
            f"cannot be read: {exc.strerror}", where=str(places.unit_file), fix="run site.yml first", kind="no_unit"
        ) from exc
    begin = launcher(unit_text)
    trial = drop_in(places, runtime_root)
    # A condition that is not met is no failure: the verifier stays quiet for as long as the trial's drop-in is there.
    _service.write_text(
        quiet_verifier(places, runtime_root), f"# {HEADING}\n[Unit]\nConditionPathExists=!{trial}\n", 0o644
    )
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


def restore(run: Run, places: Places, running: bool, runtime_root: str = RUNTIME_ROOT) -> bool:
    """Take the drop-in away and start the service as it was, if it ran; whether anything was changed."""
    path = drop_in(places, runtime_root)
    state = _service.unit_states(run, [places.unit])[places.unit]
    there = path.exists()
    if not there and (state["active"] == "active") == running:
        return False
    _control(run, "stop", places.unit)
    for written in (path, quiet_verifier(places, runtime_root)):
        written.unlink(missing_ok=True)
        if written.parent.is_dir() and not any(written.parent.iterdir()):
            written.parent.rmdir()
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

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a vendor or a maintainer would ask for, without secrets (private to the collection)."""

from __future__ import annotations

import json
import pathlib
import re

from ansible_collections.blackwell.sglang.plugins.module_utils import _service
from ansible_collections.blackwell.sglang.plugins.module_utils._report_redact import Redactor, secret_name
from ansible_collections.blackwell.sglang.plugins.module_utils._service import Places, Run

# Bytes of one file; of a longer one the end is kept, where a failure lies.
LONGEST = 400_000
# Starts of an instance whose log is kept, and lines of each.
STARTS = 3
LINES = 3000
_COMMANDS: dict[str, list[str]] = {
    "host/uname.txt": ["uname", "-a"],
    "host/memory.txt": ["free", "-m"],
    "host/disks.txt": ["df", "-hT", "-x", "tmpfs"],
    "host/units.txt": ["systemctl", "list-units", "--all", "--no-pager", "--plain", "sglang-*"],
    "host/failed.txt": ["systemctl", "--failed", "--no-pager", "--plain"],
    "gpu/nvidia-smi.txt": ["nvidia-smi"],
    "gpu/query.txt": ["nvidia-smi", "-q"],
    "gpu/topology.txt": ["nvidia-smi", "topo", "-m"],
    "gpu/kernel.txt": ["journalctl", "-k", "--no-pager", "--lines=500", "--grep=NVRM|Xid|nvidia|pcieport|AER"],
    "journal/verifier.txt": ["journalctl", "--no-pager", "--lines=400", "-u", "sglang-verify@*"],
    "journal/recovery.txt": ["journalctl", "--no-pager", "--lines=100", "-u", "sglang-recover.service"],
}
_FILES = {
    "host/os-release.txt": "/etc/os-release",
    "gpu/driver.txt": "/proc/driver/nvidia/version",
}
_ENV_LINE = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.MULTILINE)


def collect(run: Run, places: list[Places], root: str, runs: str = "/var/lib/sglang/runs.jsonl") -> dict[str, str]:
    """Everything as ``{name in the archive: text}``, cleaned.

    Of environments only the names are kept. The instances' own keys, the values of their environments whose names speak
    of secrets, and what looks like a secret are replaced wherever they appear.
    """
    found: dict[str, str] = {}
    for name, words in _COMMANDS.items():
        status, out, err = run(words)
        found[name] = out if status == 0 else f"{' '.join(words)}: status {status}\n{out}{err}"
    for name, path in _FILES.items():
        found[name] = _read(pathlib.Path(path))
    found["runs.jsonl"] = "".join(_read(pathlib.Path(runs)).splitlines(keepends=True)[-20:])
    found["releases.json"] = json.dumps(_service.releases(root), indent=1)
    for each in places:
        for name, text in _of_instance(run, each).items():
            found[f"{each.name}/{name}"] = text
    used = {_service.linked_release(each) for each in places} - {""}
    for release in sorted(used):
        for name, text in _of_release(pathlib.Path(root, "releases", release)).items():
            found[f"releases/{release}/{name}"] = text
    clean = Redactor(secrets=[secret for each in places for secret in _secrets(each)])
    return {name: clean.text(end_of(text)) for name, text in sorted(found.items()) if text.strip()}


def _of_instance(run: Run, places: Places) -> dict[str, str]:
    good = [
        {key: entry.get(key) for key in ("release", "at", "invocation_id")} for entry in _service.good_entries(places)
    ]
    found = {
        "unit.txt": _read(places.unit_file),
        "environment_names.txt": _ENV_LINE.sub(r"\1=...", _read(places.env_file)),
        "show.txt": run(["systemctl", "show", places.unit])[1],
        "proof.json": _read(places.proof),
        "pending.json": _read(places.pending),
        "good.json": json.dumps(good, indent=1),
    }
    for number, invocation in enumerate(last_starts(run, places.unit)):
        words = ["journalctl", "--no-pager", "--all", f"--lines={LINES}", f"_SYSTEMD_INVOCATION_ID={invocation}"]
        found[f"start_{number}.log"] = run(words)[1]
    return found


def _of_release(folder: pathlib.Path) -> dict[str, str]:
    """What names the versions of a release, from its files alone: to import the engine would take 20 s and a GPU."""
    return {
        **{name: _read(folder / name) for name in ("release.json", "requirements.lock", "build.log", "kernel.log")},
        "pyvenv.cfg": _read(folder / "venv" / "pyvenv.cfg"),
        "packages.txt": "".join(f"{line}\n" for line in packages(folder / "venv")),
    }


def packages(venv: pathlib.Path) -> list[str]:
    """``name==version`` of each distribution that a venv holds, with where it came from if that was no index."""
    found = []
    for folder in sorted(venv.glob("lib/python*/site-packages/*.dist-info")):
        name, _dash, version = folder.name.removesuffix(".dist-info").rpartition("-")
        origin = _service.read_json(folder / "direct_url.json")
        source = f" @ {origin['url']}" if isinstance(origin, dict) and origin.get("url") else ""
        found.append(f"{name.replace('_', '-')}=={version}{source}")
    return sorted(found, key=str.lower)


def last_starts(run: Run, unit: str) -> list[str]:
    """InvocationIDs of the last starts of a unit, newest first."""
    words = ["journalctl", "--no-pager", "--quiet", "--reverse", "--lines=20000", "--output=json"]
    out = run([*words, "--output-fields=_SYSTEMD_INVOCATION_ID", f"_SYSTEMD_UNIT={unit}"])[1]
    starts: list[str] = []
    for line in out.splitlines():
        try:
            invocation = json.loads(line).get("_SYSTEMD_INVOCATION_ID")
        except ValueError:
            continue
        if invocation and invocation not in starts:
            starts.append(invocation)
            if len(starts) == STARTS:
                break
    return starts


def _secrets(places: Places) -> list[str]:
    """The instance's key, and values of its environment such as HF_TOKEN; systemd's quotes are taken off."""
    found = [_read(places.key_file).strip()]
    for name, value in _ENV_LINE.findall(_read(places.env_file)):
        if secret_name(name):
            found.append(value.strip().strip("'\"").replace("\\", ""))
    return [each for each in found if each]


def end_of(text: str) -> str:
    """The end of a long text, from a whole line on: half of a secret would not be known as one."""
    if len(text) <= LONGEST:
        return text
    kept = text[-LONGEST:]
    return kept.partition("\n")[2] or kept


def _read(path: pathlib.Path) -> str:
    """A file, or the end of a long one; empty where there is none."""
    try:
        with path.open("rb") as handle:
            # One more than is kept, so that end_of sees that something is missing. Files of /proc say that they are 0.
            handle.seek(max(0, path.stat().st_size - LONGEST - 1))
            return handle.read().decode("utf-8", errors="replace")
    except OSError:
        return ""

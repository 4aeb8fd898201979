# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host offers for building a release: interpreters, uv, CUDA toolkit, memory, disk, jobs (private)."""

from __future__ import annotations

import os
import pathlib
import re
import typing as t

Run = t.Callable[..., tuple[int, str, str]]
JOB_PREFIX = "sglang-job-"
_PYTHON = re.compile(r"^python(3\.\d+)$")
_RELEASE = re.compile(r"release (\d+\.\d+)")


def interpreters(root: str | pathlib.Path) -> list[dict[str, t.Any]]:
    """Interpreters by version: those of the host first, then those that uv manages under ``ROOT/python``.

    ``headers`` tells whether Python.h is there, which building an extension needs; ``venv`` whether ensurepip is.
    """
    found: dict[str, dict[str, t.Any]] = {}
    places = [pathlib.Path("/usr/bin"), pathlib.Path("/usr/local/bin")]
    places += sorted(pathlib.Path(root).glob("python/*/bin"))
    for place in places:
        for path in sorted(place.glob("python3.*")):
            match = _PYTHON.match(path.name)
            if not match or not os.access(path, os.X_OK) or match[1] in found:
                continue
            version, prefix = match[1], path.resolve().parent.parent
            found[version] = {
                "version": version,
                "path": str(path),
                "managed": pathlib.Path(root) in path.parents,
                "headers": (prefix / "include" / f"python{version}" / "Python.h").is_file(),
            }
    return [found[version] for version in sorted(found, key=lambda text: int(text.split(".")[1]))]


def choose_interpreter(
    wanted: t.Sequence[str], found: t.Sequence[dict[str, t.Any]], named: str = "", run: Run | None = None
) -> dict[str, t.Any] | None:
    """The interpreter of a release: the one named, else the host's newest that the wheels allow, else a managed one.

    Managed ones lie under ``ROOT/python``: uv fetched them, or they came packed in a wheelhouse.

    Args:
        wanted: versions that the stack's wheels allow.
        found: what :func:`interpreters` found.
        named: a version or a path out of the inventory; nothing else is taken then.
        run: runs a named path that is not among those found, to learn its version.
    """
    if "/" in named:
        known = next((entry for entry in found if entry["path"] == named), None)
        return known or (_named_path(named, run) if run is not None else None)
    allowed = [entry for entry in found if (entry["version"] == named if named else entry["version"] in wanted)]
    own = [entry for entry in allowed if not entry["managed"]]
    return max(own or allowed, key=lambda entry: int(entry["version"].split(".")[1]), default=None)


def _named_path(path: str, run: Run) -> dict[str, t.Any] | None:
    code = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_paths()['include'])"
    try:
        rc, out, _err = run([path, "-I", "-c", code])
    except OSError:
        return None
    if rc != 0 or len(out.split()) < 2:
        return None
    version, include = out.split(maxsplit=1)
    headers = pathlib.Path(include.strip(), "Python.h").is_file()
    return {"version": version, "path": path, "managed": False, "headers": headers}


def uv(root: str | pathlib.Path) -> dict[str, str] | None:
    """Path and version of the uv that the collection installed under its root; None if it is not there."""
    home = pathlib.Path(root, "uv")
    binary = home / "bin" / "uv"
    folders = sorted(home.glob("lib/python3*/site-packages/uv-*.dist-info"))
    if not binary.is_file() or not folders:
        return None
    return {"path": str(binary), "version": folders[-1].name[len("uv-") : -len(".dist-info")]}


def disk_free(path: str | pathlib.Path) -> int:
    """Free bytes of the file system that a path lies on, or will lie on."""
    place = pathlib.Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


def memory_limit(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> int:
    """Bytes of memory that this host or container may use: the smallest of MemTotal and every cgroup limit above us.

    A limit stands in the group of this process or in any group around it (v2 ``memory.max``, v1
    ``memory.limit_in_bytes``); inside a container the container's own group is the root of what can be seen.
    """
    limits = []
    for line in pathlib.Path(proc, "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            limits.append(int(line.split()[1]) * 1024)
    for folder, name in _memory_groups(proc, cgroups):
        try:
            text = (folder / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        # v2 says "max" where there is no limit, v1 a number that no host has.
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def _memory_groups(proc: str, cgroups: str) -> t.Iterator[tuple[pathlib.Path, str]]:
    """Folders of the memory controller from this process's group up to the root, with the name of the limit's file."""
    v1, v2 = pathlib.Path(cgroups, "memory"), pathlib.Path(cgroups)
    if (v2 / "unified").is_dir():
        v2 = v2 / "unified"
    try:
        lines = pathlib.Path(proc, "self", "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in [*lines, "0::/", "0:memory:/"]:
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = v2, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = v1, "memory.limit_in_bytes"
        else:
            continue
        # A group outside of what the container sees is written with "..".
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield root.joinpath(*parts[:depth]), name


def cores() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def build_jobs(processors: int, memory: int, per_job: int = 5 * 2**30) -> int:
    """Compiler processes that run at once: one per processor, and at most one per ``per_job`` bytes of memory."""
    return max(1, min(processors, memory // per_job))


def toolkit(run: Run, homes: t.Sequence[str] = ()) -> dict[str, str] | None:
    """The CUDA toolkit: its home, nvcc and version; None without nvcc."""
    places = [*homes, os.environ.get("CUDA_HOME") or "", "/usr/local/cuda"]
    places += [str(path) for path in sorted(pathlib.Path("/usr/local").glob("cuda-*"), reverse=True)]
    for home in filter(None, places):
        nvcc = pathlib.Path(home, "bin", "nvcc")
        if not nvcc.is_file():
            continue
        rc, out, _err = run([str(nvcc), "--version"])
        match = _RELEASE.search(out)
        if rc == 0 and match:
            return {"home": home, "nvcc": str(nvcc), "version": match[1]}
    return None


def jobs(run: Run) -> list[str]:
    """Names of the collection's jobs that run now; empty where systemd does not answer."""
    try:
        rc, out, _err = run(
            ["systemctl", "list-units", "--no-legend", "--plain", "--state=active,activating", f"{JOB_PREFIX}*.service"]
        )
    except OSError:
        return []
    names = [line.split()[0] for line in out.splitlines() if line.strip()] if rc == 0 else []
    return [name[len(JOB_PREFIX) : -len(".service")] for name in names if name.startswith(JOB_PREFIX)]

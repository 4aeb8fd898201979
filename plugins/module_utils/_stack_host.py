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


def choose_interpreter(wanted: t.Sequence[str], found: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any] | None:
    """The first wanted version that the host has; the host's own are preferred by the order of the stack alone."""
    by_version = {entry["version"]: entry for entry in found}
    for version in wanted:
        if version in by_version:
            return by_version[version]
    return None


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


def memory_limit() -> int:
    """Bytes of memory that this host or container may use: the smallest of MemTotal and the cgroup limits (v1, v2)."""
    limits = []
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            limits.append(int(line.split()[1]) * 1024)
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = pathlib.Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


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

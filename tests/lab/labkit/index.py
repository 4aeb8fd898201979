"""The wheel index: stand-ins built by tests/lab/wheels, real build tools from PyPI, and PEP 503 pages over both."""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

from . import digest
from .names import cache_root, repository
from .pypi import pip
from .shell import locked, run, say

# Real tools that a release and a kernel build need; the guests install them from the lab's index.
TOOLS = (
    "uv>=0.9",
    "pip",
    "setuptools>=77",
    "wheel",
    "cmake>=3.31,<5",
    "ninja",
    "scikit-build-core>=0.11",
    "packaging",
    "pathspec",
    "build",
    "pyproject-hooks",
    "typing-extensions",
)
PYTHONS = ("3.11", "3.12", "3.13")
# Path of each index below the server's root, and the folder that the wheel builder fills for it.
INDEXES = {"simple": "default", "pytorch/nightly/cu130": "pytorch", "flashinfer/cu130": "flashinfer"}


def build(nvcc: Path) -> Path:
    """Return the folder that the server serves, building wheels and pages when their sources changed."""
    tools = _tools()
    standins = _standins(nvcc)
    target = cache_root() / "index" / digest.of_trees([], tools.name, standins.name if standins else "", "3")
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/index"):
        if not target.is_dir():
            tmp = target.with_name(target.name + ".tmp")
            shutil.rmtree(tmp, ignore_errors=True)
            for path, folder in INDEXES.items():
                wheels = sorted((standins / folder).glob("*.whl")) if standins else []
                if folder == "default":
                    wheels += sorted(tools.glob("*.whl"))
                write_pages(tmp / path, wheels)
            tmp.rename(target)
    return target


def _tools() -> Path:
    target = (
        cache_root() / "wheels" / ("tools-" + hashlib.sha256("\0".join((*TOOLS, *PYTHONS)).encode()).hexdigest()[:12])
    )
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/tools"):
        if target.is_dir():
            return target
        say("downloading build tools from PyPI (once)")
        tmp = target.with_name(target.name + ".tmp")
        shutil.rmtree(tmp, ignore_errors=True)
        for python in PYTHONS:
            platforms = [
                f"--platform=manylinux{name}_x86_64" for name in ("2014", "_2_17", "_2_28", "_2_31", "_2_34", "_2_35")
            ]
            run(
                [
                    *pip(),
                    "download",
                    "--quiet",
                    "--dest",
                    tmp,
                    "--only-binary=:all:",
                    "--python-version",
                    python,
                    *platforms,
                    *TOOLS,
                ],
                tied=True,
            )
        tmp.rename(target)
    return target


def _standins(nvcc: Path) -> Path | None:
    lab_tests = repository() / "tests/lab"
    builder = lab_tests / "wheels/build.py"
    if not builder.exists():
        return None
    target = cache_root() / "wheels" / ("standins-" + digest.of_trees([lab_tests / "wheels", lab_tests / "engine"]))
    if target.is_dir():
        return target
    with locked(cache_root() / "locks/standins"):
        if not target.is_dir():
            say("building the stand-in wheels")
            tmp = target.with_name(target.name + ".tmp")
            shutil.rmtree(tmp, ignore_errors=True)
            tmp.mkdir(parents=True)
            env = {**os.environ, "PATH": f"{nvcc.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"}
            run([sys.executable, builder, tmp], tied=True, env=env)
            tmp.rename(target)
    return target


def normalized(name: str) -> str:
    """A distribution's name as PEP 503 writes it in paths."""
    return re.sub(r"[-_.]+", "-", name).lower()


def write_pages(folder: Path, wheels: list[Path]) -> None:
    """Write an index: a page per project with hashes, the wheels beside it, and their metadata (PEP 658)."""
    projects: dict[str, list[Path]] = defaultdict(list)
    for wheel in wheels:
        projects[normalized(wheel.name.split("-")[0])].append(wheel)
    folder.mkdir(parents=True)
    for project, files in sorted(projects.items()):
        place = folder / project
        place.mkdir()
        lines = [_entry(place, wheel) for wheel in sorted(set(files))]
        (place / "index.html").write_text(_page(f"Links for {project}", lines))
    (folder / "index.html").write_text(
        _page("Simple index", [f'<a href="{name}/">{name}</a>' for name in sorted(projects)])
    )


def _entry(place: Path, wheel: Path) -> str:
    try:
        os.link(wheel, place / wheel.name)
    except OSError:  # another filesystem
        shutil.copyfile(wheel, place / wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        metadata = archive.read(name)
    (place / (wheel.name + ".metadata")).write_bytes(metadata)
    digest_of_metadata = hashlib.sha256(metadata).hexdigest()
    with wheel.open("rb") as handle:
        digest_of_wheel = hashlib.file_digest(handle, "sha256").hexdigest()
    requires = re.search(r"^Requires-Python: *(.+)$", metadata.decode("utf-8", "replace"), re.MULTILINE)
    python = f' data-requires-python="{html.escape(requires.group(1).strip())}"' if requires else ""
    href = html.escape(wheel.name.replace("+", "%2B"))
    return (
        f'<a href="{href}#sha256={digest_of_wheel}" data-dist-info-metadata="sha256={digest_of_metadata}" '
        f'data-core-metadata="sha256={digest_of_metadata}"{python}>{html.escape(wheel.name)}</a>'
    )


def _page(title: str, lines: list[str]) -> str:
    body = "".join(f"    {line}<br>\n" for line in lines)
    return (
        '<!DOCTYPE html>\n<html>\n  <head>\n    <meta name="pypi:repository-version" content="1.0">\n'
        f"    <title>{title}</title>\n  </head>\n  <body>\n{body}  </body>\n</html>\n"
    )

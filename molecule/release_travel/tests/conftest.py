"""What the tests share: both hosts, and an interpreter for uv to fetch."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import typing as t

import pytest
import yaml

SCENARIO = pathlib.Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
sys.path.insert(0, str(SCENARIO.parent / "shared"))

from hosts import connect

NET = yaml.safe_load((SCENARIO / "inventory/group_vars/all/scenario.yml").read_text())["lab_net"]
# The newest that the wheels of the lab's engine are for; the hosts have an older one.
VERSION = "3.12"


@pytest.fixture(scope="module")
def other() -> t.Any:
    """The second guest, by plain ssh."""
    return connect(SCENARIO, "sglang2")


@pytest.fixture(scope="module")
def interpreters(host: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[str]:
    """URL of a list of one interpreter, in uv's own form: one of this machine, packed as uv's are."""
    glibc = re.search(r"([\d.]+)$", host.check_output("ldd --version | head -n 1"))
    assert glibc
    if host.run(f"ls /usr/bin/python{VERSION} /usr/local/bin/python{VERSION}").stdout:
        pytest.skip(f"the hosts have a Python {VERSION} themselves")
    home, release = _interpreter(built_here=_numbers(platform.libc_ver()[1]) <= _numbers(glibc[1]))
    folder = tmp_path_factory.mktemp("interpreters")
    archive = folder / "cpython.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for part in (f"include/python{VERSION}", f"lib/python{VERSION}"):
            packed.add(home / part, f"python/{part}", filter=_wanted)
        for part in (
            f"bin/python{VERSION}",
            *(f"lib/{path.name}" for path in home.glob(f"lib/libpython{VERSION}.so*")),
        ):
            member = packed.gettarinfo(home / part, f"python/{part}")
            data = b"" if member.issym() else _movable((home / part).read_bytes(), home)
            packed.addfile(member, io.BytesIO(data))
    entry = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        **dict(zip(("major", "minor", "patch"), _numbers(release), strict=True)),
        "prerelease": "",
        "variant": None,
        "build": None,
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer((f"{NET}.1", 0), handler) as server:
        url = f"http://{NET}.1:{server.server_address[1]}"
        name = f"cpython-{release}-linux-{platform.machine()}-gnu"
        (folder / "downloads.json").write_text(json.dumps({name: {**entry, "url": f"{url}/{archive.name}"}}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{url}/downloads.json"
        server.shutdown()


def _interpreter(*, built_here: bool) -> tuple[pathlib.Path, str]:
    """Folder and release of an interpreter that is no part of the system, so that it can be moved.

    One that is here already serves where the hosts' glibc is not older (``built_here``); else uv fetches one,
    which runs on any host.
    """
    uv = ROOT / ".tools/uv/bin/uv"
    places: list[t.Any] = []
    if built_here:
        versions = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
        places = [sys.executable, shutil.which(f"python{VERSION}"), *versions.glob(f"{VERSION}.*/bin/python{VERSION}")]
    found = _apart(places)
    if found is None:
        subprocess.run([uv, "python", "install", "-q", VERSION], capture_output=True, check=False)
        managed = [uv, "python", "find", "--managed-python", VERSION]
        told = subprocess.run(managed, capture_output=True, text=True, check=False).stdout
        found = _apart([told.strip()])
    if found is None:
        pytest.skip(f"no Python {VERSION} beside the system's runs on the hosts, and uv could not fetch one")
    return found


def _apart(places: t.Iterable[t.Any]) -> tuple[pathlib.Path, str] | None:
    """The first of these interpreters that is of the version and no part of the system."""
    code = "import platform, sys; print(sys.base_prefix, platform.python_version())"
    for place in filter(None, places):
        told = subprocess.run([place, "-I", "-c", code], capture_output=True, text=True, check=False).stdout.split()
        if len(told) == 2 and told[0] != "/usr" and re.fullmatch(rf"{re.escape(VERSION)}[.]\d+", told[1]):
            return pathlib.Path(told[0]), told[1]
    return None


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = {"__pycache__", "site-packages", "test", "idlelib", "tkinter"}
    return None if left_out & set(member.name.split("/")) or member.name.endswith(".a") else member


def _movable(data: bytes, home: pathlib.Path) -> bytes:
    """A program that looks for its library beside itself instead of where it was installed; the length stays."""
    fixed = f"{home}/lib".encode() + b"\0"
    return data.replace(b"\0" + fixed, b"\0" + b"$ORIGIN/../lib\0".ljust(len(fixed), b"\0"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def lab(*words: str) -> None:
    """The lab's own command line."""
    command = [sys.executable, str(ROOT / "tests/lab/lab.py"), "--lab", SCENARIO.name, *words]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def requests_of(address: str) -> list[dict[str, t.Any]]:
    """What a host has asked the lab's server so far."""
    log = pathlib.Path("/run/blackwell-sglang-lab") / SCENARIO.name / "http.log"
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["client"] == address]

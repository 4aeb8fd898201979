"""The launcher as a real process: where the key goes and where it does not, signals, status."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = ROOT / "roles" / "sglang_service" / "files" / "sglang_launch.py"
KEY = "sk-\"quo'ted\\ key"

ENGINE = """
import os, signal, subprocess, sys, time
key = sys.argv[sys.argv.index("--api-key") + 1] if "--api-key" in sys.argv else None
print(f"server_args=ServerArgs(api_key={key!r}, port=1)", flush=True)
print("plain " + str(key), flush=True)
sys.stdout.write("Capturing 1/2\\rCapturing 2/2\\n"); sys.stdout.flush()
print("argv0 name", __name__, "key given", key is not None, flush=True)
print("in cmdline", b"sk-" in open("/proc/self/cmdline", "rb").read(), flush=True)
print("in environ", any("sk-" in value for value in os.environ.values()), flush=True)
print("cache", os.environ["TRITON_CACHE_DIR"], "path", os.environ["PATH"].split(":")[0], flush=True)
if "--die" in sys.argv:
    sys.exit(int(sys.argv[sys.argv.index("--die") + 1]))
if "--kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
def stop(*_):
    print("SIGTERM received.", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)   # as the versions that end with 137 do
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def host(tmp_path: pathlib.Path) -> pathlib.Path:
    """A release with an interpreter and an engine, and a link to it."""
    release = tmp_path / "releases" / "20261129T190000Z-aaaa"
    package = release / "site" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text(ENGINE, encoding="utf-8")
    python = release / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={release}/site exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "release").symlink_to(release)
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "api_key").write_text(KEY + "\n", encoding="utf-8")
    return tmp_path


def start(host: pathlib.Path, *words: str, key: bool = True) -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"]}
    if key:
        env["CREDENTIALS_DIRECTORY"] = str(host / "credentials")
    command = [sys.executable, str(LAUNCHER), "--release", str(host / "release"), "--cache", str(host / "cache"), "--"]
    return subprocess.Popen([*command, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_key_reaches_the_engine_and_nothing_else(host: pathlib.Path) -> None:
    process = start(host, "--die", "3")
    out, _rest = process.communicate(timeout=30)
    assert "key given True" in out
    assert "in cmdline False" in out
    assert "in environ False" in out
    assert "quo" not in out, "no form of the key is in the log"
    assert "plain ***" in out
    assert "argv0 name __main__" in out, "the engine runs as python -m would run it"
    assert process.returncode == 3


def test_caches_and_programs_are_those_of_the_release(host: pathlib.Path) -> None:
    out, _rest = start(host, "--die", "0", key=False).communicate(timeout=30)
    assert f"cache {host}/cache/20261129T190000Z-aaaa/triton" in out
    assert f"path {host}/releases/20261129T190000Z-aaaa/venv/bin" in out
    assert "key given False" in out


def test_progress_bars_become_lines(host: pathlib.Path) -> None:
    out, _rest = start(host, "--die", "0").communicate(timeout=30)
    assert "Capturing 1/2\nCapturing 2/2\n" in out


def test_a_stop_is_no_failure_even_if_the_engine_kills_itself(host: pathlib.Path) -> None:
    process = start(host)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            break
    process.send_signal(signal.SIGTERM)
    out, _rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "SIGTERM received." in out, "the last lines are not lost"


def test_an_engine_that_is_killed_is_a_failure(host: pathlib.Path) -> None:
    process = start(host, "--kill")
    out, _rest = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGKILL
    assert "ended by itself with -9" in out


def test_the_link_is_resolved_once(host: pathlib.Path) -> None:
    process = start(host)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("ready"):
            break
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    command = pathlib.Path(f"/proc/{children[0]}/cmdline").read_bytes()
    process.terminate()
    process.communicate(timeout=30)
    assert str(LAUNCHER).encode() in command
    assert b"sk-" not in command


def test_a_release_without_an_interpreter_says_so(host: pathlib.Path) -> None:
    (host / "releases" / "20261129T190000Z-aaaa" / "venv" / "bin" / "python").unlink()
    begun = time.monotonic()
    process = start(host)
    out, _rest = process.communicate(timeout=30)
    assert process.returncode == 78
    assert "the release is not complete" in out
    assert time.monotonic() - begun < 10

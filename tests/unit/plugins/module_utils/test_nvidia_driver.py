"""Which driver packages a host needs, and what forbids them; dpkg and apt print lists of our own here."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _nvidia_driver
from ansible_collections.blackwell.sglang.plugins.module_utils._gpu_host import Host
from gpu_tree import run_command

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (x)\n"
DPKG = """#!/bin/sh
cat "$(dirname "$0")/../share/dpkg"
"""
APT = """#!/bin/sh
grep "^ *$2 |" "$(dirname "$0")/../share/madison"
"""
MADISON = (
    " libcuda1 | 580.126.09-2 | http://r ./ Packages\n libcuda1 | 580.126.09-1 | http://r ./ Packages\n"
    " libcuda1 | 595.58.03-1 | http://r ./ Packages\n libcuda1 | 595.58.03-1 | http://r ./ Sources\n"
)


def tree(root: pathlib.Path, *, loaded: str = "580.126.09", container: bool = True, dpkg: str = "") -> Host:
    """A host with these packages."""
    files = {
        "proc/driver/nvidia/version": OPEN.format(loaded) if loaded else "",
        "proc/sys/kernel/osrelease": "6.8.12-9-pve\n",
        "proc/modules": "kvm 1 0 - Live 0x0\n",
        "run/systemd/container": "lxc\n" if container else "",
        "usr/share/dpkg": dpkg,
        "usr/share/madison": MADISON,
        "usr/bin/dpkg-query": DPKG,
        "usr/bin/apt-cache": APT,
        "lib/modules/6.8.12-9-pve/build/Makefile": "",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return Host(run_command, str(root))


def ask(host: Host, version: str = "") -> dict[str, t.Any]:
    """Facts about two packages."""
    return _nvidia_driver.read(host, version, ["libcuda1", "libnvidia-ml1"])


def test_a_container_follows_the_hypervisor_to_the_last_digit(tmp_path: pathlib.Path) -> None:
    facts = ask(tree(tmp_path, dpkg="libcuda1:amd64 580.126.08-1 install installed\n"))
    assert facts["version"] == "580.126.09"
    assert facts["install"] == ["libcuda1=580.126.09-2"]
    assert facts["unavailable"] == ["libnvidia-ml1"]
    assert _nvidia_driver.problems(facts) == []
    (said,) = _nvidia_driver.problems(ask(tree(tmp_path), "580.126.08"))
    assert "Driver/library version mismatch" in said and "take 580.126.09 here" in said


def test_what_is_installed_and_held_needs_nothing(tmp_path: pathlib.Path) -> None:
    dpkg = "libcuda1:amd64 580.126.09-1 hold installed\nlibnvidia-ml1:amd64 580.126.09-1 install installed\n"
    facts = ask(tree(tmp_path, dpkg=dpkg))
    assert (facts["install"], facts["unavailable"]) == ([], [])
    assert (facts["held"], facts["hold"]) == (["libcuda1"], ["libnvidia-ml1"])


def test_a_removed_package_with_its_configuration_left_is_not_installed(tmp_path: pathlib.Path) -> None:
    facts = ask(tree(tmp_path, dpkg="libcuda1:amd64 580.126.09-1 deinstall config-files\n"))
    assert facts["installed"] == {}


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("proc/modules", b"nouveau 1 0 - Live 0x0\n", "nouveau is loaded"),
        (_nvidia_driver._SECURE_BOOT.lstrip("/"), b"\x06\0\0\0\x01", "Secure Boot is on"),
        ("lib/modules/6.8.12-9-pve/build/Makefile", None, "headers of the running kernel 6.8.12-9-pve are missing"),
    ],
)
def test_what_dkms_would_fail_on_is_named_before(
    tmp_path: pathlib.Path, path: str, data: bytes | None, said: str
) -> None:
    host = tree(tmp_path, container=False, loaded="")
    assert _nvidia_driver.problems(ask(host, "580.126.09")) == []
    target = tmp_path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        target.unlink()
    else:
        target.write_bytes(data)
    (problem,) = _nvidia_driver.problems(ask(host, "580.126.09"))
    assert said in problem and "Fix: " in problem


def test_no_version_at_all_is_named(tmp_path: pathlib.Path) -> None:
    (said,) = _nvidia_driver.problems(ask(tree(tmp_path, loaded="", container=False)))
    assert "no version is no driver version" in said

"""A scenario's hosts for testinfra, by names of the lab: testinfra does not render the templates of an inventory."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import testinfra
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lab"))

from labkit import names


def connect(scenario: pathlib.Path, host: str = "sglang1") -> t.Any:
    """A testinfra host over plain ssh; the connection is kept and shared with ansible's."""
    settings = yaml.safe_load((scenario / "inventory/group_vars/all/scenario.yml").read_text(encoding="utf-8"))
    number = 2 if host == names.HYPERVISOR else names.GUESTS[host][1]
    options = {
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
        "ControlMaster": "auto",
        "ControlPersist": "60s",
        "ControlPath": f"/run/blackwell-sglang-lab/{settings['lab_name']}/%h",
    }
    return testinfra.get_host(
        f"ssh://root@{settings['lab_net']}.{number}",
        ssh_identity_file=str(names.cache_root() / "id_ed25519"),
        ssh_extra_args=" ".join(f"-o {key}={value}" for key, value in options.items()),
    )

"""Uninstalled, the host has the files that it had before the first run; last, since nothing serves after it."""

from __future__ import annotations

import typing as t

from playbooks import Playbooks

# What stays, as the playbook says: the service user (and the copies that useradd makes of its files).
STAYS = {f"/etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")}
TRIAL = "/run/systemd/system/sglang-qwen.service.d/90-backend-matrix.conf"
# The second one was installed by test_3_switch.py.
INSTANCES = [
    {"name": name, "state": state, "profile": "qwen3_5_397b_nvfp4", "stack": "lab", "model_path": "/models/any"}
    for name, state in (("qwen", "started"), ("other", "stopped"))
]
WANTED = {
    "sglang_uninstall_confirm": True,
    "sglang_service_remove_releases": True,
    "sglang_instances": INSTANCES,
}


def test_no_file_of_the_roles_is_left(host: t.Any, playbooks: Playbooks) -> None:
    host.check_output(f"mkdir -p $(dirname {TRIAL}) && printf '[Service]\\n' > {TRIAL} && systemctl daemon-reload")
    host.check_output("touch /etc/sglang/of-the-operator")
    before = set(host.file("/var/tmp/files-before").content_string.splitlines())
    run = playbooks.run("playbooks/uninstall.yml", variables=WANTED)
    assert run.rc == 0, run.output
    after = set(host.check_output("every-file").splitlines())
    assert after - before - STAYS == {"/etc/sglang", "/etc/sglang/of-the-operator"}
    assert before - after == set()
    assert host.check_output("systemctl list-units --all --no-legend 'sglang*'") == ""
    assert "keeps the checkpoints" in run.output
    host.check_output("rm /etc/sglang/of-the-operator")
    assert playbooks.run("playbooks/uninstall.yml", variables=WANTED).rc == 0
    assert not host.file("/etc/sglang").exists
    again = playbooks.run("playbooks/uninstall.yml", variables=WANTED)
    assert (again.rc, again.changed) == (0, {}), again.output

"""What gpu_host does around an instance: the preflight, the environment for NCCL, the check of the fabric."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import pytest

from playbooks import ROOT, Playbooks

CONVERGE = "molecule/sglang_service/converge.yml"
NCCL = "/etc/systemd/system/sglang-.service.d/10-nccl.conf"
ON = {"gpu_host_nccl_env": True}
TIMED = """
import subprocess, sys, time
for _turn in range(3):
    begun = time.monotonic()
    subprocess.run([sys.executable, sys.argv[1]], stdout=subprocess.DEVNULL, check=True)
    print(time.monotonic() - begun)
"""
# A torch whose ranks never meet, as NCCL hangs: beside the script, so that its interpreter finds it first.
HANGS = """
import time
class cuda:
    @staticmethod
    def device_count(): return 8
    @staticmethod
    def set_device(device): pass
def device(*words): return words
"""
HANGS_TOGETHER = """
import time
def is_available(): return True
def is_nccl_available(): return True
def init_process_group(*words, **options): time.sleep(600)
"""


def own_seconds(host: t.Any, scenario: pathlib.Path, module: str) -> float:
    """The best of three runs of a module on the host, without the connection and what Ansible does around it."""
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_KEEP_REMOTE_FILES": "1",
    }
    words = [str(ROOT / ".venv/bin/ansible"), "sglang1", "-i", str(scenario / "inventory"), "-m", module]
    subprocess.run(words, env=env, check=True, capture_output=True, timeout=300)
    program = host.check_output(
        f"ls -t /root/.ansible/tmp/*/AnsiballZ_{module.rsplit('.', maxsplit=1)[-1]}.py | head -1"
    )
    return min(float(line) for line in host.check_output("python3 -c %s %s", TIMED, program).split())


def test_the_preflight_is_one_module_of_under_two_seconds(host: t.Any, scenario: pathlib.Path) -> None:
    preflight = own_seconds(host, scenario, "blackwell.sglang.gpu_host_info")
    facts = own_seconds(host, scenario, "ansible.builtin.setup")
    print(f"gpu_host_info {preflight:.2f} s, setup {facts:.2f} s on the same host")
    # Where the machine is busy with something else, what Ansible's own fact gathering takes is the measure.
    assert preflight < max(2.0, 2 * facts)


def test_instances_get_the_environment_for_nccl_with_their_next_start(
    host: t.Any, playbooks: Playbooks, service: t.Any
) -> None:
    serving = service.show("InvocationID")
    planned = playbooks.run("site.yml", "--limit", "sglang1", "--tags", "gpu_host", "--check", variables=ON)
    assert planned.rc == 0, planned.output
    assert f"to {NCCL}" in " ".join(planned.output.split())
    assert not host.file(NCCL).exists
    run = playbooks.run("site.yml", "--limit", "sglang1", "--tags", "gpu_host", variables=ON)
    assert run.rc == 0, run.output
    assert NCCL in service.show("DropInPaths").split()
    assert playbooks.run("site.yml", "--limit", "sglang1", "--tags", "gpu_host", variables=ON).changed == {}
    again = playbooks.run(CONVERGE, "--limit", "sglang1")
    assert again.changed == {}, "a drop-in of a role is no reason to deploy anew: " + again.output
    assert service.show("InvocationID") == serving


def environment(host: t.Any, service: t.Any) -> list[str]:
    """Variables of the running engine's launcher."""
    return str(host.check_output(f"tr '\\0' '\\n' < /proc/{service.show('MainPID')}/environ")).splitlines()


def test_the_fabric_check_skips_without_torch_distributed_and_the_instance_serves_again(
    host: t.Any, playbooks: Playbooks, service: t.Any
) -> None:
    serving = service.show("InvocationID")
    # What the instance sets itself wins over the drop-in.
    own = {line.split("=")[0] for line in host.file("/etc/sglang/qwen.env").content_string.splitlines()}
    given = {
        line.split('"')[1] for line in host.file(NCCL).content_string.splitlines() if line.startswith("Environment")
    }
    wanted = {word for word in given if word.split("=")[0] not in own}
    assert wanted
    assert not wanted & set(environment(host, service))
    run = playbooks.run("playbooks/fabric_check.yml", "--limit", "sglang1")
    assert run.rc == 0, run.output
    assert "torch.distributed is not there" in run.output
    assert service.show("ActiveState") == "active"
    assert service.show("InvocationID") != serving
    assert wanted <= set(environment(host, service)), "the start after the check is the next one"


@pytest.fixture
def hanging_torch(host: t.Any) -> t.Iterator[None]:
    """A torch whose ranks never meet."""
    folder = "/opt/sglang/lib/torch"
    host.check_output("mkdir %s", folder)
    host.check_output("printf %%s %s > %s", HANGS, f"{folder}/__init__.py")
    host.check_output("printf %%s %s > %s", HANGS_TOGETHER, f"{folder}/distributed.py")
    yield
    host.check_output("rm -r %s", folder)


@pytest.mark.usefixtures("hanging_torch")
def test_ranks_that_never_meet_fail_the_check_and_the_instance_serves_again(
    playbooks: Playbooks, service: t.Any
) -> None:
    run = playbooks.run("playbooks/fabric_check.yml", "--limit", "sglang1", variables={"gpu_host_fabric_seconds": 5})
    assert run.rc != 0
    said = " ".join(run.output.split())
    assert "The GPUs of qwen do not reduce together" in said, run.output
    assert "did not end within 5 s" in said
    assert "NCCL_P2P_DISABLE=1" in said
    assert service.show("ActiveState") == "active"

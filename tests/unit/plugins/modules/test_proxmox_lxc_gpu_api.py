"""`proxmox_lxc_gpu` through the API: the module as a program, with the real proxmoxer, against an API of Proxmox VE."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _lxc_gpu
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._lxc_gpu_via import Api as Via
from proxmoxer import ProxmoxAPI

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

from pve_api import ROOT_ONLY, TOKENS, Api, Container

ROOT = pathlib.Path(__file__).resolve().parents[4]
BARE = {
    "arch": "amd64",
    "hostname": "sglang1",
    "memory": 524288,
    "description": "dev9: /dev/nvidia3\nnotes",
    "dev0": "/dev/dri/renderD128,gid=104",
}
TWO = {
    "dev1": "/dev/nvidia0,mode=0666",
    "dev2": "/dev/nvidia1,mode=0666",
    "dev3": "/dev/nvidiactl,mode=0666",
    "dev4": "/dev/nvidia-uvm,mode=0666",
}
OLD = [
    ["lxc.cgroup2.devices.allow", "c 195:* rwm"],
    ["lxc.mount.entry", "/dev/nvidia0 dev/nvidia0 none bind,optional,create=file"],
]


@pytest.fixture
def api(tmp_path: pathlib.Path) -> Iterator[Api]:
    """A node with one container that runs, one that does not, and one of the old style."""
    found = Api(
        tmp_path,
        {129: Container(BARE, True), 130: Container(BARE, False), 131: Container({**BARE, "lxc": OLD}, True)},
    )
    yield found
    found.shutdown()
    found.server_close()


def run(api: Api, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Result of the module."""
    words = {"vmid": 129, "gpus": ["0", "1"], "api_host": api.place, "api_node": "pve1", "validate_certs": False}
    if "api_token_id" not in options:
        words["api_password"] = "secret"
    args = {"ANSIBLE_MODULE_ARGS": {**words, **options, "_ansible_check_mode": check}}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "plugins/modules/proxmox_lxc_gpu.py")],
        input=json.dumps(args),
        env={"PYTHONPATH": str(ROOT / ".collections"), "PATH": "/usr/bin:/bin", "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, t.Any] = json.loads(done.stdout)
    return result


def test_a_running_container_gets_cards_at_once_and_a_second_run_finds_them(api: Api) -> None:
    planned = run(api, check=True)
    assert (planned["changed"], planned["entries"]) == (True, TWO)
    assert not [line for line in api.asked if line.startswith(("PUT", "POST /nodes"))]
    done = run(api)
    assert (done["changed"], done["hot"], done["restart_needed"]) == (True, list(TWO), [])
    assert {key: api.containers[129].config[key] for key in TWO} == TWO
    assert api.containers[129].config["dev0"] == BARE["dev0"]
    assert run(api)["changed"] is False


def test_what_goes_waits_for_the_start_that_is_made_when_asked(api: Api) -> None:
    run(api)
    less = run(api, gpus=["0"])
    assert less["restart_needed"] == ["dev2 change or go with the next start"]
    assert api.containers[129].config["dev2"] == TWO["dev2"], "it runs with the card until then"
    again = run(api, gpus=["0"])
    assert again["changed"] is False
    assert again["restart_needed"] == ["dev2 of an earlier change still wait for a start"]
    # The key of the card that goes is not free before it has gone.
    more = run(api, gpus=["0", "2"])
    assert more["hot"] == ["dev5"]
    done = run(api, gpus=["0", "2"], restart=True)
    assert (done["restarted"], done["restart_needed"]) == (True, [])
    assert (api.containers[129].starts, "dev2" in api.containers[129].config) == (1, False)
    assert run(api, gpus=["0", "2"], restart=True)["restarted"] is False


def test_a_stopped_container_changes_at_once_and_loses_all(api: Api) -> None:
    assert run(api, vmid=130)["restart_needed"] == []
    gone = run(api, vmid=130, gpus=[])
    assert (gone["changed"], gone["entries"], gone["restart_needed"]) == (True, {}, [])
    assert api.containers[130].config == BARE


def test_an_optional_node_that_pct_gave_stays(api: Api) -> None:
    run(api)
    api.containers[129].config["dev5"] = "/dev/nvidia-uvm-tools,mode=0666"
    assert run(api)["changed"] is False


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "session",
    [
        {"api_token_id": "ansible", "api_token_secret": TOKENS["root@pam!ansible"]},
        {"api_user": "ops@pve"},
    ],
    ids=["a token of root", "another user"],
)
def test_who_may_not_set_devices_is_told_the_way_out(api: Api, session: dict[str, str], check: bool) -> None:
    result = run(api, check=check, **session)
    assert (result["failed"], result["kind"]) == (True, "root_only")
    assert "only allowed for root@pam" in result["msg"]
    assert "leave api_host out, so that pct over ssh is used" in result["msg"]
    assert api.containers[129].config == BARE
    # Looking is allowed: with nothing to change nothing is refused.
    assert run(api, gpus=[], **session)["changed"] is False


def test_the_refusal_of_the_server_itself_is_explained_too(api: Api) -> None:
    """What a reverse proxy or a later version may refuse although the session looked right."""
    session = ProxmoxAPI(api.place, user="ops@pve", password="secret", verify_ssl=False)
    via = Via(session, "pve1", 129, root=True)
    via.text()
    with pytest.raises(SglangError) as seen:
        via.apply(_lxc_gpu.Plan(dict(TWO), (), (), (), (), ()))
    assert ROOT_ONLY in str(seen.value)
    assert "pct over ssh as root" in seen.value.fix


@pytest.mark.parametrize(
    ("options", "words", "fix"),
    [
        ({"vmid": 999}, "lxc/999.conf' does not exist", "correct the number of the container"),
        ({"api_node": "nope"}, "hostname lookup 'nope' failed", "correct api_node"),
        (
            {"api_password": "wrong"},
            "Couldn't authenticate user: root@pam",
            "correct api_user (root@pam) and api_password",
        ),
        ({"validate_certs": True}, "CERTIFICATE_VERIFY_FAILED", "validate_certs: false"),
        ({"api_host": "127.0.0.1:1"}, "refused the session", "see whether api_host answers"),
        ({"gpus": ["3", "7"]}, "unable to hotplug dev2: Device /dev/nvidia7 does not exist", "make the node first"),
        ({"gpus": ["GPU-1"]}, "cannot be looked up through the API", "name it by its number"),
        ({"vmid": 131}, "lines of the old style, which the API cannot change", "made on the hypervisor by pct"),
    ],
)
def test_what_the_server_refuses_is_named_with_its_fix(
    api: Api, options: dict[str, t.Any], words: str, fix: str
) -> None:
    result = run(api, **options)
    assert result["failed"] is True
    assert words in result["msg"]
    assert fix in result["msg"]
    assert "secret" not in json.dumps(result)


def test_a_restart_that_fails_says_so(api: Api) -> None:
    run(api)
    api.exitstatus = "container is locked (backup)"
    result = run(api, gpus=["0"], restart=True)
    assert "the restart failed: container is locked (backup)" in result["msg"]


def test_a_change_by_another_meanwhile_is_not_overwritten(api: Api) -> None:
    container = api.containers[129]
    shown = container.shown
    container.shown = lambda current: {**shown(current), "digest": "0" * 40}  # type: ignore[method-assign]
    result = run(api)
    assert "detected modified configuration" in result["msg"]
    assert "run it again" in result["msg"]
    assert container.config == BARE

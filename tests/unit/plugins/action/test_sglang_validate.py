"""The two action plugins, run by ansible-playbook itself on inventories written here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[4]
PLAYBOOK = ROOT / "playbooks" / "validate.yml"
SECRET = "s3cr3t-not-for-logs"
SOUND = {
    "name": "qwen",
    "profile": "qwen3_5_397b_nvfp4",
    "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
}


def play(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """ansible-playbook with this checkout's configuration; facts and results as JSON where a callback asks for it."""
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    command = [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)


def inventory(folder: pathlib.Path, content: dict[str, t.Any]) -> pathlib.Path:
    path = folder / "hosts.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def listed(output: str) -> list[str]:
    """The numbered problems of the message."""
    return [line.strip() for line in output.split("fatal:", maxsplit=1)[0].splitlines() if re.match(r"\s+\d+\. ", line)]


@pytest.mark.parametrize("words", [["proxmox", "--check", "--diff"], ["lab"]], ids=lambda words: words[0])
def test_our_own_inventories_pass(words: list[str]) -> None:
    done = play(PLAYBOOK, "-i", ROOT / "inventories" / words[0], *words[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
    assert "sglang_instances" not in done.stdout + done.stderr, "the examples have no warning about an instance"


def test_every_problem_of_an_inventory_comes_in_one_message(tmp_path: pathlib.Path) -> None:
    hosts = {
        "all": {
            "vars": {"base": 30000},
            "children": {
                "proxmox_hosts": {"hosts": {"pve1": {"proxmox_gpu_nothing": 1}}},
                "sglang_hosts": {
                    "hosts": {
                        # Would be contacted if anything were: the name resolves nowhere.
                        "g1": {
                            "ansible_host": "unreachable.invalid",
                            "sglang_instnaces": [SOUND],
                            "sglang_hypervisor": "pve9",
                            "sglang_guest_kind": "lxc",
                            "sglang_vmid": 101,
                        },
                        "g2": {
                            "sglang_hypervisor": "pve1",
                            "sglang_guest_kind": "lxc",
                            "sglang_vmid": 129,
                            "slgang_root": "/x",
                            "gpu_host_packages": "git",
                            "sglang_instances": [
                                {**SOUND, "args": {"port": "{{ base + 1 }}", "kv_cache_dtype": "auto"}},
                                {**SOUND, "name": "b", "args": {"port": 30001, "tp_size": "{{ nowhere }}"}},
                            ],
                        },
                        "g3": {
                            "sglang_hypervisor": "pve1",
                            "sglang_guest_kind": "lxc",
                            "sglang_vmid": 129,
                            "sglang_instances": [],
                        },
                    }
                },
            },
        }
    }
    done = play(PLAYBOOK, "-i", inventory(tmp_path, hosts))
    assert done.returncode != 0
    problems = listed(done.stdout + done.stderr)
    expected = [
        ("pve1: proxmox_gpu_nothing", "no variable"),
        ("g1: sglang_instnaces", "write sglang_instances"),
        ("g1: sglang_instances", "is not set"),
        ("g1: sglang_hypervisor", "pve1"),
        ("g2: slgang_root", "write sglang_root"),
        ("g2: gpu_host_packages", "a list"),
        ("g2: sglang_instances[0].args.kv_cache_dtype", "write kv_cache_dtype: bf16"),
        ("g2: sglang_instances[1].args.tp_size", "'nowhere' is undefined"),
        ("g2: sglang_instances[1].args.port", "30001"),
        ("g2: sglang_instances[1].gpus", "both started"),
        ("g3: sglang_vmid", "like that of g2"),
    ]
    for place, said in expected:
        assert any(f"{place}: " in line and said in line for line in problems), (place, problems)
    assert len(problems) == len(expected), problems


def test_what_hosts_share_is_told_once(tmp_path: pathlib.Path) -> None:
    fleet = {
        "vars": {"sglang_instances": [{**SOUND, "args": {"kv_cache_dtyp": "bf16"}}]},
        "hosts": {"g1": {}, "g2": {}, "g3": {"sglang_raot": "/srv"}},
    }
    done = play(PLAYBOOK, "-i", inventory(tmp_path, {"sglang_hosts": fleet}))
    told = listed(done.stdout)
    assert len(told) == 2, told
    assert told[0].startswith("1. g1, g2, g3: sglang_instances[0].args.kv_cache_dtyp: ")
    assert told[1].startswith("2. g3: sglang_raot: ")
    assert "2 problem(s) in the inventory" in done.stdout
    # Whoever reads the result has them by host.
    assert done.stdout.count('"host": "g') == 4


def test_secrets_are_not_shown_and_locked_ones_are_named(tmp_path: pathlib.Path) -> None:
    password = tmp_path / "password"
    password.write_text("open sesame", encoding="utf-8")
    vault = pathlib.Path(sys.executable).parent / "ansible-vault"
    locked = subprocess.run(
        [str(vault), "encrypt_string", "--vault-password-file", str(password), SECRET],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    instance = {**SOUND, "args": {"host": "0.0.0.0"}}
    path = tmp_path / "hosts.yml"
    path.write_text(
        yaml.safe_dump(
            {
                "sglang_hosts": {
                    "hosts": {
                        "g1": {"sglang_instances": [{**instance, "api_key": "{{ vault_key }}"}]},
                        "g2": {"sglang_instances": [{**instance, "api_key": SECRET, "api_kye": SECRET}]},
                    }
                }
            }
        )
        + "  vars:\n    vault_key: "
        + locked.replace("\n", "\n    "),
        encoding="utf-8",
    )
    without = play(PLAYBOOK, "-i", path, "-vvv")
    text = without.stdout + without.stderr
    assert SECRET not in text.replace(str(path), "")
    problems = listed(text)
    assert len(problems) == 2, problems
    assert "g1: sglang_instances[0].api_key: is encrypted" in problems[0] and "--ask-vault-pass" in problems[0]
    assert "g2: sglang_instances[0].api_kye" in problems[1] and "write api_key" in problems[1]
    with_password = play(PLAYBOOK, "-i", path, "--vault-password-file", password, "-vvv")
    text = with_password.stdout + with_password.stderr
    assert SECRET not in text
    assert len(listed(text)) == 1


def test_an_inventory_without_our_groups_is_refused(tmp_path: pathlib.Path) -> None:
    done = play(PLAYBOOK, "-i", inventory(tmp_path, {"sglang_host": {"hosts": {"g1": {}}}}))
    assert done.returncode != 0
    problems = listed(done.stdout + done.stderr)
    assert len(problems) == 1 and "rename the group sglang_host" in problems[0], problems


def test_files_are_read_where_the_host_is_the_controller(tmp_path: pathlib.Path) -> None:
    broken, empty = tmp_path / "broken", tmp_path / "empty"
    for folder in (broken, empty):
        folder.mkdir()
    (broken / "config.json").write_text('{"architectures": [', encoding="utf-8")
    hosts = {
        "sglang_hosts": {
            "hosts": {
                "here": {
                    "ansible_connection": "local",
                    "sglang_instances": [
                        {**SOUND, "name": "a", "model_path": str(broken), "gpus": [0], "args": {"tp_size": 1}},
                        {
                            **SOUND,
                            "name": "b",
                            "model_path": str(empty),
                            "gpus": [1],
                            "args": {"tp_size": 1, "port": 2},
                        },
                        {
                            **SOUND,
                            "name": "c",
                            "model_path": f"{tmp_path}/none",
                            "gpus": [2],
                            "args": {"tp_size": 1, "port": 3},
                        },
                    ],
                }
            }
        }
    }
    done = play(PLAYBOOK, "-i", inventory(tmp_path, hosts))
    problems = listed(done.stdout + done.stderr)
    assert [
        re.search(r"(config.json is no JSON|config.json is missing|is no folder)", line)[1] for line in problems
    ] == [
        "config.json is no JSON",
        "config.json is missing",
        "is no folder",
    ]


def test_resolve_gives_the_role_what_the_contract_says(tmp_path: pathlib.Path) -> None:
    path = inventory(tmp_path, {"sglang_hosts": {"hosts": {"g1": {"sglang_instances": [SOUND]}, "g2": {}}}})
    out = tmp_path / "out"
    out.mkdir()
    book = tmp_path / "book.yml"
    book.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "all",
                    "gather_facts": False,
                    "tasks": [
                        {"blackwell.sglang.sglang_resolve": {"fail": False}, "register": "first"},
                        {
                            "ansible.builtin.copy": {
                                "content": "{{ first.resolved | to_json }}",
                                "dest": f"{out}/{{{{ inventory_hostname }}}}.json",
                            },
                            "delegate_to": "localhost",
                            "connection": "local",
                            "vars": {"ansible_python_interpreter": sys.executable},
                        },
                        {"blackwell.sglang.sglang_resolve": {}},
                    ],
                }
            ]
        ),
        encoding="utf-8",
    )
    done = play(book, "-i", path)
    assert json.loads((out / "g1.json").read_text())["problems"] == []
    assert json.loads((out / "g1.json").read_text())["instances"][0]["unit"] == "sglang-qwen.service"
    assert [problem["id"] for problem in json.loads((out / "g2.json").read_text())["problems"]] == ["no_instances"]
    recap = done.stdout.split("PLAY RECAP")[1]
    assert re.search(r"g1 .*failed=0", recap) and re.search(r"g2 .*failed=1", recap), recap
    assert "g2: 1 problem(s) in its variables" in done.stdout + done.stderr

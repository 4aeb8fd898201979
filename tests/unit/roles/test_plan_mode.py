"""plan.yml puts a play into check mode, of which ansible_check_mode knows nothing: it only tells --check."""

from __future__ import annotations

import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_roles_of_the_plan_ask_what_knows_of_it() -> None:
    (play,) = [each for each in yaml.safe_load((ROOT / "playbooks/plan.yml").read_text()) if "hosts" in each]
    assert play["check_mode"] is True
    assert play["vars"]["__sglang_plan"] is True
    whole = [task["ansible.builtin.include_role"] for task in play["tasks"] if "ansible.builtin.include_role" in task]
    names = {role["name"].rpartition(".")[2] for role in whole}
    assert names == {"gpu_host", "sglang_service"}
    for name in names:
        variables = (ROOT / f"roles/{name}/vars/main.yml").read_text()
        assert f'__{name}_check: "{{{{ ansible_check_mode or __sglang_plan | default(false) }}}}"' in variables
        for path in (ROOT / f"roles/{name}/tasks").glob("*.yml"):
            assert not re.search(r"\bansible_check_mode\b", path.read_text()), path

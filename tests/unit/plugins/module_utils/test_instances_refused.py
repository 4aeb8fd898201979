"""What resolve says of a wrong inventory: variable, what is wrong, what to write."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate,
    _gate_ordered,
    _gate_ready,
    _gate_right,
    _gate_roomy,
    _gate_settings,
    _instances,
)
from instances_kit import PROFILES, STACKS, found, one, resolve, schema


@pytest.mark.parametrize(
    ("keys", "where", "said"),
    [
        ({"name": None}, "name", "missing"),
        ({"name": "Qwen 3"}, "name", "write qwen-3"),
        ({"name": 3}, "name", "whole number"),
        ({"model_path": None}, "model_path", "missing"),
        ({"model_path": "nvidia/Qwen"}, "model_path", "absolute"),
        ({"model_path": "/models/../etc"}, "model_path", ".."),
        ({"modelpath": "/x"}, "modelpath", "write model_path"),
        ({"state": "stoped"}, "state", "stopped"),
        ({"state": True}, "state", "true or false"),
        ({"profile": "plane"}, "profile", "write plain"),
        ({"stack": "nighly"}, "stack", "write nightly"),
        ({"gpus": "0,1"}, "gpus", "[0, 1]"),
        ({"gpus": []}, "gpus", "empty"),
        ({"gpus": [0, 0]}, "gpus[1]", "second time"),
        ({"gpus": ["a"]}, "gpus[0]", "whole number"),
        ({"gpus": [0, 1, 2, 3]}, "gpus", "8 ranks"),
        ({"args": ["tp_size"]}, "args", "a list"),
        ({"args": {"kv_cache_dtypo": 1}}, "args.kv_cache_dtypo", "kv_cache_dtype"),
        ({"args": {"port": 70000}}, "args.port", "65535"),
        ({"args": {"port": "http"}}, "args.port", "whole number"),
        ({"args": {"model_path": "/x"}}, "args.model_path", "model_path of the instance"),
        ({"args": {"host": "a b"}}, "args.host", "address"),
        ({"extra_args": "--enable-metrics"}, "extra_args", "a list"),
        ({"extra_args": ["--tp-size", "4"]}, "extra_args", "args sets too"),
        ({"extra_args": ["--nope"]}, "extra_args[0]", "no argument"),
        ({"env": {"A": True}}, "env.A", "quotes"),
        ({"env": {"1A": "x"}}, "env.1A", "environment variable"),
        ({"env": {"A": "x\ny"}}, "env.A", "line break"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}, "gpus": [0, 1, 2, 3, 4, 5, 6, 7]}, "env.CUDA_VISIBLE_DEVICES", "gpus"),
        ({"api_key": ""}, "api_key", "empty"),
        ({"api_key": 12345}, "api_key", "whole number"),
        ({"need": {"contxt": 1}}, "need.contxt", "write context"),
        ({"need": {"context": "many"}}, "need.context", "whole number"),
        ({"exceptions": [{"id": "x"}]}, "exceptions[1].reason", "nothing"),
        ({"exceptions": [{"id": "x", "reason": "y", "until": "2026-01-01"}]}, "exceptions[1].until", "ended"),
        ({"exceptions": [{"id": "x", "reason": "y", "until": "soon"}]}, "exceptions[1].until", "a day"),
        ({"exceptions": [{"id": "x", "reason": "y", "untill": "z"}]}, "exceptions[1].untill", "write until"),
    ],
)
def test_one_wrong_key_is_one_problem_that_says_what_to_write(keys: dict[str, t.Any], where: str, said: str) -> None:
    result = resolve(one(**keys))
    problems = [*result["problems"]]
    assert [problem["where"] for problem in problems] == [f"sglang_instances[0].{where}"], problems
    assert said in " ".join(problems[0].values())
    assert problems[0]["host"] == "h1"
    assert problems[0]["fix"]


@pytest.mark.parametrize(
    ("hostvars", "where", "said"),
    [
        ({"sglang_root": "opt"}, "sglang_root", "absolute"),
        ({"sglang_user": "Bad User"}, "sglang_user", "system user"),
        ({"sglang_vmid": "x"}, "sglang_vmid", "whole number"),
        ({"sglang_vmid": 12}, "sglang_vmid", "from 100"),
        ({"sglang_guest_kind": "vm"}, "sglang_guest_kind", "lxc"),
        ({"sglang_guest_kind": "lxc", "sglang_vmid": 129}, "sglang_hypervisor", "is not set"),
        ({"sglang_hypervisor": "pve1", "sglang_vmid": 129}, "sglang_guest_kind", "is not set"),
        ({"sglang_indexes": {"default": 8080}}, "sglang_indexes.default", "URL"),
        ({"sglang_indexes": ["x"]}, "sglang_indexes", "a list"),
        ({"sglang_stacks": {"nightly": {"chanel": "x"}}}, "sglang_stacks.nightly.chanel", "write channel"),
        ({"sglang_stacks": {"nightly": {"channel": "daily"}}}, "sglang_stacks.nightly.channel", "nightly"),
        ({"sglang_stacks": {"nightly": {"python": [3.12]}}}, "sglang_stacks.nightly.python[0]", '"3.12" in quotes'),
        (
            {"sglang_stacks": {"nightly": {"requirements": {"torch": {"index": "pytroch"}}}}},
            "sglang_stacks.nightly.requirements.torch.index",
            "write pytorch",
        ),
        (
            {"sglang_stacks": {"nightly": {"requirements": {"torch": {"version": 2.12}}}}},
            "sglang_stacks.nightly.requirements.torch.version",
            "quote",
        ),
        (
            {"sglang_stacks": {"nightly": {"requirements": {"torch": {"verison": "==2"}}}}},
            "sglang_stacks.nightly.requirements.torch.verison",
            "write version",
        ),
        (
            {"sglang_stacks": {"nightly": {"kernel": {"comit": "main"}}}},
            "sglang_stacks.nightly.kernel.comit",
            "write commit",
        ),
        ({"sglang_stacks": {"nightly": {"kernel": {"build": "make"}}}}, "sglang_stacks.nightly.kernel.build", "source"),
        (
            {"sglang_stacks": {"nightly": {"kernel": {"cuda_arch_list": 12.0}}}},
            "sglang_stacks.nightly.kernel.cuda_arch_list",
            "12.0a",
        ),
        ({"sglang_stacks": {"nightly": "new"}}, "sglang_stacks.nightly", "dictionary"),
        ({"sglang_profiles": {"plain": {"argz": {}}}}, "sglang_profiles.plain.argz", "write args"),
        ({"sglang_profiles": {"plain": []}}, "sglang_profiles.plain", "a list"),
        ({"sglang_profiles": {"plain": {"stack": "x"}}}, "sglang_profiles.plain.stack", "does not exist"),
    ],
)
def test_wrong_host_variables_are_named(hostvars: dict[str, t.Any], where: str, said: str) -> None:
    result = resolve(one(), **hostvars)
    assert [problem["where"] for problem in result["problems"]] == [where], result["problems"]
    assert said in " ".join(result["problems"][0].values())


def test_all_problems_come_at_once() -> None:
    result = resolve(
        {"nam": "x"}, 7, one(name="b", args={"tpsize": 8}), one(name="b", model_path="x"), sglang_user=["x"]
    )
    places = {problem["where"] for problem in result["problems"]}
    assert {
        "sglang_user",
        "sglang_instances[0].nam",
        "sglang_instances[0].name",
        "sglang_instances[0].model_path",
        "sglang_instances[1]",
        "sglang_instances[2].args.tpsize",
        "sglang_instances[3].model_path",
        "sglang_instances[3].name",
        "sglang_instances[3].gpus",
        "sglang_instances[3].args.port",
    } <= places


@pytest.mark.parametrize(
    ("first", "second", "ids"),
    [
        ({"gpus": [0, 1, 2, 3]}, {"gpus": [4, 5, 6, 7], "args": {"tp_size": 4, "port": 30001}}, []),
        ({"gpus": [0, 1, 2, 3]}, {"gpus": [3, 4, 5, 6], "args": {"tp_size": 4, "port": 30001}}, ["gpu_overlap"]),
        ({"gpus": [0, 1, 2, 3]}, {"gpus": [4, 5, 6, 7]}, ["port_overlap"]),
        ({"gpus": [0, 1, 2, 3]}, {"args": {"tp_size": 4, "port": 30001}}, ["gpu_overlap"]),
        ({}, {"state": "stopped"}, []),
        ({}, {"name": "a"}, ["gpu_overlap", "name_twice", "port_overlap"]),
    ],
)
def test_started_instances_share_nothing(first: dict[str, t.Any], second: dict[str, t.Any], ids: list[str]) -> None:
    result = resolve(
        one(**{"name": "a", "args": {"tp_size": 4}, **first}), one(**{"name": "b", "args": {"tp_size": 4}, **second})
    )
    assert sorted(problem["id"] for problem in result["problems"]) == ids


@pytest.mark.parametrize(
    ("second", "conflicts"),
    [
        ({"gpus": [4, 5, 6, 7], "args": {"tp_size": 4, "port": 30001}}, []),
        ({"gpus": [3, 4, 5, 6], "args": {"tp_size": 4, "port": 30001}}, ["b"]),
        ({"gpus": [4, 5, 6, 7]}, ["b"]),
        ({"args": {"tp_size": 4, "port": 30001}}, ["b"]),
    ],
    ids=["nothing", "a GPU", "the port", "all GPUs"],
)
def test_an_instance_names_those_that_it_cannot_run_beside(second: dict[str, t.Any], conflicts: list[str]) -> None:
    """Also while one of them is stopped, which is what makes room for the other."""
    args = {"args": {"tp_size": 4}}
    result = resolve(
        one(**{"name": "a", **args, "gpus": [0, 1, 2, 3]}), one(**{"name": "b", **args, "state": "stopped", **second})
    )
    assert result["problems"] == []
    assert [each["conflicts"] for each in result["instances"]] == [conflicts, ["a"] if conflicts else []]


def test_unset_instances_are_a_problem_and_an_empty_list_is_a_warning() -> None:
    unset = _instances.resolve({}, STACKS, PROFILES)
    assert [problem["id"] for problem in unset["problems"]] == ["no_instances"]
    empty = resolve()
    assert empty["problems"] == []
    assert [warning["id"] for warning in empty["warnings"]] == ["no_instances"]


@pytest.mark.parametrize(
    ("gate", "where", "said"),
    [
        ({"burst": 4}, "burst", "is not a key that is read here"),
        ({"concurency": 4}, "concurency", "write concurrency"),
        ({"ready_timeout": "soon"}, "ready_timeout", "a whole number from 1 to 86400"),
        ({"ready_timeout": 0}, "ready_timeout", "seconds until the server must answer"),
        ({"ready_timeout_warm": 2000}, "ready_timeout_warm", "longer than ready_timeout"),
        ({"ready_timeout": 60, "ready_timeout_warm": 61}, "ready_timeout_warm", "at most 60"),
        ({"ready_timeout_warm": "soon"}, "ready_timeout_warm", "ready_timeout_warm: 900, or remove it"),
        ({"concurrency": 1}, "concurrency", "a whole number from 2 to 4096"),
        ({"long_prompt_words": "all"}, "long_prompt_words", "length of the long prompt"),
        ({"max_tokens": 2.5}, "max_tokens", "a whole number"),
        ({"max_tokens": True}, "max_tokens", "a whole number"),
        ({"capacity_tolerance": float("nan")}, "capacity_tolerance", "a number from 0 to 1"),
        ({"prompt": ""}, "prompt", "one line of text"),
        ({"skip": "right.long"}, "skip", "a list"),
        ({"skip": ["right.lang"]}, "skip[0]", "write right.long"),
    ],
)
def test_wrong_gate_settings_are_refused_before_any_connection(gate: dict[str, t.Any], where: str, said: str) -> None:
    (problem,) = found(resolve(one(gate=gate)), f"sglang_instances[0].gate.{where}")
    assert said in " ".join(str(value) for value in problem.values())


def test_gate_settings_may_come_as_text_from_the_command_line() -> None:
    result = resolve(one(gate={"ready_timeout": "30", "repetition": "1.5", "skip": ["right.long"]}))
    assert result["problems"] == []
    assert result["instances"][0]["gate"] == {"ready_timeout": 30, "repetition": 1.5, "skip": ["right.long"]}


def test_the_instance_schema_names_the_settings_of_the_gate() -> None:
    gate = schema("instance")["properties"]["gate"]["properties"]
    assert {name: entry["default"] for name, entry in gate.items()} == _gate_settings.DEFAULTS
    assert tuple(gate["skip"]["items"]["enum"]) == _gate_settings.CHECK_IDS


def test_the_ids_of_checks_are_those_of_the_gate() -> None:
    groups = (_gate_ready, _gate_right, _gate_ordered, _gate_roomy)
    assert tuple(_gate.check_id(each) for group in groups for each in group.CHECKS) == _gate_settings.CHECK_IDS

"""What resolve makes of an inventory, and what it says of a wrong one."""

from __future__ import annotations

import copy
import datetime
import functools
import json
import pathlib
import typing as t

import jsonschema
import pytest
import yaml
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _gate,
    _gate_ordered,
    _gate_ready,
    _gate_right,
    _gate_roomy,
    _gate_settings,
    _instances,
    _stack_schema,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[4]
TODAY = datetime.date(2026, 11, 29)
STACKS: dict[str, t.Any] = {
    "nightly": {
        "channel": "nightly",
        "python": ["3.12"],
        "indexes": {"pytorch": "https://example.org/nightly"},
        "requirements": {
            "torch": {"version": ">=2.12.0.dev1", "index": "pytorch", "prerelease": True},
            "sglang": {"version": "==0.5.12.post1"},
        },
        "overrides": ["torch"],
        "kernel": {"build": "source", "cuda_arch_list": "12.0a", "cmake_args": ["-DX=ON"]},
        "exceptions": [],
    },
    "stable": {"channel": "stable", "requirements": {"sglang": {"version": "==0.5.23"}}},
}
PROFILES: dict[str, t.Any] = {
    "plain": {
        "description": "for the tests",
        "stack": "nightly",
        "args": {
            "tp_size": 8,
            "quantization": "modelopt_fp4",
            "kv_cache_dtype": "bf16",
            "attention_backend": "triton",
            "moe_runner_backend": "flashinfer_cutlass",
            "fp4_gemm_runner_backend": "flashinfer_cudnn",
            "reasoning_parser": "qwen3",
        },
        "env": {"NCCL_P2P_LEVEL": "SYS", "OMP_NUM_THREADS": "8"},
        "need": {"context": 1000},
        "exceptions": [{"id": "rule_a", "reason": "the profile's"}],
    }
}


@functools.cache
def schema(name: str) -> t.Any:
    return json.loads((ROOT / "docs" / "contracts" / f"{name}.schema.json").read_text(encoding="utf-8"))


@functools.cache
def resolved_validator() -> t.Any:
    return jsonschema.Draft202012Validator(schema("resolved_host"))


def validate(result: dict[str, t.Any]) -> None:
    """The result survives JSON and fits its contract."""
    resolved_validator().validate(json.loads(json.dumps(result)))


def resolve(*instances: t.Any, **hostvars: t.Any) -> dict[str, t.Any]:
    given_vars = {"inventory_hostname": "h1", "sglang_instances": list(instances), **hostvars}
    before = copy.deepcopy((given_vars, STACKS, PROFILES))
    result = _instances.resolve(given_vars, STACKS, PROFILES, TODAY)
    assert (given_vars, STACKS, PROFILES) == before, "resolve changed its input"
    validate(result)
    return result


def one(**keys: t.Any) -> dict[str, t.Any]:
    return {"name": "qwen", "profile": "plain", "model_path": "/models/X-NVFP4", **keys}


def found(result: dict[str, t.Any], where: str) -> list[dict[str, t.Any]]:
    return [problem for problem in result["problems"] if problem["where"] == where]


def test_profile_and_instance_are_merged_key_by_key() -> None:
    result = resolve(
        one(
            args={"tp_size": 4, "reasoning_parser": None, "port": 30001, "tool_call_parser": "qwen3_coder"},
            env={"OMP_NUM_THREADS": None, "A": 1},
            need={"concurrent": 2},
            gpus=[3, 1, 0, 2],
            exceptions=[{"id": "rule_b", "reason": "ours", "until": datetime.date(2027, 1, 31)}],
            extra_args=["--enable-metrics"],
            gate={"concurrency": 4},
        )
    )
    assert result["problems"] == []
    instance = result["instances"][0]
    assert instance["args"] == {
        "tp_size": 4,
        "quantization": "modelopt_fp4",
        "kv_cache_dtype": "bf16",
        "attention_backend": "triton",
        "moe_runner_backend": "flashinfer_cutlass",
        "fp4_gemm_runner_backend": "flashinfer_cudnn",
        "port": 30001,
        "tool_call_parser": "qwen3_coder",
        "host": "127.0.0.1",
        "enable_metrics": True,
    }
    assert instance["env"] == {
        "NCCL_P2P_LEVEL": "SYS",
        "A": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }
    assert instance["need"] == {"context": 1000, "concurrent": 2}
    assert instance["exceptions"] == [
        {"id": "rule_a", "reason": "the profile's", "until": None},
        {"id": "rule_b", "reason": "ours", "until": "2027-01-31"},
    ]
    assert instance["gate"] == {"concurrency": 4}
    assert (instance["unit"], instance["enabled"], instance["stack"]) == ("sglang-qwen.service", True, "nightly")
    assert instance["listen"] == {"host": "127.0.0.1", "port": 30001}
    assert (instance["tp_size"], instance["kv_cache_dtype"], instance["speculative"]) == (4, "bf16", False)
    assert instance["argv"][:2] == ["--model-path", "/models/X-NVFP4"]
    assert instance["argv"][-1] == "--enable-metrics"
    assert instance["engine_version"] == "0.5.12.post1"
    assert instance["stack_digest"] == result["stacks"]["nightly"]["digest"]


def test_the_command_line_of_the_original_deployment() -> None:
    path = ROOT / "roles/sglang_service/files/profiles/qwen3_5_397b_nvfp4.yml"
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    result = _instances.resolve(
        {"sglang_instances": [one(profile="p", model_path="/models/Q")]}, STACKS, {"p": profile}, TODAY
    )
    assert result["problems"] == []
    assert " ".join(result["instances"][0]["argv"]) == (
        "--model-path /models/Q --attention-backend triton --fp4-gemm-backend flashinfer_cudnn --host 127.0.0.1 "
        "--kv-cache-dtype bf16 --moe-runner-backend flashinfer_cutlass --port 30000 --quantization modelopt_fp4 "
        "--reasoning-parser qwen3 --tool-call-parser qwen3_coder --tensor-parallel-size 8"
    )


def test_another_spelling_replaces_the_profiles_argument() -> None:
    result = resolve(one(args={"tensor_parallel_size": 2, "fp4_gemm_backend": "flashinfer_cutlass"}))
    assert result["problems"] == []
    assert result["instances"][0]["args"]["tp_size"] == 2
    assert result["instances"][0]["args"]["fp4_gemm_runner_backend"] == "flashinfer_cutlass"


def test_the_order_of_keys_changes_nothing() -> None:
    forward = resolve(one(args={"port": 1234, "tool_call_parser": "qwen25"}))
    backward = resolve(one(args={"tool_call_parser": "qwen25", "port": 1234}))
    assert forward["instances"][0]["argv"] == backward["instances"][0]["argv"]


def test_stacks_are_merged_deeply_and_digested() -> None:
    plain = resolve(one())["stacks"]["nightly"]
    pinned = resolve(one(), sglang_stacks={"nightly": {"requirements": {"torch": {"version": "==2.12.0"}}}})
    stack = pinned["stacks"]["nightly"]
    assert stack["requirements"]["torch"] == {"version": "==2.12.0", "index": "pytorch", "prerelease": True}
    assert stack["requirements"]["sglang"] == {"version": "==0.5.12.post1"}
    assert stack["digest"] != plain["digest"] == _stack_schema.stack_digest(plain)
    moved = resolve(one(), sglang_indexes={"default": "https://mirror.example.org/simple"})["stacks"]["nightly"]
    assert moved["indexes"] == {
        "pytorch": "https://example.org/nightly",
        "default": "https://mirror.example.org/simple",
    }
    excepted = resolve(one(), sglang_stacks={"nightly": {"exceptions": [{"id": "x", "reason": "y"}]}})
    assert excepted["stacks"]["nightly"]["digest"] == plain["digest"]
    assert list(excepted["stacks"]) == ["nightly"]


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ({"version": "==0.5.23"}, "0.5.23"),
        ({"version": "== 0.5.12.post1"}, "0.5.12.post1"),
        ({"version": ">=0.5.9"}, None),
        ({"version": "==0.5.9,<1"}, None),
        ({}, None),
        ("==0.5.9", "0.5.9"),
    ],
)
def test_engine_version_is_the_exact_pin(requirement: t.Any, version: str | None) -> None:
    assert _stack_schema.engine_version({"requirements": {"sglang": requirement}}) == version
    assert _stack_schema.engine_version({"engine_version": "0.5.21", "requirements": {}}) == "0.5.21"


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


def test_unset_instances_are_a_problem_and_an_empty_list_is_a_warning() -> None:
    unset = _instances.resolve({}, STACKS, PROFILES)
    assert [problem["id"] for problem in unset["problems"]] == ["no_instances"]
    empty = resolve()
    assert empty["problems"] == []
    assert [warning["id"] for warning in empty["warnings"]] == ["no_instances"]


def test_secrets_never_enter_the_result() -> None:
    secret = "s3cr3t-not-for-logs"
    result = resolve(
        one(api_key=secret),
        one(name="b", args={"api_key": secret, "port": 2}, env={"SGLANG_API_KEY": secret}, state="stopped"),
        one(name="c", extra_args=["--api-key", secret, "--enable-metrics"], state="stopped"),
        one(name="d", api_kye=secret, state="stopped"),
        one(name="e", api_key=[secret], state="stopped"),
    )
    assert result["instances"][0]["api_key_set"] is True
    assert secret not in json.dumps(result)
    assert {problem["id"] for problem in result["problems"]} == {
        "argument_taken",
        "secret_in_env",
        "unknown_key",
        "api_key",
    }


def test_exceptions_lift_refusals_of_arguments_for_forks() -> None:
    words = ["--enable-pcie-oneshot-allreduce"]
    assert [problem["id"] for problem in resolve(one(extra_args=words))["problems"]] == ["fork_only"]
    excepted = resolve(one(extra_args=words, exceptions=[{"id": "fork_only", "reason": "our build has it"}]))
    assert excepted["problems"] == []
    assert excepted["instances"][0]["argv"][-1] == words[0]
    assert "fork_only" in {warning["id"] for warning in excepted["warnings"]}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "roles/sglang_service/files/profiles").glob("*.yml")), ids=lambda p: p.stem
)
def test_shipped_profiles_resolve_with_the_shipped_stacks(path: pathlib.Path) -> None:
    stacks_file = ROOT / "roles/nightly_stack/files/stacks.yml"
    stacks = yaml.safe_load(stacks_file.read_text(encoding="utf-8"))
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert profile["description"] and profile["source"]
    assert set(profile) <= set(_instances.PROFILE_KEYS)
    result = _instances.resolve(
        {"sglang_instances": [{"name": "x", "profile": "p", "model_path": "/models/x"}]}, stacks, {"p": profile}, TODAY
    )
    validate(result)
    assert result["problems"] == []
    assert result["instances"][0]["kv_cache_dtype"] == "bf16"


@pytest.mark.parametrize("path", sorted((ROOT / "inventories/proxmox/host_vars").glob("*.yml")), ids=lambda p: p.stem)
def test_the_examples_instances_fit_the_instance_schema(path: pathlib.Path) -> None:
    for instance in yaml.safe_load(path.read_text(encoding="utf-8"))["sglang_instances"]:
        jsonschema.validate(instance, schema("instance"))


def test_the_instance_schema_names_the_keys_that_resolve_reads() -> None:
    assert set(schema("instance")["properties"]) == set(_instances.INSTANCE_KEYS)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "qwen"}, schema("instance"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "qwen", "model_path": "/x", "gpu": [0]}, schema("instance"))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=6),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=3),
    st.sampled_from(
        ["qwen", "plain", "nightly", "/models/x", "all", "0,1", "bf16", "auto", "==0.5.9", "main", "1e999"]
    ),
)
KEYS = st.one_of(
    st.sampled_from(
        [
            *_instances.INSTANCE_KEYS,
            *_instances.PROFILE_KEYS,
            *_stack_schema.STACK_KEYS,
            "nightly",
            "plain",
            "sglang",
            "torch",
            "version",
            "index",
            "port",
            "host",
            "tp_size",
            "id",
            "reason",
            "until",
            "context",
            "NCCL_P2P_LEVEL",
            "page_size",
            "speculative_algorithm",
            "speculative_num_steps",
            "mamba_track_interval",
            "chunked_prefill_size",
            "kv_cache_dtype",
        ]
    ),
    st.text(max_size=4),
    st.integers(0, 3),
    st.booleans(),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
INSTANCES = st.dictionaries(st.sampled_from(_instances.INSTANCE_KEYS), TREES, max_size=8)


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    hostvars=st.fixed_dictionaries(
        {},
        optional={
            "sglang_instances": st.one_of(TREES, st.lists(st.one_of(INSTANCES, TREES), max_size=3)),
            "sglang_stacks": st.one_of(TREES, st.dictionaries(st.just("nightly"), TREES)),
            "sglang_profiles": st.one_of(TREES, st.dictionaries(st.just("plain"), TREES)),
            "sglang_indexes": TREES,
            "sglang_hypervisor": LEAVES,
            "sglang_guest_kind": LEAVES,
            "sglang_vmid": LEAVES,
            "sglang_root": LEAVES,
            "sglang_user": LEAVES,
            "inventory_hostname": LEAVES,
        },
    )
)
def test_resolve_never_crashes_and_always_returns_its_schema(hostvars: dict[str, t.Any]) -> None:
    result = _instances.resolve(hostvars, STACKS, PROFILES, TODAY)
    validate(result)


@pytest.mark.parametrize(
    ("gate", "where", "said"),
    [
        ({"burst": 4}, "burst", "is not a key that is read here"),
        ({"concurency": 4}, "concurency", "write concurrency"),
        ({"ready_timeout": "soon"}, "ready_timeout", "a whole number from 1 to 86400"),
        ({"ready_timeout": 0}, "ready_timeout", "seconds until the server must answer"),
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

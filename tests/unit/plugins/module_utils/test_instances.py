"""What resolve makes of an inventory."""

from __future__ import annotations

import datetime
import json
import pathlib
import typing as t

import jsonschema
import pytest
import yaml
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _instances,
    _stack_schema,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from instances_kit import PROFILES, ROOT, STACKS, TODAY, one, resolve, schema, validate


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

"""Stacks, a profile and a shorthand for the tests of resolve; every result is held against its contract."""

from __future__ import annotations

import copy
import datetime
import functools
import json
import pathlib
import typing as t

import jsonschema
from ansible_collections.blackwell.sglang.plugins.module_utils import (
    _instances,
)

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

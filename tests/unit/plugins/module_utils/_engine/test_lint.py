"""Each rule fires on what it is for, keeps quiet on what is right, and is lifted by its name."""

from __future__ import annotations

import datetime
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _instances
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import lint, lint_rule, options, versions

GOOD: dict[str, t.Any] = {
    "tp_size": 8,
    "quantization": "modelopt_fp4",
    "attention_backend": "triton",
    "moe_runner_backend": "flashinfer_cutlass",
    "fp4_gemm_runner_backend": "flashinfer_cudnn",
    "kv_cache_dtype": "bf16",
}
QWEN = "/models/Qwen3.5-397B-A17B-NVFP4"
NEXTN = {
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
V2 = {"SGLANG_ENABLE_SPEC_V2": "1"}
GLM = {"model_path": "/models/GLM-5-NVFP4"}
V32 = {"model_path": "/models/DeepSeek-V3.2-NVFP4"}
V4 = {"model_path": "/models/DeepSeek-V4-Flash-NVFP4"}
# The attention of these models is not chosen by attention_backend.
OWN: dict[str, t.Any] = {"attention_backend": None}
TILELANG = {"dsa_prefill_backend": "tilelang", "dsa_decode_backend": "tilelang"}


def run(version: str, args: dict[str, t.Any], **keys: t.Any) -> dict[str, t.Any]:
    stack = {"channel": "stable", "requirements": {"sglang": {"version": f"=={version}"}}}
    instance = {"name": "x", "stack": "s", "model_path": QWEN, "args": {**GOOD, **args}, **keys}
    return _instances.resolve({"sglang_instances": [instance]}, {"s": stack}, {}, datetime.date(2026, 11, 29))


def ids(result: dict[str, t.Any], kind: str) -> set[str]:
    return {entry["id"] for entry in result[kind]}


# version, arguments over GOOD (null removes), other keys, ids of the problems
REFUSED: list[tuple[str, dict[str, t.Any], dict[str, t.Any], set[str]]] = [
    ("0.5.12.post1", {"kv_cache_dtype": "auto"}, {}, {"kv_cache_dtype_auto"}),
    ("0.5.12.post1", {"kv_cache_dtype": None}, {}, {"kv_cache_dtype_auto"}),
    ("0.5.9", {"kv_cache_dtype": None}, {}, {"kv_cache_dtype_auto"}),
    ("0.5.23", {"attention_backend": "trtllm_mla"}, {}, {"attention_backend_sm120"}),
    ("0.5.12.post1", {"decode_attention_backend": "fa3"}, {}, {"attention_backend_sm120"}),
    ("0.5.12.post1", {"attention_backend": "trtllm_mha"}, {}, {"attention_trtllm_mha"}),
    ("0.5.23", {"attention_backend": "trtllm_mha", "kv_cache_dtype": "fp8_e4m3"}, {}, {"attention_trtllm_mha"}),
    ("0.5.9", {"attention_backend": "flashinfer"}, {}, {"attention_hybrid_blackwell"}),
    ("0.5.9", {"attention_backend": None}, {}, {"attention_hybrid_blackwell"}),
    ("0.5.12.post1", {"moe_runner_backend": "flashinfer_trtllm"}, {}, {"moe_backend_sm120"}),
    ("0.5.12.post1", {"moe_runner_backend": "deep_gemm"}, {}, {"moe_backend_sm120"}),
    ("0.5.12.post1", {"moe_runner_backend": "triton"}, {}, {"moe_triton_fp4"}),
    ("0.5.12.post1", {"moe_runner_backend": "auto"}, {}, {"moe_auto"}),
    ("0.5.9", {"moe_runner_backend": None}, {}, {"moe_auto"}),
    ("0.5.12.post1", {"quantization": "modelopt_mixed"}, {}, {"moe_cutlass_quantization"}),
    ("0.5.12.post1", {"fp4_gemm_runner_backend": "flashinfer_trtllm"}, {}, {"fp4_gemm_trtllm"}),
    ("0.5.12.post1", {"fp8_gemm_runner_backend": "deep_gemm"}, {}, {"fp8_gemm_sm120"}),
    ("0.5.12.post1", {"dtype": "half"}, {}, {"dtype_half_fp4"}),
    ("0.5.12.post1", {"ep_size": 8}, {}, {"expert_parallel_sm120"}),
    ("0.5.12.post1", {"moe_a2a_backend": "deepep"}, {}, {"expert_parallel_sm120"}),
    ("0.5.12.post1", {"speculative_moe_a2a_backend": "deepep"}, {}, {"expert_parallel_sm120"}),
    ("0.5.12.post1", {"elastic_ep_backend": "mooncake"}, {}, {"expert_parallel_sm120"}),
    ("0.5.12.post1", {"enable_eplb": True}, {}, {"expert_parallel_sm120"}),
    ("0.5.9", {"enable_nsa_prefill_context_parallel": True}, {}, {"expert_parallel_sm120"}),
    ("0.5.9", {"nsa_decode_backend": "trtllm"}, {}, {"sparse_attention_sm120"}),
    ("0.5.12.post1", {"nsa_prefill_backend": "flashmla_sparse"}, {}, {"sparse_attention_sm120"}),
    ("0.5.23", {"nsa_prefill_backend": "fa3"}, {}, {"sparse_attention_sm120"}),
    ("0.5.23", {"dsa_decode_backend": "triton"}, {}, {"sparse_attention_sm120"}),
    ("0.5.23", {"dsa_paged_mqa_logits_backend": "cutedsl"}, {}, {"sparse_indexer_sm120"}),
    ("0.5.21", {"dsv4_attn_backend": "trtllm"}, {}, {"dsv4_attention_sm120"}),
    ("0.5.9", {"mm_attention_backend": "fa3"}, {}, {"vision_attention_sm120"}),
    ("0.5.23", {**NEXTN, "speculative_draft_attention_backend": "fa3"}, {}, {"attention_backend_sm120"}),
    ("0.5.12.post1", {"prefill_attention_backend": "trtllm_mha"}, {}, {"attention_trtllm_mha"}),
    ("0.5.23", {**NEXTN, "speculative_draft_attention_backend": "tritn"}, {}, {"speculation_draft_attention"}),
    ("0.5.23", {**NEXTN, "speculative_moe_runner_backend": "flashinfer_trtllm"}, {}, {"moe_backend_sm120"}),
    # the default of each version, by the type of the KV cache
    ("0.5.9", {**OWN}, GLM, {"sparse_attention_default"}),
    ("0.5.9", {**OWN, "kv_cache_dtype": "fp8_e4m3"}, V32, {"sparse_attention_default"}),
    ("0.5.12.post1", {**OWN}, V32, {"sparse_attention_default"}),
    ("0.5.23", {**OWN}, GLM, {"sparse_attention_default"}),
    ("0.5.23", {**OWN, "kv_cache_dtype": "fp8_e4m3"}, V32, {"sparse_attention_default"}),
    ("0.5.23", {**OWN, "dsa_prefill_backend": "tilelang"}, GLM, {"sparse_attention_default"}),
    (
        "0.5.10.post1",
        {**OWN, "kv_cache_dtype": "fp8_e4m3", "nsa_prefill_backend": "tilelang", "nsa_decode_backend": "tilelang"},
        V32,
        {"sparse_attention_default"},
    ),
    ("0.5.16", {**OWN, **TILELANG, "kv_cache_dtype": "fp8_e4m3"}, GLM, {"kv_cache_dtype_glm5"}),
    ("0.5.23", {**OWN, **TILELANG, "kv_cache_dtype": "fp8_e5m2"}, V32, {"kv_cache_dtype_model"}),
    ("0.5.23", {**OWN}, V4, {"kv_cache_dtype_model"}),
    ("0.5.12.post1", {**OWN, "kv_cache_dtype": "bfloat16"}, V4, {"kv_cache_dtype_model"}),
    ("0.5.12.post1", {"enable_torch_symm_mem": True}, {}, {"torch_symm_mem_sm120"}),
    ("0.5.23", {"quantization": "nvfp4_online", "moe_runner_backend": "auto"}, {}, {"quantization_sm120"}),
    ("0.5.12.post1", {**NEXTN}, {}, {"speculation_needs_extra_buffer"}),
    ("0.5.10.post1", {**NEXTN}, {}, {"speculation_needs_extra_buffer", "speculation_needs_spec_v2"}),
    ("0.5.10.post1", {**NEXTN, "mamba_scheduler_strategy": "extra_buffer"}, {}, {"speculation_needs_spec_v2"}),
    (
        "0.5.12.post1",
        {**NEXTN, "mamba_scheduler_strategy": "extra_buffer"},
        {"env": {"SGLANG_ENABLE_SPEC_V2": "0"}},
        {"speculation_needs_spec_v2"},
    ),
    ("0.5.16", {"mamba_scheduler_strategy": "no_buffer"}, {}, {"no_buffer_overlap"}),
    ("0.5.12.post1", {"speculative_eagle_topk": 1}, {}, {"speculation_counts"}),
    (
        "0.5.23",
        {"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 1},
        {},
        {"speculation_counts"},
    ),
    (
        "0.5.9",
        {**NEXTN, "speculative_eagle_topk": 4, "mamba_scheduler_strategy": "extra_buffer"},
        {"env": V2},
        {"speculation_topk"},
    ),
    (
        "0.5.12.post1",
        {
            **NEXTN,
            "speculative_eagle_topk": 4,
            "page_size": 64,
            "mamba_scheduler_strategy": "extra_buffer",
        },
        {},
        {"speculation_topk"},
    ),
    ("0.5.23", {**NEXTN, "speculative_algorithm": "EAGLE3"}, {}, {"speculation_draft_model"}),
    ("0.5.12.post1", {"mamba_scheduler_strategy": "extra_buffer", "page_size": 48}, {}, {"mamba_extra_buffer"}),
    (
        "0.5.12.post1",
        {"mamba_scheduler_strategy": "extra_buffer", "disable_radix_cache": True},
        {},
        {"mamba_extra_buffer"},
    ),
    (
        "0.5.12.post1",
        {"mamba_scheduler_strategy": "extra_buffer", "page_size": 64, "mamba_track_interval": 100},
        {},
        {"mamba_extra_buffer"},
    ),
    ("0.5.12.post1", {"host": "0.0.0.0"}, {}, {"open_without_key"}),
    ("0.5.12.post1", {"host": "::"}, {}, {"open_without_key"}),
    ("0.5.12.post1", {"nnodes": 2}, {}, {"multi_node"}),
    ("0.5.12.post1", {}, {"env": {"NCCL_P2P_LEVEL": 4}}, {"nccl_p2p_level"}),
    ("0.5.12.post1", {}, {"env": {"NCCL_P2P_LEVEL": "NODE"}}, {"nccl_p2p_level"}),
    ("0.5.12.post1", {}, {"env": {"FLASHINFER_DISABLE_VERSION_CHECK": "1"}}, {"flashinfer_version_check"}),
    ("0.5.12.post1", {}, {"env": {"TORCH_CUDA_ARCH_LIST": "12.0"}}, {"plain_arch_list"}),
    ("0.5.12.post1", {}, {"env": {"FLASHINFER_CUDA_ARCH_LIST": "9.0a 12.0+PTX"}}, {"plain_arch_list"}),
    ("0.5.12.post1", {}, {"env": {"CMAKE_CUDA_ARCHITECTURES": "90a;120"}}, {"plain_arch_list"}),
    ("0.5.12.post1", {}, {"env": {"SGLANG_ENABLE_JIT_DEEPGEMM": "true"}}, {"deep_gemm_env"}),
    ("0.5.12.post1", {"context_length": 32768}, {"need": {"context": 65536}}, {"need_over_arguments"}),
    ("0.5.12.post1", {"max_running_requests": 8}, {"need": {"concurrent": 9}}, {"need_over_arguments"}),
    ("0.5.23", {"max_total_tokens": 1000}, {"need": {"context": 501, "concurrent": 2}}, {"need_over_arguments"}),
    ("0.5.12.post1", {"chunked_prefill_size": 1000, "page_size": 64}, {}, {"chunk_page"}),
    ("0.5.12.post1", {"served_model_name": "qwen:3.5"}, {}, {"served_name_colon"}),
    ("0.5.12.post1", {"mem_fraction_static": 85}, {}, {"mem_fraction"}),
    ("0.5.9", {"quantization": None}, {}, {"modelopt_unsaid"}),
]


@pytest.mark.parametrize(("version", "args", "keys", "expected"), REFUSED)
def test_what_is_known_to_be_wrong_is_refused(
    version: str, args: dict[str, t.Any], keys: dict[str, t.Any], expected: set[str]
) -> None:
    result = run(version, args, **keys)
    assert ids(result, "problems") == expected, result["problems"]
    for problem in result["problems"]:
        assert problem["fix"] and problem["expected"] and problem["where"].startswith("sglang_instances[0].")


ALLOWED: list[tuple[str, dict[str, t.Any], dict[str, t.Any]]] = [
    *((version, {}, {}) for version in options.table_versions()),
    ("0.5.12.post1", {"kv_cache_dtype": "fp8_e4m3"}, {}),
    ("0.5.12.post1", {"attention_backend": "flashinfer"}, {}),
    ("0.5.23", {"attention_backend": "trtllm_mha"}, {}),
    ("0.5.12.post1", {"quantization": "fp8", "moe_runner_backend": "triton"}, {}),
    ("0.5.23", {"quantization": "modelopt_mixed"}, {}),
    ("0.5.12.post1", {**NEXTN, "mamba_scheduler_strategy": "extra_buffer", "page_size": 64}, {}),
    ("0.5.12.post1", {**NEXTN, "disable_radix_cache": True}, {}),
    ("0.5.10.post1", {**NEXTN, "mamba_scheduler_strategy": "extra_buffer"}, {"env": V2}),
    ("0.5.23", {**NEXTN}, {}),
    ("0.5.23", {**NEXTN, "speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "/models/d"}, {}),
    ("0.5.16", {"mamba_scheduler_strategy": "no_buffer", "disable_overlap_schedule": True}, {}),
    ("0.5.12.post1", {"moe_a2a_backend": "none", "enable_eplb": False}, {}),
    ("0.5.12.post1", {**OWN, "nsa_prefill_backend": "tilelang", "nsa_decode_backend": "tilelang"}, GLM),
    ("0.5.23", {**OWN, **TILELANG}, V32),
    ("0.5.17", {**OWN, "kv_cache_dtype": "fp8_e4m3"}, GLM),
    ("0.5.17", {"attention_backend": "triton"}, {"model_path": "/models/GLM-4.5-NVFP4"}),
    ("0.5.23", {**OWN, "kv_cache_dtype": "bfloat16"}, V4),
    ("0.5.12.post1", {**OWN, "kv_cache_dtype": "fp8_e4m3"}, V4),
    ("0.5.23", {"dsv4_attn_backend": "flashmla", "mm_attention_backend": "triton_attn"}, {}),
    ("0.5.23", {**NEXTN, "speculative_draft_attention_backend": "flashinfer"}, {}),
    ("0.5.12.post1", {"host": "0.0.0.0"}, {"api_key": "not shown"}),
    ("0.5.12.post1", {"host": "::1"}, {}),
    ("0.5.12.post1", {"host": "localhost"}, {}),
    ("0.5.12.post1", {}, {"env": {"NCCL_P2P_LEVEL": "SYS", "TORCH_CUDA_ARCH_LIST": "12.0a;9.0a"}}),
    ("0.5.12.post1", {}, {"env": {"FLASHINFER_CUDA_ARCH_LIST": "12.0f", "FLASHINFER_DISABLE_VERSION_CHECK": "0"}}),
    (
        "0.5.12.post1",
        {"context_length": 32768, "max_running_requests": 4},
        {"need": {"context": 32768, "concurrent": 4}},
    ),
    ("0.5.12.post1", {"context_length": 32768}, {"need": {"concurrent": 64}}),
    ("0.5.12.post1", {"chunked_prefill_size": -1, "page_size": 64}, {}),
    (
        "0.5.12.post1",
        {"kv_cache_dtype": None, "quantization": None, "moe_runner_backend": None},
        {"model_path": "/m/a"},
    ),
]


@pytest.mark.parametrize(("version", "args", "keys"), ALLOWED)
def test_what_is_right_is_not_refused(version: str, args: dict[str, t.Any], keys: dict[str, t.Any]) -> None:
    assert run(version, args, **keys)["problems"] == []


@pytest.mark.parametrize(
    ("version", "args", "keys", "expected"),
    [
        (
            "0.5.12.post1",
            {"kv_cache_dtype": None, "quantization": "awq", "moe_runner_backend": None},
            {"model_path": "/m/a"},
            "kv_cache_dtype_unsaid",
        ),
        ("0.5.23", {"kv_cache_dtype": "nvfp4"}, {}, "kv_cache_dtype_experimental"),
        ("0.5.17", {**OWN, "kv_cache_dtype": "fp8_e4m3"}, GLM, "kv_cache_dtype_glm5_told"),
        ("0.5.12.post1", {"attention_backend": None}, {}, "attention_backend_unsaid"),
        ("0.5.23", {"moe_runner_backend": "auto"}, {}, "moe_auto_unsaid"),
        ("0.5.12.post1", {"moe_runner_backend": "flashinfer_cutedsl"}, {}, "moe_unproven"),
        ("0.5.9", {"fp4_gemm_runner_backend": None}, {}, "fp4_gemm_race"),
        ("0.5.12.post1", {"enable_flashinfer_allreduce_fusion": True}, {}, "allreduce_fusion_sm120"),
        ("0.5.16", {"enable_torch_symm_mem": True}, {}, "torch_symm_mem_unused"),
        ("0.5.9", {**NEXTN}, {"env": V2}, "speculation_drops_radix_cache"),
        ("0.5.23", {}, {"env": V2}, "spec_v2_removed"),
        ("0.5.23", {**NEXTN, "speculative_num_draft_tokens": 6}, {}, "speculation_draft_tokens"),
        ("0.5.23", {**NEXTN, "speculative_num_steps": 6, "speculative_num_draft_tokens": 7}, {}, "speculation_steps"),
        ("0.5.12.post1", {}, {"env": {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "PHB"}}, "nccl_p2p_both"),
        ("0.5.12.post1", {}, {"env": {"SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1"}}, "kernel_version_check"),
        ("0.5.9", {"enable_nan_detection": True}, {}, "nan_detection"),
        ("0.5.12.post1", {}, {"env": {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}}, "longer_context"),
    ],
)
def test_what_is_doubtful_is_told(version: str, args: dict[str, t.Any], keys: dict[str, t.Any], expected: str) -> None:
    result = run(version, args, **keys)
    assert result["problems"] == []
    assert expected in ids(result, "warnings")


def test_every_rule_is_exercised() -> None:
    fired: set[str] = set()
    for version, args, keys, _expected in REFUSED:
        fired |= ids(run(version, args, **keys), "problems")
    told = {
        mark.args[1][index][3]
        for mark in test_what_is_doubtful_is_told.pytestmark
        for index in range(len(mark.args[1]))
    }
    assert {rule.id for rule in lint.RULES} == (fired | told)


# Values that SM120 has no kernels for, wherever an option of a version offers them; and where they are right or told.
NO_KERNELS = {
    "fa3 fa4 flashmla flashmla_auto flashmla_kv flashmla_sparse trtllm trtllm_mla cutlass_mla",
    "deep_gemm flashinfer_trtllm flashinfer_trtllm_routed flashinfer_mxfp4 megamoe deepep deepep_v2 mooncake",
}
OTHERWISE = {
    ("dsv4_attn_backend", "flashmla"): "has SM120 kernels",
    ("dsv4_prefill_backend", "flashmla_sparse"): "is not used on SM120",
    ("flashinfer_allreduce_fusion_backend", "trtllm"): "has no effect: told",
}
STORAGE = re.compile(r"hicache|disaggregation|encoder|remote|mm_global|unified_cache")


@pytest.mark.parametrize("version", options.table_versions())
def test_no_option_of_any_version_lets_a_backend_without_kernels_through(version: str) -> None:
    words = set(" ".join(NO_KERNELS).split())
    seen = 0
    for field, option in options.options_for(version).items():
        for value in words & set(option.choices) if not STORAGE.match(field) else ():
            seen += 1
            problems = run(version, {**NEXTN, "mamba_scheduler_strategy": "extra_buffer", field: value}, env=V2)[
                "problems"
            ]
            refused = [each for each in problems if each["where"].startswith("sglang_instances[0].args.")]
            assert bool(refused) != ((field, value) in OTHERWISE), (field, value, problems)
    assert seen > 30


@pytest.mark.parametrize("version", options.table_versions())
def test_a_value_of_a_fork_is_named_as_such_in_every_option_that_could_take_it(version: str) -> None:
    fields = [
        name
        for name in options.options_for(version)
        if re.search(r"(attention|moe_runner|gemm\w*|[nd]sa_\w+)_backend$", name) and "topk" not in name
    ]
    assert {"decode_attention_backend", "speculative_moe_runner_backend"} <= set(fields)
    for field in fields:
        problems = run(version, {**NEXTN, field: "b12x"})["problems"]
        found = [each for each in problems if each["where"].endswith(f".{field}")]
        assert [each["id"] for each in found] == ["fork_only"], (field, problems)
        assert "community fork" in found[0]["what"]
        assert "exception fork_only" in found[0]["fix"]
    (grammar,) = run(version, {"grammar_backend": "b12x"})["problems"]
    assert grammar["id"] == "argument_choice"
    assert "fork" not in grammar["what"]


def test_what_a_fork_takes_does_not_count_as_not_given() -> None:
    lifted = [{"id": "fork_only", "reason": "built from the fork"}]
    keys = {"extra_args": ["--moe-runner-backend", "b12x", "--attention-backend=b12x"], "exceptions": lifted}
    bare = {"moe_runner_backend": None, "attention_backend": None}
    result = run("0.5.12.post1", bare, **keys)
    assert result["problems"] == []
    assert "attention_backend_unsaid" not in ids(result, "warnings")
    assert result["instances"][0]["argv"][-3:] == ["--moe-runner-backend", "b12x", "--attention-backend=b12x"]
    assert ids(run("0.5.12.post1", bare), "problems") == {"moe_auto"}


def test_the_advice_of_a_fork_for_sparse_attention_is_named_as_such() -> None:
    problems = run("0.5.12.post1", {**OWN, "nsa_decode_backend": "flashinfer"}, **GLM)["problems"]
    assert {"fork_only", "sparse_attention_default"} == {each["id"] for each in problems}


def test_a_fix_for_sparse_attention_is_one_that_the_version_takes() -> None:
    for version in options.table_versions():
        for keys in (GLM, V32):
            (problem,) = run(version, {**OWN}, **keys)["problems"]
            fix = problem["fix"].partition(",")[0].removeprefix("write ")
            field, value = fix.split(": ")
            assert value in options.options_for(version)[field].choices
            both = {field: value, field.replace("prefill", "decode"): value}
            assert run(version, {**OWN, **both}, **keys)["problems"] == []


def test_a_need_beyond_the_context_length_says_both_numbers_and_can_be_lifted() -> None:
    keys: dict[str, t.Any] = {"need": {"context": 65536, "concurrent": 2}}
    (problem,) = run("0.5.12.post1", {"context_length": 32768}, **keys)["problems"]
    assert problem["where"] == "sglang_instances[0].need.context"
    assert "65536" in problem["what"] and "context_length 32768" in problem["what"]
    assert "write args: {context_length: 65536}" in problem["fix"]
    keys["exceptions"] = [{"id": "need_over_arguments", "reason": "the proxy cuts requests"}]
    assert run("0.5.12.post1", {"context_length": 32768}, **keys)["problems"] == []


def test_what_to_write_for_deepseek_v4_is_what_it_takes() -> None:
    (problem,) = run("0.5.23", {**OWN, "kv_cache_dtype": "auto"}, **V4)["problems"]
    assert "write kv_cache_dtype: fp8_e4m3 or bfloat16" in problem["fix"]
    (problem,) = run("0.5.23", {**OWN, "kv_cache_dtype": "bf16"}, **V4)["problems"]
    assert "in this spelling" in problem["expected"]
    (problem,) = run("0.5.12.post1", {**OWN}, **V4)["problems"]
    assert problem["fix"].startswith("write kv_cache_dtype: fp8_e4m3,")


def test_the_refusal_of_auto_says_what_why_and_what_to_write() -> None:
    problem = run("0.5.12.post1", {"kv_cache_dtype": "auto"})["problems"][0]
    assert problem["where"] == "sglang_instances[0].args.kv_cache_dtype"
    assert "FP8 with scale 1.0" in problem["what"] and "kv_cache_quant_algo FP8" in problem["what"]
    assert "write kv_cache_dtype: bf16" in problem["fix"]
    assert "exception kv_cache_dtype_auto" in problem["fix"]


def test_exceptions_lift_a_rule_and_are_told() -> None:
    excepted = run(
        "0.5.12.post1",
        {"kv_cache_dtype": "auto"},
        exceptions=[{"id": "kv_cache_dtype_auto", "reason": "measured on our traffic"}],
    )
    assert excepted["problems"] == []
    told = [warning for warning in excepted["warnings"] if warning["id"] == "kv_cache_dtype_auto"]
    assert "measured on our traffic" in told[0]["what"]
    stack = {
        "requirements": {"sglang": {"version": "==0.5.12.post1"}},
        "exceptions": [{"id": "open_without_key", "reason": "a closed network"}],
    }
    by_stack = _instances.resolve(
        {"sglang_instances": [{"name": "x", "stack": "s", "model_path": QWEN, "args": {**GOOD, "host": "0.0.0.0"}}]},
        {"s": stack},
        {},
    )
    assert by_stack["problems"] == []


def test_what_cannot_work_cannot_be_excepted() -> None:
    result = run("0.5.12.post1", {"nnodes": 2}, exceptions=[{"id": "multi_node", "reason": "please"}])
    assert ids(result, "problems") == {"multi_node"}
    assert "exception" not in result["problems"][0]["fix"]


def test_rules_are_well_formed() -> None:
    rules = lint.RULES
    assert len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.severity in (lint_rule.REFUSE, lint_rule.WARN)
        assert rule.symptom and rule.source
        versions.in_range("0.5.9", rule.versions)


def test_a_moving_or_unknown_version_is_judged_like_the_newest() -> None:
    stack = {"engine_version": "main", "requirements": {"sglang": {}}}
    for chosen in (stack, {"requirements": {"sglang": {"version": ">=0.5"}}}):
        result = _instances.resolve(
            {"sglang_instances": [{"name": "x", "stack": "s", "model_path": QWEN, "args": {"kv_cache_dtype": "auto"}}]},
            {"s": chosen},
            {},
        )
        assert "kv_cache_dtype_auto" in ids(result, "problems")


def test_the_page_of_rules_is_up_to_date() -> None:
    root = pathlib.Path(__file__).resolve().parents[5]
    made = subprocess.run(
        [sys.executable, "-c", "import rules_page; print(rules_page.page(), end='')"],
        cwd=root / "tools",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (root / "docs" / "rules.md").read_text(encoding="utf-8") == made, "run tools/rules_page.py"

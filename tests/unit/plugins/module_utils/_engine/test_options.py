"""The option tables and the words made from them, held against argparse itself."""

from __future__ import annotations

import argparse
import json
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import option_table, options
from hypothesis import given, settings
from hypothesis import strategies as st

VERSIONS = ("0.5.9", "0.5.12.post1", "0.5.17", "0.5.23")


def parser_of(version: str) -> argparse.ArgumentParser:
    """What the table says, as a real argparse parser."""
    readers: dict[str, t.Callable[[str], t.Any]] = {"int": int, "float": float, "json": json.loads, "human_int": int}
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    for option in options.options_for(version).values():
        more: dict[str, t.Any] = {"dest": option.sets or option.field, "default": argparse.SUPPRESS}
        if option.kind == "flag":
            more["action"] = "store_true"
        elif option.kind == "toggle":
            more["action"] = argparse.BooleanOptionalAction
        else:
            more["type"] = readers.get(option.type, str)
            more["choices"] = list(option.choices) or None
            more["nargs"] = {"list": "+", "list0": "*", "optional": "?"}.get(option.kind)
            if option.kind == "optional":
                more["const"] = True
        parser.add_argument(*option.spellings, **more)
    return parser


PARSERS = {version: parser_of(version) for version in VERSIONS}


@pytest.mark.parametrize(
    ("version", "field", "value", "known"),
    [
        ("0.5.9", "kv_cache_dtype", "fp4_e2m1", True),
        ("0.5.23", "kv_cache_dtype", "fp4_e2m1", False),
        ("0.5.23", "kv_cache_dtype", "nvfp4", True),
        ("0.5.9", "quantization", "marlin", True),
        ("0.5.23", "quantization", "marlin", False),
        ("0.5.23", "quantization", "modelopt_mixed", True),
        ("0.5.9", "attention_backend", "cutlass_mla", True),
        ("0.5.23", "attention_backend", "cutlass_mla", False),
        ("0.5.9", "moe_runner_backend", "flashinfer_cutlass", True),
        ("0.5.9", "moe_runner_backend", "marlin", False),
        ("0.5.12.post1", "moe_runner_backend", "marlin", True),
        ("0.5.9", "fp4_gemm_runner_backend", "flashinfer_cudnn", True),
        ("0.5.9", "fp4_gemm_runner_backend", "marlin", False),
        ("0.5.23", "fp4_gemm_runner_backend", "marlin", True),
        ("0.5.9", "reasoning_parser", "auto", False),
        ("0.5.12.post1", "reasoning_parser", "auto", True),
        ("0.5.17", "mamba_radix_cache_strategy", "extra_buffer_lazy", True),
        ("0.5.12.post1", "mamba_scheduler_strategy", "extra_buffer_lazy", False),
        ("0.5.9", "tool_call_parser", "qwen3_coder", True),
        ("0.5.23", "tool_call_parser", "qwen3", False),
    ],
)
def test_choices_follow_the_version(version: str, field: str, value: str, known: bool) -> None:
    assert (value in options.options_for(version)[field].choices) is known


def test_speculative_algorithm_became_free_text() -> None:
    assert "NEXTN" in options.options_for("0.5.9")["speculative_algorithm"].choices
    assert options.options_for("0.5.23")["speculative_algorithm"].choices == ()


@pytest.mark.parametrize("version", option_table.table_versions())
def test_the_long_spelling_of_the_field_is_no_flag(version: str) -> None:
    assert options.field_for_spelling("--fp4-gemm-runner-backend", version) is None
    assert options.field_for_spelling("--fp4-gemm-backend", version) == "fp4_gemm_runner_backend"
    _args, troubles = options.parse_argv(["--fp4-gemm-runner-backend", "flashinfer_cudnn"], version)
    assert [trouble.id for trouble in troubles] == ["unknown_argument"]
    assert "fp4_gemm" in troubles[0].fix


@pytest.mark.parametrize("version", option_table.table_versions())
def test_no_two_options_of_a_version_share_a_spelling(version: str) -> None:
    spellings = [name for option in options.options_for(version).values() for name in option.spellings]
    assert len(spellings) == len(set(spellings))
    assert len(spellings) > 300


def test_the_captured_help_agrees(shared: t.Any) -> None:
    """Every flag and its choices, against the real ``--help`` of one version."""
    import importlib.util
    import sys

    folder = option_table.TABLE_FILE.resolve().parents[3] / "tools"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("engine_options", folder / "engine_options.py")
        assert spec is not None and spec.loader is not None
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
    finally:
        sys.path.remove(str(folder))
    text = (shared / "captures" / "launch_server_help_0.5.12.post1.txt").read_text(encoding="utf-8")
    table = json.loads(option_table.TABLE_FILE.read_text(encoding="utf-8"))
    assert len(tool.parse_help(text)) > 380
    assert tool.compare_help(tool.rows_of(table, "0.5.12.post1"), text) == []


@pytest.mark.parametrize(
    ("version", "args", "words"),
    [
        (
            "0.5.12.post1",
            {"tp_size": 8, "kv_cache_dtype": "bf16"},
            ["--kv-cache-dtype", "bf16", "--tensor-parallel-size", "8"],
        ),
        ("0.5.12.post1", {"tp_size": "8"}, ["--tensor-parallel-size", "8"]),
        ("0.5.12.post1", {"trust_remote_code": True, "enable_metrics": False}, ["--trust-remote-code"]),
        ("0.5.12.post1", {"lora_strict_loading": False}, ["--no-lora-strict-loading"]),
        ("0.5.12.post1", {"log_level": None}, []),
        ("0.5.12.post1", {"cuda_graph_bs": [1, 2, 4]}, ["--cuda-graph-bs", "1", "2", "4"]),
        ("0.5.12.post1", {"chunked_prefill_size": -1}, ["--chunked-prefill-size=-1"]),
        (
            "0.5.12.post1",
            {"json_model_override_args": {"b": 1, "a": [2]}},
            ["--json-model-override-args", '{"a":[2],"b":1}'],
        ),
        ("0.5.12.post1", {"context_length": "32k"}, ["--context-length", "32k"]),
        ("0.5.12.post1", {"model_checksum": True}, ["--model-checksum"]),
        ("0.5.12.post1", {"mem_fraction_static": 0.85}, ["--mem-fraction-static", "0.85"]),
        ("0.5.12.post1", {"fp4_gemm_backend": "flashinfer_cudnn"}, ["--fp4-gemm-backend", "flashinfer_cudnn"]),
        (
            "0.5.12.post1",
            {"mamba_radix_cache_strategy": "extra_buffer"},
            ["--mamba-scheduler-strategy", "extra_buffer"],
        ),
        ("0.5.23", {"mamba_scheduler_strategy": "extra_buffer"}, ["--mamba-radix-cache-strategy", "extra_buffer"]),
        ("0.5.16", {"mamba_scheduler_strategy": "extra_buffer"}, ["--mamba-radix-cache-strategy", "extra_buffer"]),
        ("0.5.23", {"cuda_graph_max_bs": 8}, ["--cuda-graph-max-bs-decode", "8"]),
        ("0.5.9", {"cuda_graph_max_bs_decode": 8}, ["--cuda-graph-max-bs", "8"]),
        ("0.5.23", {"nsa_decode_backend": "trtllm"}, ["--dsa-decode-backend", "trtllm"]),
    ],
)
def test_arguments_become_words(version: str, args: dict[str, t.Any], words: list[str]) -> None:
    found, troubles = options.to_argv(args, version)
    assert found == words
    assert [trouble for trouble in troubles if not trouble.warning] == []


@pytest.mark.parametrize(
    ("args", "trouble_id", "said"),
    [
        ({"kv_cache_dtypo": "bf16"}, "unknown_argument", "kv_cache_dtype"),
        ({"--tp-size": 8}, "unknown_argument", "write tp_size"),
        ({"cp_strategy": "x"}, "unknown_argument", "0.5.15.post1"),
        ({"kv_cache_dtype": "bf-16"}, "argument_choice", "fp8_e4m3"),
        ({"tool_call_parser": "qwen3"}, "argument_choice", "qwen3_coder"),
        ({"moe_runner_backend": "b12x"}, "fork_only", "fork"),
        ({"enable_pcie_oneshot_allreduce": True}, "fork_only", "fork"),
        ({"tp_size": "eight"}, "argument_type", "whole number"),
        ({"tp_size": 8.5}, "argument_type", "whole number"),
        ({"tp_size": True}, "argument_type", "whole number"),
        ({"tp_size": [8]}, "argument_type", "whole number"),
        ({"trust_remote_code": "yes"}, "argument_type", "true or false"),
        ({"cuda_graph_bs": []}, "argument_type", "at least one"),
        ({"mem_fraction_static": "nan"}, "argument_type", "number"),
        ({"served_model_name": "a\nb"}, "argument_type", "one line"),
        ({"tp_size": 8, "tensor_parallel_size": 4}, "argument_twice", "tp_size"),
        ({"bucket_inter_token_latency": [-1e-30]}, "argument_type", "another option"),
        ({"limit_mm_data_per_request": "{broken"}, "argument_type", "JSON"),
    ],
)
def test_wrong_arguments_are_named(args: dict[str, t.Any], trouble_id: str, said: str) -> None:
    _args, troubles = options.to_argv(args, "0.5.12.post1")
    assert [trouble.id for trouble in troubles] == [trouble_id]
    assert said in " ".join([troubles[0].what, troubles[0].expected, troubles[0].fix])
    assert not troubles[0].warning


def test_an_unread_version_warns_and_is_judged_by_its_stand_in() -> None:
    assert options.nearest_table("0.5.20") == ("0.5.19", False)
    assert options.nearest_table("main") == ("0.5.23", False)
    assert options.nearest_table(None) == ("0.5.23", False)
    assert options.nearest_table("0.4.1") == ("0.5.9", False)
    assert options.nearest_table("0.5.12.post1+g123") == ("0.5.12.post1", True)
    words, troubles = options.to_argv({"tp_size": 8, "nothing_like_it": 1}, "0.5.20")
    assert words[-1] == "8"
    assert [trouble.warning for trouble in troubles] == [True]


@pytest.mark.parametrize(
    ("words", "args"),
    [
        (["--speculative-algo", "NEXTN"], {"speculative_algorithm": "NEXTN"}),
        (["--tp", "8"], {"tp_size": 8}),
        (["--tp-size=4", "--tp-size=8"], {"tp_size": 8}),
        (["--chunked-prefill-size", "-1"], {"chunked_prefill_size": -1}),
        (["--cuda-graph-bs", "1", "2", "--enable-metrics"], {"cuda_graph_bs": [1, 2], "enable_metrics": True}),
        (["--no-lora-strict-loading"], {"lora_strict_loading": False}),
    ],
)
def test_words_are_read_like_argparse(words: list[str], args: dict[str, t.Any]) -> None:
    found, troubles = options.parse_argv(words, "0.5.12.post1")
    assert troubles == []
    assert found == args


@pytest.mark.parametrize(
    ("words", "trouble_id"),
    [
        (["--enable-metrics", "yes"], "argument_type"),
        (["--tp-size"], "argument_type"),
        (["stray"], "unknown_argument"),
        (["--speculative-num", "3"], "ambiguous_argument"),
        (["--nope"], "unknown_argument"),
        ([8], "argument_type"),
        (["--kv-cache-dtype", "bf-16"], "argument_choice"),
        (["--cuda-graph-bs"], "argument_type"),
    ],
)
def test_wrong_words_are_named(words: list[t.Any], trouble_id: str) -> None:
    _args, troubles = options.parse_argv(words, "0.5.12.post1")
    assert [trouble.id for trouble in troubles] == [trouble_id]


def test_the_old_flag_is_an_ambiguous_beginning_in_new_versions() -> None:
    _args, troubles = options.parse_argv(["--cuda-graph-max-bs", "8"], "0.5.23")
    assert [trouble.id for trouble in troubles] == ["ambiguous_argument"]
    with pytest.raises(argparse.ArgumentError, match="ambiguous"):
        PARSERS["0.5.23"].parse_args(["--cuda-graph-max-bs", "8"])


def values(option: options.Option) -> st.SearchStrategy[t.Any]:
    """Good values of an option."""
    if option.kind in ("flag", "toggle"):
        return st.booleans()
    base: st.SearchStrategy[t.Any] = {
        "int": st.integers(-5, 10**6),
        "human_int": st.integers(0, 10**6),
        "float": st.floats(0, 10, allow_nan=False),
        "json": st.dictionaries(st.text("abc", min_size=1, max_size=2), st.integers(0, 9), max_size=2),
    }.get(option.type, st.text("abz019_./", min_size=1, max_size=8))
    if option.choices:
        base = st.sampled_from(list(option.choices))
    return st.lists(base, min_size=1, max_size=3) if option.kind in ("list", "list0") else base


@settings(max_examples=60, deadline=None)
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_argparse_reads_our_words_as_we_meant_them(data: st.DataObject, version: str) -> None:
    usable = [option for option in options.options_for(version).values() if not option.deprecated and not option.sets]
    chosen = data.draw(st.lists(st.sampled_from(usable), unique_by=lambda option: option.field, max_size=6))
    args = {option.field: data.draw(values(option)) for option in chosen}
    words, troubles = options.to_argv(args, version)
    assert troubles == []
    expected = {
        field: value
        for field, value in args.items()
        if not (value is False and options.options_for(version)[field].kind == "flag")
    }
    assert vars(PARSERS[version].parse_args(words)) == expected
    assert options.parse_argv(words, version) == (expected, [])


@settings(max_examples=150, deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    words=st.lists(
        st.one_of(
            st.sampled_from(["--tp", "--tp-size", "--enable-metrics", "--cuda-graph-bs", "--log", "--log-level", "1"]),
            st.sampled_from(["--no-lora-strict-loading", "--model-checksum", "--speculative-num", "-1", "0.5", "auto"]),
            st.sampled_from(["--tp-size=3", "--kv-cache-dtype", "bf16", "--lora-paths", "a=b", "--chunked", "--cu"]),
        ),
        max_size=5,
    ),
)
def test_words_are_accepted_exactly_when_argparse_accepts_them(version: str, words: list[str]) -> None:
    try:
        wanted: dict[str, t.Any] | None = vars(PARSERS[version].parse_args(words))
    except (argparse.ArgumentError, SystemExit):
        wanted = None
    found, troubles = options.parse_argv(words, version)
    assert (not troubles) == (wanted is not None), [trouble.what for trouble in troubles]
    if wanted is not None:
        assert found == wanted

"""The stand-in engine's command line: what it takes, what it refuses and in which words."""

from __future__ import annotations

import subprocess
import sys

import pytest
from lab_engine_kit import LAB, Start
from sglang.srt.server_args import ServerArgs, make_parser, prepare_server_args

PATH = ["--model-path", "/m"]


def test_aliases_and_abbreviations_reach_the_field() -> None:
    assert prepare_server_args([*PATH, "--tp", "8"]).tp_size == 8
    assert prepare_server_args([*PATH, "--tensor-parallel-size", "4"]).tp_size == 4
    assert prepare_server_args(["--model", "/m", "--fp4-gemm-backend", "flashinfer_cudnn"]).fp4_gemm_runner_backend == (
        "flashinfer_cudnn"
    )
    assert prepare_server_args([*PATH, "--speculative-algo", "NEXTN"]).speculative_algorithm == "NEXTN"
    assert prepare_server_args([*PATH, "--kv-cache-dtype=bf16", "--kv-cache-dtype", "fp8_e4m3"]).kv_cache_dtype == (
        "fp8_e4m3"
    )


@pytest.mark.parametrize(("text", "value"), [("4096", 4096), ("1k", 1000), ("25.6k", 25600), ("1Mi", 1048576)])
def test_human_readable_numbers(text: str, value: int) -> None:
    assert prepare_server_args([*PATH, "--context-length", text]).context_length == value


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--moe-runner-backend", "nope"], "argument --moe-runner-backend: invalid choice: 'nope' (choose from "),
        (["--fp4-gemm-runner-backend", "auto"], "unrecognized arguments: --fp4-gemm-runner-backend auto"),
        (["--kv-cache-dtype"], "argument --kv-cache-dtype: expected one argument"),
        (["--port", "http"], "argument --port: invalid int value: 'http'"),
        (["--disable-cuda"], "ambiguous option: --disable-cuda could match"),
        (["--context-length", "1.5Ki"], "argument --context-length: "),
    ],
)
def test_mistakes_end_with_status_2(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        prepare_server_args([*PATH, *flags])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: sglang serve [-h] --model-path MODEL_PATH")
    assert f"sglang serve: error: {message}" in said


def test_model_path_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prepare_server_args([])
    assert "the following arguments are required: --model-path/--model" in capsys.readouterr().err


def test_defaults_of_parser_and_fields_agree() -> None:
    parsed = prepare_server_args(PATH).as_dict()
    assert parsed == {**ServerArgs().as_dict(), "model_path": "/m"}
    assert len(parsed) == 381


def test_every_option_can_be_looked_at_without_a_gpu() -> None:
    actions = {flag: action for action in make_parser()._actions for flag in action.option_strings}
    assert actions["--kv-cache-dtype"].choices == ["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"]
    assert actions["--tp-size"].dest == "tensor_parallel_size"
    assert actions["--enable-metrics"].nargs == 0
    code = (
        "import argparse, sys\n"
        "from sglang.srt.server_args import ServerArgs\n"
        "parser = argparse.ArgumentParser(); ServerArgs.add_cli_args(parser)\n"
        "assert 'torch' not in sys.modules\n"
        "print(len(parser._actions))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(LAB / "engine")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == 386


def test_a_refused_flag_ends_the_process(start: Start) -> None:
    engine = start("/m", "--kv-cache-dtype", "bf17")
    assert engine.end() == 2
    assert "sglang serve: error: argument --kv-cache-dtype: invalid choice: 'bf17'" in engine.text()
    assert "server_args=" not in engine.text()

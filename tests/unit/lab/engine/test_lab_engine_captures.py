"""The stand-in engine against the captures of a real one; skipped where ../shared is absent."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_engine_kit import CAPTURE_FLAGS, H200, Engine, Start

USED_BY_A_FORGOTTEN_SERVER = 73421  # MiB, so that 66.58 GiB are free when loading begins, as captured

# Lines that depend on the captured machine and not on the engine: libraries' warnings, odd tokenizers, tuning files of
# Triton, requests of whoever watched.
NOT_OURS = re.compile(
    r"Tokenizer|tokenizer|Using default MoE kernel config|Using MoE kernel config|Fail to set RLIMIT_NOFILE|GET /"
    r"|FlashInfer|Auto-enabling|Custom allreduce|Guessing device|is deprecated|Prefill batch|Decode batch|POST /"
    r"|crashed with exit code|Registering"
)


def captured_lines(folder: Path) -> list[str]:
    """Stamped lines of a captured log without their time; the rank stays."""
    text = (folder / "server.log").read_text(encoding="utf-8")
    return [match.group(1) for match in re.finditer(r"^\[2026-\S+ \S+?((?: TP\d)?\] .*)$", text, re.MULTILINE)]


def template(line: str) -> str:
    """A line with its figures, paths and lists blanked."""
    line = re.sub(r"server_args=ServerArgs\(.*", "server_args=ServerArgs(", line)
    line = re.sub(r"(?<![\w])/[\w./-]+", "/PATH", line)
    return re.sub(r"(?<!TP)\d+(?:\.\d+)?", "N", line)


def wording(lines: list[str], rank: str) -> list[str]:
    """Templates of one rank's lines (or, for the empty rank, of the unmarked ones) that the engine answers for."""
    mark = f" {rank}] " if rank else "] "
    return [template(line) for line in lines if line.startswith(mark) and not NOT_OURS.search(line)]


def our_lines(engine: Engine) -> list[str]:
    return [
        match.group(1)
        for match in re.finditer(r"^\[20\S+ \S+?((?: TP\d)?\] .*)$", engine.text().replace("\r", "\n"), re.M)
    ]


def shape(value: Any) -> Any:
    """Types and keys of a JSON value in order; lists by their first element, numbers alike."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def captured_json(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


CASES: dict[str, Callable[[Start, Path], Engine]] = {
    "kv_bf16_override": lambda start, models: start(
        models / "fp8kv", *CAPTURE_FLAGS, "--kv-cache-dtype", "bf16", "--enable-metrics", "--disable-cuda-graph",
        cards=H200, weight_gib=1.70,
    ),
    "kv_auto_fp8_checkpoint": lambda start, models: start(
        models / "fp8kv", *CAPTURE_FLAGS, cards=H200, weight_gib=1.70
    ),
    "kv_fp8_e4m3_explicit_api_key": lambda start, models: start(
        models / "nokv", *CAPTURE_FLAGS, "--kv-cache-dtype", "fp8_e4m3", "--disable-cuda-graph", "--api-key", "k",
        cards=H200, weight_gib=1.70,
    ),
    "nan_weights": lambda start, models: start(
        models / "bf16", *CAPTURE_FLAGS, "--disable-cuda-graph", cards=H200, weight_gib=2.08, fault="nan"
    ),
    "tp2_bf16_beside_a_forgotten_server": lambda start, models: start(
        models / "fp8kv", *CAPTURE_FLAGS, "--tp-size", "2", "--kv-cache-dtype", "bf16", "--disable-cuda-graph",
        cards={**H200, "used_mib": dict.fromkeys("01", USED_BY_A_FORGOTTEN_SERVER)},
        weight_gib=0.91,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_log_and_endpoints(name: str, shared: Path, models: Path, start: Start) -> None:
    folder = shared / "captures" / name
    engine = CASES[name](start, models).wait()
    ours, theirs = our_lines(engine), captured_lines(folder)
    for rank in ("", "TP0", "TP1"):
        said, place = wording(ours, rank), 0
        for line in wording(theirs, rank):
            if "SIGTERM" in line or "SIGQUIT" in line:
                continue
            assert line in said[place:], f"rank {rank!r} never says (or says too early): {line}"
            place = said.index(line, place) + 1
    sizes = re.search(r"#tokens: (\d+), K size: ([\d.]+) GB", "\n".join(theirs))
    assert sizes
    mine = re.search(r"#tokens: (\d+), K size: ([\d.]+) GB", "\n".join(ours))
    assert mine
    assert int(mine[1]) == pytest.approx(int(sizes[1]), rel=0.002)
    assert float(mine[2]) == pytest.approx(float(sizes[2]), abs=0.03)
    for pattern in (r"max_mamba_cache_size: (\d+)", r"max_running_requests=(\d+)", r"ssm_state size: ([\d.]+)GB"):
        assert re.findall(pattern, "\n".join(ours)) == re.findall(pattern, "\n".join(theirs)), pattern


@pytest.mark.parametrize("name", ["kv_bf16_override", "kv_auto_fp8_checkpoint", "tp2_bf16_beside_a_forgotten_server"])
def test_server_info(name: str, shared: Path, models: Path, start: Start) -> None:
    engine = CASES[name](start, models).wait()
    theirs = captured_json(shared / "captures" / name, "server_info.200")
    ours = engine.json("/server_info")
    assert list(ours) == list(theirs)
    assert list(ours["internal_states"][0]) == list(theirs["internal_states"][0])
    # What differs by nature, or because the captured machine had another GPU generation.
    free = {"model_path", "tokenizer_path", "port", "random_seed", "internal_states", "max_total_num_tokens"}
    free |= {"enable_flashinfer_allreduce_fusion", "memory_usage"}
    for mine, real in ((ours, theirs), (ours["internal_states"][0], theirs["internal_states"][0])):
        assert {k: v for k, v in mine.items() if k not in free} == {k: v for k, v in real.items() if k not in free}
    assert ours["max_total_num_tokens"] == pytest.approx(theirs["max_total_num_tokens"], rel=0.002)
    for key, value in theirs["internal_states"][0]["memory_usage"].items():
        assert ours["internal_states"][0]["memory_usage"][key] == pytest.approx(value, rel=0.002, abs=0.01)


def test_answers_have_the_captured_shape(shared: Path, models: Path, start: Start) -> None:
    folder = shared / "captures" / "kv_bf16_override"
    engine = CASES["kv_bf16_override"](start, models).wait()
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Tell me about rivers."}], "max_tokens": 4}
    said = {
        "text": "Tell me about",
        "sampling_params": {"max_new_tokens": 16, "temperature": 0},
        "return_logprob": True,
    }
    for name, answer in (
        ("model_info.200", engine.json("/model_info")),
        ("v1_models.200", engine.json("/v1/models")),
        ("chat.200", engine.json("/v1/chat/completions", chat)),
        ("generate.200", engine.json("/generate", said)),
    ):
        theirs = captured_json(folder, name)
        assert shape(answer) == shape(theirs), name
        assert json.dumps(shape(answer)) == json.dumps(shape(theirs)), f"{name}: keys are in another order"


def test_nan_shows_as_captured(shared: Path, models: Path, start: Start) -> None:
    folder = shared / "captures" / "nan_weights"
    engine = CASES["nan_weights"](start, models).wait()
    asked = {"text": "The capital of France is", "return_logprob": True}
    ours = engine.json("/generate", {**asked, "sampling_params": {"max_new_tokens": 16, "temperature": 0}})
    theirs = captured_json(folder, "generate.200")
    assert ours["text"] == theirs["text"]
    assert ours["output_ids"] == theirs["output_ids"]
    assert ours["meta_info"]["output_token_logprobs"] == theirs["meta_info"]["output_token_logprobs"]
    assert ours["meta_info"]["prompt_tokens"] == theirs["meta_info"]["prompt_tokens"]
    assert json.dumps(shape(ours)) == json.dumps(shape(theirs))
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 32}
    mine, real = engine.json("/v1/chat/completions", body), captured_json(folder, "chat.200")
    assert mine["choices"] == real["choices"]


def test_unauthorized_bodies(shared: Path, models: Path, start: Start) -> None:
    folder = shared / "captures" / "kv_fp8_e4m3_explicit_api_key"
    engine = CASES[folder.name](start, models).wait()
    engine.api_key = None
    checked = 0
    for path in folder.glob("*.json"):
        endpoint, status, _rest = path.name.split(".")
        url = {"chat": "/v1/chat/completions", "v1_models": "/v1/models"}.get(endpoint, f"/{endpoint}")
        body = {} if endpoint in ("chat", "generate") else None
        assert engine.ask(url, body) == (int(status), path.read_text(encoding="utf-8").strip())
        checked += 1
    assert checked >= 6


def test_metrics_are_a_part_of_the_captured_ones(shared: Path, models: Path, start: Start) -> None:
    engine = CASES["kv_bf16_override"](start, models).wait()
    theirs = (shared / "captures" / "kv_bf16_override" / "metrics.200.txt").read_text(encoding="utf-8")
    ours = engine.ask("/metrics")[1]
    real = {line.split()[2]: line for line in theirs.splitlines() if line.startswith("# TYPE")}
    real_help = {line.split()[2]: line for line in theirs.splitlines() if line.startswith("# HELP")}
    labels = {
        match[1]: set(re.findall(r'(\w+)="', match[2])) for match in re.finditer(r"^(\S+?)\{(.*?)\} ", theirs, re.M)
    }
    seen = 0
    for line in ours.splitlines():
        if line.startswith("# TYPE"):
            assert line == real[line.split()[2]]
        elif line.startswith("# HELP"):
            assert line == real_help[line.split()[2]]
        else:
            match = re.match(r"^(\S+?)\{(.*?)\} ", line)
            assert match, line
            assert set(re.findall(r'(\w+)="', match[2])) == labels[match[1]], line
            seen += 1
    assert seen > 20


def test_help_and_argument_errors(shared: Path, start: Start) -> None:
    captures = shared / "captures"
    theirs = (captures / "launch_server_help_0.5.12.post1.txt").read_text(encoding="utf-8")
    usage = theirs[theirs.index("usage: ") : theirs.index("\n\noptions:")]
    engine = start("/m", "--help")
    assert engine.end() == 0
    ours = engine.text()
    assert " ".join(ours[ours.index("usage: ") : ours.index("\n\noptions:")].split()) == " ".join(usage.split())
    for name, flags in (
        ("fail_invalid_choice", ("--moe-runner-backend", "nope")),
        ("fail_unrecognized_argument", ("--fp4-gemm-runner-backend", "flashinfer_cudnn")),
    ):
        engine = start("/m", *flags)
        assert engine.end() == 2
        last = (captures / name / "server.log").read_text(encoding="utf-8").splitlines()[-1]
        assert engine.text().splitlines()[-1].replace("'", "") == last.replace("'", "")


def test_fields_of_server_args(shared: Path, models: Path, start: Start) -> None:
    log = (shared / "captures" / "kv_bf16_override" / "server.log").read_text(encoding="utf-8")
    engine = CASES["kv_bf16_override"](start, models).wait()

    def fields(text: str) -> dict[str, Any]:
        found = re.search(r"server_args=ServerArgs\((.*)\)\n", text)
        assert found
        call = ast.parse(f"f({found[1]})", mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}

    ours, theirs = fields(engine.text()), fields(log)
    assert list(ours) == list(theirs)
    different = {name for name, value in theirs.items() if ours[name] != value}
    assert different == {"model_path", "tokenizer_path", "port", "random_seed"}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("fail_not_enough_memory", (("--mem-fraction-static", "0.005"), {"weight_gib": 2.08}, -9)),
        ("fail_nextn_without_extra_buffer", (("--speculative-algorithm", "NEXTN"), {}, 1)),
        ("fail_broken_hf_quant_config", ((), {}, 1)),
        ("fail_nvfp4_on_sm90", (("--quantization", "modelopt_fp4"), {}, -9)),
    ],
)
def test_failures_end_in_the_captured_words(
    name: str, how: tuple[tuple[str, ...], dict[str, Any], int], shared: Path, models: Path, start: Start
) -> None:
    flags, settings, status = how
    model = models / "bf16"
    if name == "fail_broken_hf_quant_config":
        model = models / "badquant"
        model.mkdir()
        (model / "config.json").write_bytes((models / "bf16" / "config.json").read_bytes())
        (model / "hf_quant_config.json").write_text(
            '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", '
        )
    engine = start(model, *CAPTURE_FLAGS, *flags, cards=H200, **settings)
    assert engine.end() == status
    log = (shared / "captures" / name / "server.log").read_text(encoding="utf-8")
    ends = [line for line in log.splitlines() if re.match(r"^[\w.]*(Error|Exception): ", line)]
    assert len(ends) == 1
    assert ends[0] in engine.text()
    last = re.sub(r"^\[.*?\] ", "", log.splitlines()[-1])
    assert re.sub(r"^\[.*?\] ", "", engine.text().rstrip().splitlines()[-1]) == last


def test_beaten_to_the_port(shared: Path, models: Path, start: Start) -> None:
    log = (shared / "captures" / "tp2_auto_beaten_to_the_port" / "server.log").read_text(encoding="utf-8")
    engine = start(models / "fp8kv", *CAPTURE_FLAGS, "--tp-size", "2", cards=H200, weight_gib=0.91, fault="port_in_use")
    assert engine.end() == 1
    tail = [template(line) for line in captured_lines(shared / "captures" / "tp2_auto_beaten_to_the_port")[-7:]]
    ours = [template(line) for line in our_lines(engine)[-7:]]
    assert [re.sub(r", N\)", ", PORT)", line) for line in ours] == [re.sub(r", N\)", ", PORT)", line) for line in tail]
    assert "5024705" in log

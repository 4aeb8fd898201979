"""The catalogue of failures: each row against its own line, and whole logs of real failures."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _diagnose, _gate_ready, _gate_settings
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.phases import phase
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signatures import CATALOGUE


def test_the_catalogue_is_as_large_as_promised_and_says_everything() -> None:
    assert len({row.id for row in CATALOGUE}) == len(CATALOGUE) >= 60
    for row in CATALOGUE:
        assert all((row.what, row.why, row.fix, row.source, row.example)), row.id
        assert row.level in ("fatal", "generic", "degraded"), row.id


@pytest.mark.parametrize("row", CATALOGUE, ids=[row.id for row in CATALOGUE])
def test_each_signature_is_found_in_its_line_and_not_hidden_by_another(row: Signature) -> None:
    found = _diagnose.diagnose(["[2026-11-29 18:00:00] Load weight begin. avail mem=93.47 GB", row.example])
    named = [found["id"], *(entry["id"] for entry in found["also"])]
    assert row.id in named
    if row.level == "fatal":
        assert found["id"] == row.id
    assert "{" not in found["what"] + found["fix"] or "need: {" in found["fix"]


# What a captured failure must be called; the captures lie beside a developer's checkout.
CAPTURED = {
    "fail_broken_hf_quant_config": "json_of_checkpoint",
    "fail_invalid_choice": "invalid_choice",
    "fail_nextn_without_extra_buffer": "speculation_without_extra_buffer",
    "fail_not_enough_memory": "not_enough_memory",
    "fail_nvfp4_on_sm90": "capability_too_low",
    "fail_port_in_use": "port_in_use",
    "fail_unrecognized_argument": "unknown_argument",
    "tp2_auto_beaten_to_the_port": "port_in_use",
    # These ended because they were told to; their log holds the words of processes that were shut down.
    "kv_bf16_override": "nothing",
    "nan_weights": "nothing",
    "kv_auto_fp8_checkpoint_0.5.16": "nothing",
}


@pytest.mark.parametrize(("capture", "diagnosis"), CAPTURED.items(), ids=list(CAPTURED))
def test_captured_logs(capture: str, diagnosis: str, shared: pathlib.Path) -> None:
    lines = (shared / "captures" / capture / "server.log").read_text(encoding="utf-8").splitlines()
    found = _diagnose.diagnose(lines)
    assert found["id"] == diagnosis, found["what"]


CUDA_FORMS = {
    "launch_failure": [
        "RuntimeError: CUDA error: unspecified launch failure",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "RuntimeError: Triton Error [CUDA]: unspecified launch failure",
        "gpu1:71:90 [1] misc/strongstream.cc:395 NCCL WARN Cuda failure 719 'unspecified launch failure'",
        "RuntimeError: cutlass kernel failed: cudaErrorLaunchFailure",
        "cuda.bindings.driver.CUDAError: CUDA_ERROR_LAUNCH_FAILED",
    ],
    "illegal_memory_access": [
        "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",
        "gpu1:71:90 [1] enqueue.cc:1540 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
        "RuntimeError: CUDA driver error: CUDA_ERROR_ILLEGAL_ADDRESS",
    ],
    "misaligned_address": [
        "RuntimeError: Triton Error [CUDA]: misaligned address",
        "gpu1:71:90 [1] enqueue.cc:1540 NCCL WARN Cuda failure 716 'misaligned address'",
    ],
    "ecc_uncorrectable": ["RuntimeError: CUDA error: uncorrectable ECC error encountered"],
}


@pytest.mark.parametrize(("diagnosis", "line"), [(name, line) for name, lines in CUDA_FORMS.items() for line in lines])
def test_an_error_of_cuda_is_known_in_the_words_of_every_layer(diagnosis: str, line: str) -> None:
    lines = [
        "[2026-11-29 18:00:00] The server is fired up and ready to roll!",
        "[2026-11-29 18:10:00 TP0] Decode batch, #running-req: 2, cuda graph: True",
        "[2026-11-29 18:10:02 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "scheduler.py", line 2152, in process_batch_result',
        line,
        "[2026-11-29 18:10:02] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        "sglang-launch: the engine ended by itself with -9",
    ]
    found = _diagnose.diagnose(lines, {"active": "failed", "result": "signal", "exit_status": 9})
    assert (found["id"], found["rank"]) == (diagnosis, ""), found["what"]
    assert found["line"] == line


def test_an_unknown_failure_is_the_first_exception_of_the_first_process() -> None:
    lines = [
        "[2026-11-29 17:46:25] Ignore import error when loading sglang.x: Traceback (most recent call last):",
        "[2026-11-29 17:46:26 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "scheduler.py", line 4025, in run_scheduler_process',
        "    scheduler = Scheduler(",
        '  File "model.py", line 56, in forward',
        "    raise FlywheelError(text)",
        "vendor.FlywheelError: the flywheel is off",
        "",
        "[2026-11-29 17:46:27 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "other.py", line 1, in other',
        "ConnectionError: the peer is gone",
        "[2026-11-29 17:46:28] Received sigquit from a child process. It usually means the child failed.",
    ]
    found = _diagnose.diagnose(lines)
    assert (found["id"], found["what"], found["rank"]) == (
        "unknown",
        "vendor.FlywheelError: the flywheel is off",
        "TP1",
    )
    assert found["exception"]["where"] == 'File "model.py", line 56, in forward'


def test_the_exception_that_came_first_wins_over_what_followed() -> None:
    lines = [
        "[2026-11-29 17:59:58] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "pool.py", line 56, in __post_init__',
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): in use",
        "[2026-11-29 17:59:59] Received sigquit from a child process. It usually means the child failed.",
    ]
    found = _diagnose.diagnose(lines)
    assert found["id"] == "not_enough_memory"
    assert "port_in_use" in [entry["id"] for entry in found["also"]]


def test_the_state_of_the_unit_speaks_where_the_log_is_silent() -> None:
    state = {"active": "failed", "sub": "failed", "result": "exit-code", "exit_status": 243}
    assert _diagnose.diagnose([], state)["id"] == "unit_credentials"
    assert _diagnose.diagnose([], {**state, "exit_status": 1})["id"] == "nothing"


# What systemd 252 wrote of starts that failed before any process of the unit ran, and the exit status, by diagnosis.
SYSTEMD = {
    "unit_exec": (
        203,
        "Failed to locate executable /usr/bin/python3: No such file or directory",
        "Failed at step EXEC spawning /usr/bin/python3: No such file or directory",
        "Main process exited, code=exited, status=203/EXEC",
    ),
    "unit_user": (
        217,
        "Failed to determine user credentials: No such process",
        "Failed at step USER spawning /usr/bin/python3: No such process",
        "Main process exited, code=exited, status=217/USER",
    ),
    "unit_namespace": (
        226,
        "Failed to set up mount namespacing: /run/systemd/unit-root/srv/x: No such file or directory",
        "Failed at step NAMESPACE spawning /usr/bin/python3: No such file or directory",
        "Main process exited, code=exited, status=226/NAMESPACE",
    ),
    "unit_credentials": (
        243,
        "Failed to set up credentials: Protocol error",
        "Failed at step CREDENTIALS spawning /usr/bin/python3: Protocol error",
        "Main process exited, code=exited, status=243/CREDENTIALS",
    ),
    "unit_directories": (
        239,
        "Failed to set up special execution directory in /var/cache: Not a directory",
        "Failed at step CACHE_DIRECTORY spawning /usr/bin/python3: Not a directory",
        "Main process exited, code=exited, status=239/CACHE_DIRECTORY",
    ),
    "unit_setup": (
        228,
        "Failed to apply system call filters: Operation not permitted",
        "Failed at step SECCOMP spawning /usr/bin/python3: Operation not permitted",
        "Main process exited, code=exited, status=228/SECCOMP",
    ),
}


@pytest.mark.parametrize(
    ("diagnosis", "status", "line"), [(name, row[0], line) for name, row in SYSTEMD.items() for line in row[2:]]
)
def test_a_start_that_fails_at_systemd_is_known_by_its_status_and_by_each_of_its_lines(
    diagnosis: str, status: int, line: str
) -> None:
    state = {"active": "failed", "sub": "failed", "result": "exit-code", "exit_status": status}
    assert _diagnose.diagnose([], state)["id"] == diagnosis
    found = _diagnose.diagnose([f"sglang-qwen.service: {line}"])
    assert found["id"] == diagnosis
    assert line in found["line"]


def journal_of(said: list[str], log: list[str], **state: str) -> _diagnose.Run:
    """A host's systemctl and journalctl: what systemd said of the unit, its own log, and its state."""

    def run(words: list[str]) -> tuple[int, str, str]:
        if words[0] == "systemctl":
            shown = {"Id": "sglang-qwen.service", "LoadState": "loaded", "ActiveState": "failed", **state}
            return 0, "\n".join(f"{key}={value}" for key, value in shown.items()) + "\n", ""
        assert words[0] == "journalctl"
        lines = said if "UNIT=sglang-qwen.service" in words and "_PID=1" in words else log
        return 0, "".join(f"{line}\n" for line in lines), ""

    return run


def test_a_mount_that_is_missing_is_found_though_no_start_has_an_id() -> None:
    """After a stop the unit keeps the InvocationID of what ran before; a dependency that fails makes no new one."""
    said = [
        "Started sglang-qwen.service - SGLang, instance qwen.",
        "Stopping sglang-qwen.service - SGLang, instance qwen...",
        "Stopped sglang-qwen.service - SGLang, instance qwen.",
        "Dependency failed for sglang-qwen.service - SGLang, instance qwen.",
        "sglang-qwen.service: Job sglang-qwen.service/start failed with result 'dependency'.",
    ]
    log = ["[2026-11-29 18:00:53] The server is fired up and ready to roll!", "sglang-launch: stopped; it ended with 0"]
    state = {"ActiveState": "inactive", "SubState": "dead", "Result": "success", "InvocationID": "a" * 32}
    found = _diagnose.of_unit(journal_of(said, log, **state), "sglang-qwen.service")
    assert found["id"] == "unit_dependency"
    assert "is not mounted" in found["why"]
    # It was mounted and started since: what was said before counts no more.
    now = [*said, "Started sglang-qwen.service - SGLang, instance qwen."]
    assert _diagnose.of_unit(journal_of(now, log, **state), "sglang-qwen.service")["id"] == "nothing"


def test_what_restarts_in_vain_is_known_by_what_failed_first() -> None:
    """The limit is what the state names in the end."""
    once = [
        "sglang-qwen.service: Failed to load environment files: No such file or directory",
        "sglang-qwen.service: Failed to run 'start' task: No such file or directory",
        "sglang-qwen.service: Failed with result 'resources'.",
        "Failed to start sglang-qwen.service - SGLang, instance qwen.",
        "sglang-qwen.service: Scheduled restart job, restart counter is at 1.",
        "Stopped sglang-qwen.service - SGLang, instance qwen.",
    ]
    said = [*once, *once, "sglang-qwen.service: Start request repeated too quickly."]
    run = journal_of(said, [], SubState="failed", Result="start-limit-hit")
    assert _diagnose.of_unit(run, "sglang-qwen.service")["id"] == "unit_environment"


def test_what_systemd_says_of_an_engine_that_crashed_hides_nothing() -> None:
    said = [
        "Started sglang-qwen.service - SGLang, instance qwen.",
        "sglang-qwen.service: Main process exited, code=exited, status=1/FAILURE",
        "sglang-qwen.service: Failed with result 'exit-code'.",
    ]
    log = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ValueError: something new"]
    state = {"SubState": "failed", "Result": "exit-code", "ExecMainStatus": "1", "InvocationID": "b" * 32}
    found = _diagnose.of_unit(journal_of(said, log, **state), "sglang-qwen.service")
    assert (found["id"], found["what"]) == ("unknown", "ValueError: something new")
    log[-1] = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    assert _diagnose.of_unit(journal_of(said, log, **state), "sglang-qwen.service")["id"] == "not_enough_memory"


@pytest.mark.parametrize(
    "line",
    [
        "server_args=ServerArgs(model_path='/m', api_key='sk-very-secret', admin_api_key=None)",
        "cmd: --port 1 --api-key sk-very-secret --tp 8",
        "api_key: sk-very-secret",
        'Authorization: "Bearer sk-very-secret"',
    ],
)
def test_keys_in_a_log_are_taken_out(line: str) -> None:
    found = _diagnose.diagnose([line, "ValueError: x"])
    assert "sk-very" not in str(found)


def test_a_long_log_takes_no_time() -> None:
    import time

    lines = [f"[2026-11-29 17:57:46 TP{n % 8}] Prefill batch, #new-seq: 1, #new-token: {n}" for n in range(6000)]
    begun = time.process_time()
    _diagnose.diagnose(lines)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[2026-11-29 18:00:52] Load weight begin. avail mem=139.13 GB", "loading weights (139.13 GB free before)"),
        ("Loading safetensors checkpoint shards:  20% Completed | 24/120 [00:10<00:40]", "loading shard 24 of 120"),
        ("Capturing batches (bs=4 avail_mem=32.15 GB):  50%|##   | 2/4 [01:33<01:18]", "capturing CUDA graph 2 of 4"),
        ("[2026-11-29 18:00:53] INFO:     Uvicorn running on http://127.0.0.1:30000", "warming up"),
        ("something that no version ever printed", "starting Python"),
    ],
)
def test_phases(line: str, words: str) -> None:
    assert phase([line]).words.startswith(words)


def test_a_long_warm_up_is_not_taken_for_the_start_of_python() -> None:
    """Seen on a real server: its log then held nothing but the gate's own questions for minutes."""
    asked = '[2026-11-30 06:45:02] INFO:     127.0.0.1:53826 - "GET /health HTTP/1.1" 503 Service Unavailable'
    up = "[2026-11-30 06:43:10] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"
    assert phase([asked] * 60).words == ""
    assert phase([up, *[asked] * 900]).words.startswith("warming up")
    assert phase([]).words == phase(["  warnings.warn("]).words == "starting Python and importing the engine"
    longest = _gate_settings.DEFAULTS["ready_timeout"]
    assert longest < _gate_ready.TAIL_LINES * _gate_ready.LONGEST_PAUSE_S, "a look each pause, a line each look"


def test_a_later_phase_wins() -> None:
    assert (
        phase(["Load weight begin. avail mem=1.00 GB", "noise", "Memory pool end. avail mem=1 GB", "noise"]).index == 2
    )

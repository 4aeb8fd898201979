#!/usr/bin/env python3
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the collection's modules and playbooks against a real engine on this host, and write down what they say.

usage: check_engine.py BASE OUT PART [PART ...]

BASE is what prepare_host.sh made; checkpoints (checkpoints.py) lie in BASE/checkpoints. OUT gets one JSON file a step
and a table, summary.md, of what was expected and what was seen. The parts, each in this order:

arguments  the engine's own parser: first and remembered answer, an unknown argument, a wrong choice
failures   four starts that the engine ends itself, each diagnosed from its real journal
serve      BF16 cache on the FP8 checkpoint: the role brings it up, the gate, the proof, a run that changes nothing
sweep      throughput over concurrency 1 to 64 with the engine's own client
auto       the FP8 checkpoint with kv_cache_dtype auto: the guard before and after the start
refuse     over a good service the role refuses an unordered FP8 cache and a need that cannot fit; nothing stops
nan        the role is given the NaN checkpoint: gate, diagnosis, the service before comes back
dies       the role is given arguments with which the engine ends itself: gate, diagnosis, the service before comes back
back       restart, other arguments, rollback under a pinned release: what serves then is what served before
stop       stop beside an orphan, stop beside a stranger
matrix     attention backends, each gated and measured
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

from engine_host import NAME, PORT, RELEASE, Lab, healthy, in_use, journal, recap, started

LEVELS = [1, 2, 4, 8, 16, 32, 64]


def failed_checks(gate: dict[str, t.Any]) -> list[str]:
    """Ids and words of what a gate found wrong."""
    return [f"{each['id']}: {each['seen']}" for each in gate.get("checks") or [] if each["passed"] is False]


def arguments(lab: Lab) -> None:
    """The engine's own parser."""
    argv = lab.resolved()["argv"]
    calls = {
        "first answer": (argv, True),
        "unknown argument": ([*argv, "--fp4-gemm-runner-backend", "flashinfer_cudnn"], False),
        "wrong choice": ([*argv, "--moe-runner-backend", "nope"], False),
    }
    for name, (words, good) in calls.items():
        wanted = {"name": NAME, "release": RELEASE, "argv": words}
        result, seconds = lab.module("sglang_arguments", wanted, name.replace(" ", "_"))
        right = result.get("asked") and result.get("accepted") is good and not result.get("cached")
        lab.check(name, "accepted" if good else "refused", result.get("error") or "accepted", right, seconds)
    result, seconds = lab.module("sglang_arguments", {"name": NAME, "release": RELEASE, "argv": argv}, "remembered")
    lab.check("remembered answer", "accepted, cached", result, result.get("cached"), seconds)


# Checkpoint, arguments, and the id of the right diagnosis.
FAILURES: dict[str, tuple[str, list[str], str]] = {
    "broken": ("broken", ["--port", "30101"], "json_of_checkpoint"),
    "nextn": ("fp8", ["--port", "30102", "--speculative-algorithm", "NEXTN"], "speculation_without_extra_buffer"),
    "poor": ("fp8", ["--port", "30103", "--mem-fraction-static", "0.005"], "not_enough_memory"),
    "beaten": ("fp8", ["--port", "30104", "--mem-fraction-static", "0.15", "--disable-cuda-graph"], "port_in_use"),
}


def failures(lab: Lab) -> None:
    """Starts that fail, all at once; another server sits on the port of one of them."""
    subprocess.run(["id", "sglang"], check=False, capture_output=True)
    subprocess.run(["useradd", "--system", "--no-create-home", "sglang"], check=False, capture_output=True)
    squatter = subprocess.Popen(
        [sys.executable, "-m", "http.server", "30104", "--bind", "127.0.0.1", "--directory", "/usr/share/doc"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    common = ["--attention-backend", "triton", "--sampling-backend", "pytorch", "--disable-piecewise-cuda-graph"]
    begun, at = time.monotonic(), time.time()
    took: dict[str, float] = {}
    for name, (checkpoint, args, _want) in FAILURES.items():
        lab.start(name, checkpoint, [*common, *args], cache=name)
    while len(took) < len(FAILURES) and time.monotonic() - begun < 200:
        time.sleep(0.5)
        for name in FAILURES:
            if name not in took and not lab.active(name):
                took[name] = time.monotonic() - begun
    squatter.terminate()
    for name, (_checkpoint, _args, wanted) in FAILURES.items():
        log = journal(f"sglang-{name}.service", at)
        (lab.out / f"failures.{name}.log").write_text(log, encoding="utf-8")
        path = lab.base / f"{name}.log"
        path.write_text(log, encoding="utf-8")
        result, _seconds = lab.module("sglang_diagnose", {"path": str(path)}, f"diagnosis_{name}")
        seen = f"{result.get('id')}: {result.get('what')} {result.get('why')} {result.get('fix')}"
        lab.check(f"{name}: diagnosis", wanted, seen, result.get("id") == wanted, took.get(name, 0.0))
        by_unit, _seconds = lab.module("sglang_diagnose", {"unit": f"sglang-{name}.service"}, f"by_unit_{name}")
        lab.check(
            f"{name}: by its unit", str(result.get("id")), by_unit.get("id"), by_unit.get("id") == result.get("id")
        )
        subprocess.run(["systemctl", "reset-failed", f"sglang-{name}.service"], check=False, capture_output=True)


def serve(lab: Lab) -> None:
    """The role brings the service up; then everything is asked again by the modules one by one."""
    lab.instance()
    status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
    (lab.out / "serve.engine.log").write_text(journal(f"sglang-{NAME}.service"), encoding="utf-8")
    lab.check("the role brings it up, gate included", "status 0", recap(out), status == 0, seconds)
    proof = json.loads(pathlib.Path(f"/var/lib/sglang/{NAME}/proof.json").read_text(encoding="utf-8"))
    lab.write("proof", proof)
    for each in proof["checks"]:
        seen = f"{each['seen']} ({'; '.join(map(str, each['evidence']))})"
        lab.check(f"gate {each['id']}", str(each["expected"])[:80], seen, each["passed"], each["seconds"])
    wanted = {
        "path": lab.checkpoint("fp8"),
        "url": f"http://127.0.0.1:{PORT}",
        "unit": f"sglang-{NAME}.service",
        "compute_capability": "9.0",
    }
    result, seconds = lab.module("kv_cache_assert", wanted)
    words = [f"{each['says']} ({each['weight']})" for each in result.get("evidence", [])]
    right = result.get("verdict") == "ok" and result.get("effective_dtype") == "bfloat16"
    lab.check("kv_cache_assert, live", "ok: bfloat16", f"{result.get('verdict')}: {'; '.join(words)}", right, seconds)
    instance = lab.resolved()
    gate, seconds = lab.module("sglang_gate", {"instance": instance, "quick": True, "record": False}, "gate_quick")
    lab.check("sglang_gate, quick", "passed", failed_checks(gate) or gate.get("words"), gate.get("passed"), seconds)
    gate, seconds = lab.module("sglang_gate", {"instance": instance, "record": False}, "gate_full")
    lab.check("sglang_gate, full", "passed", failed_checks(gate) or gate.get("words"), gate.get("passed"), seconds)
    status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
    lab.check("a run that changes nothing", "changed=0", recap(out), status == 0 and "changed=0 " in out, seconds)
    status, out, seconds = lab.playbook("blackwell.sglang.status")
    lab.check("status", "status 0", recap(out), status == 0, seconds)
    wanted = {"instances": [{"name": NAME, "port": PORT, "gpus": [0]}]}
    info, seconds = lab.module("sglang_service_info", wanted)
    holders = [(each["name"], each["unit"], each["mib"]) for each in info["gpus"]["holders"]]
    own = any(unit == f"sglang-{NAME}.service" for _name, unit, _mib in holders)
    lab.check("sglang_service_info: who holds the GPU", "the unit", holders, own, seconds)


def sweep(lab: Lab) -> None:
    """The benchmark playbook."""
    extra = {
        "sglang_benchmark_levels": LEVELS,
        "sglang_benchmark_input_len": 512,
        "sglang_benchmark_output_len": 128,
        "sglang_benchmark_datasets": ["text"],
        "sglang_benchmark_output_dir": str(lab.out / "benchmark"),
        "sglang_benchmark_baseline": "update",
    }
    status, out, seconds = lab.playbook("blackwell.sglang.benchmark", extra)
    lab.check("C = 1 to 64", "status 0 in under 480 s", recap(out), status == 0 and seconds < 480, seconds)


def auto(lab: Lab) -> None:
    """The guard, before and after a start that somebody made without it."""
    argv = list(lab.resolved()["argv"])
    index = argv.index("--kv-cache-dtype")
    argv[index + 1] = "auto"
    wanted: dict[str, t.Any] = {"path": lab.checkpoint("fp8"), "args": argv, "compute_capability": "9.0"}
    result, seconds = lab.module("kv_cache_assert", {**wanted, "engine_version": "0.5.12.post1"}, "static")
    lab.check("kv_cache_assert, before", "violated", result.get("msg"), result.get("verdict") == "violated", seconds)
    if lab.active(NAME):
        result, seconds = lab.module("sglang_service_stop", {"name": NAME, "gpus": [0]}, "stop_before")
        lab.check("sglang_service_stop", "free", f"{result}", result.get("free"), seconds)
    begun = time.monotonic()
    lab.start("auto", "fp8", argv[argv.index("--model-path") + 2 :])
    while lab.active("auto") and not healthy() and time.monotonic() - begun < 200:
        time.sleep(0.5)
    ready = time.monotonic() - begun
    live = {"path": lab.checkpoint("fp8"), "url": f"http://127.0.0.1:{PORT}", "unit": "sglang-auto.service"}
    result, seconds = lab.module("kv_cache_assert", live, "live")
    (lab.out / "auto.engine.log").write_text(journal("sglang-auto.service"), encoding="utf-8")
    seen = f"ready after {ready:.1f} s; {result.get('verdict')}: {result.get('msg')}"
    lab.check("kv_cache_assert, live", "violated: fp8_e4m3", seen, result.get("verdict") == "violated", seconds)
    result, seconds = lab.module("sglang_service_stop", {"name": "auto", "gpus": [0]}, "stop_after")
    lab.check("sglang_service_stop", "free", f"{result}", result.get("free"), seconds)


def refuse(lab: Lab) -> None:
    """What the role refuses before it stops a service that is good."""
    before = started()
    cases: dict[str, tuple[dict[str, t.Any], tuple[str, ...]]] = {
        "auto on an FP8 checkpoint": (
            {"kv_cache_dtype": "auto"},
            ("args.kv_cache_dtype", "write kv_cache_dtype: bf16"),
        ),
        "a need that cannot fit": ({"mem_fraction_static": 0.1}, ("need", "131072")),
    }
    for name, (args, told) in cases.items():
        lab.instance(**args)
        status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
        words = [line.strip() for line in out.splitlines() if line.startswith("fatal:")]
        right = status != 0 and all(word in out for word in told) and started() == before and healthy()
        lab.check(name, "refused, the service runs on", (words or [recap(out)])[-1], right, seconds)
    lab.instance()


def dies(lab: Lab) -> None:
    """Arguments with which the engine ends itself while it loads, by the role, over a service that was good."""
    lab.instance(extra={"need": None}, mem_fraction_static=0.005)
    status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
    (lab.out / "dies.engine.log").write_text(journal(f"sglang-{NAME}.service"), encoding="utf-8")
    words = [line for line in out.splitlines() if line.startswith("[ERROR]") and "did not pass its gate" in line]
    told = "did not pass its gate" in out and "memory" in out
    lab.check("the role", "fails, the cause named", (words or [recap(out)])[0], status != 0 and told, seconds)
    back = json.loads(pathlib.Path(f"/var/lib/sglang/{NAME}/proof.json").read_text(encoding="utf-8"))
    lab.write("proof_after", back)
    lab.check("the service before is back", "its gate passed", back.get("at"), back.get("passed") and healthy())
    lab.instance()


def back(lab: Lab) -> None:
    """Restart, other arguments, and the playbook rollback under the release that the inventory pins."""
    lab.instance()
    before = started()
    status, out, seconds = lab.playbook("blackwell.sglang.restart")
    lab.check("restart", "another start, proved", recap(out), status == 0 and started() != before, seconds)
    lab.instance(cuda_graph_max_bs=32, max_running_requests=48)
    status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
    lab.check("other arguments", "status 0", recap(out), status == 0, seconds)
    status, out, seconds = lab.playbook("blackwell.sglang.rollback")
    lab.check("rollback", "status 0", recap(out), status == 0, seconds)
    lab.instance()
    status, out, seconds = lab.playbook(str(lab.base / "collection/tests/gpu/serve.yml"))
    lab.check("what came back is as it was", "changed=0", recap(out), status == 0 and "changed=0 " in out, seconds)


def nan(lab: Lab) -> None:
    """The NaN checkpoint by the role, over a service that was good."""
    lab.instance("nan")
    before = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(lab.playbook, str(lab.base / "collection/tests/gpu/serve.yml"))
        seen_healthy = False
        while not run.done():
            if not seen_healthy and healthy():
                seen_healthy = nan_serves()
            time.sleep(0.5)
        status, out, seconds = run.result()
    (lab.out / "nan.engine.log").write_text(journal(f"sglang-{NAME}.service"), encoding="utf-8")
    failed = [line for line in out.splitlines() if line.startswith("[ERROR]") and "did not pass its gate" in line]
    lab.check("/health of the NaN server", "200", seen_healthy, seen_healthy, time.monotonic() - before)
    told = "did not pass its gate" in out and "NaN" in out
    lab.check("the role", "fails, the cause named", (failed or [recap(out)])[0].strip(), status != 0 and told, seconds)
    back = json.loads(pathlib.Path(f"/var/lib/sglang/{NAME}/proof.json").read_text(encoding="utf-8"))
    lab.write("proof_after", back)
    lab.check("the service before is back", "its gate passed", back.get("at"), back.get("passed") and healthy())
    lab.instance()


def nan_serves() -> bool:
    """Whether the server on the port is the one with the NaN checkpoint."""
    words = ["curl", "-s", "-m", "5", f"http://127.0.0.1:{PORT}/model_info"]
    return "/nan" in subprocess.run(words, capture_output=True, text=True, check=False).stdout


HOLD = """
import time, torch
held = torch.zeros(2 << 30, dtype=torch.uint8, device="cuda")
print("held", flush=True)
time.sleep(600)
"""


def hold(lab: Lab, user: str) -> subprocess.Popen[str]:
    """A process outside of every unit that holds 2 GiB of the GPU."""
    python = f"/opt/sglang/releases/{RELEASE}/venv/bin/python"
    environment = {**os.environ, **lab.environment, "HOME": "/tmp"}
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", python, "-c", HOLD]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    if process.stdout:
        process.stdout.readline()
    return process


def stop(lab: Lab) -> None:
    """Stop by the module: beside an orphan of the service user, and beside somebody else's process."""
    used = in_use()
    orphan = hold(lab, "sglang")
    result, seconds = lab.module("sglang_service_stop", {"name": NAME, "gpus": [0]}, "beside_an_orphan")
    seen = {key: result.get(key) for key in ("was", "seconds", "free", "killed", "left", "msg")}
    killed = [each.get("pid") for each in result.get("killed") or []]
    right = result.get("free") and killed == [orphan.pid]
    lab.check(f"stop with {used} MiB in use, beside an orphan", "free; the orphan ended", seen, right, seconds)
    orphan.wait(timeout=10)
    stranger = hold(lab, "root")
    result, seconds = lab.module("sglang_service_stop", {"name": NAME, "gpus": [0], "wait": 5}, "beside_a_stranger")
    right = not result.get("free") and stranger.poll() is None and str(stranger.pid) in str(result.get("msg"))
    lab.check("stop beside a stranger", "fails, names it, leaves it", result.get("msg"), right, seconds)
    result, seconds = lab.module(
        "sglang_service_info", {"instances": [{"name": NAME, "port": PORT, "gpus": [0], "release": RELEASE}]}, "info"
    )
    lab.check(
        "obstacles of a start", "the stranger", result["instances"][NAME]["obstacles"], str(stranger.pid) in str(result)
    )
    stranger.kill()
    stranger.wait()


def matrix(lab: Lab) -> None:
    """The matrix playbook over attention backends."""
    lab.instance()
    extra = {
        "backend_matrix_axes": {"attention_backend": os.environ.get("MATRIX", "triton flashinfer").split()},
        "backend_matrix_lengths": [2, 96, 2048, 3072],
        "backend_matrix_long_tokens": 20000,
        "backend_matrix_ready_timeout": 420,
        "backend_matrix_measure_levels": [],
        "backend_matrix_output_dir": str(lab.out / "matrix"),
    }
    status, out, seconds = lab.playbook("blackwell.sglang.backend_matrix", extra)
    lab.check("attention backends", "status 0", recap(out), status == 0, seconds)


PARTS: dict[str, t.Callable[[Lab], None]] = {
    "arguments": arguments,
    "failures": failures,
    "serve": serve,
    "sweep": sweep,
    "auto": auto,
    "refuse": refuse,
    "nan": nan,
    "dies": dies,
    "back": back,
    "stop": stop,
    "matrix": matrix,
}


def main() -> int:
    """Run the parts named; 1 when a check failed."""
    if len(sys.argv) < 4 or set(sys.argv[3:]) - set(PARTS):
        raise SystemExit(__doc__)
    lab = Lab(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    for name in sys.argv[3:]:
        lab.part = name
        begun = time.monotonic()
        try:
            PARTS[name](lab)
        except Exception as exc:  # the other parts are still worth their time on the GPU
            lab.check("the part itself", "no error", f"{type(exc).__name__}: {exc}", False, time.monotonic() - begun)
    rows = [f"| {each.part} | {each.what} | {each.expected} | {each.seen} | {each.seconds} |" for each in lab.checks]
    head = ["| part | what | expected | seen | s |", "| --- | --- | --- | --- | --- |"]
    lab.part = "_".join(sys.argv[3:])
    lab.write("summary", "\n".join([*head, *rows]) + "\n")
    return 0 if all(each.passed for each in lab.checks) else 1


if __name__ == "__main__":
    sys.exit(main())

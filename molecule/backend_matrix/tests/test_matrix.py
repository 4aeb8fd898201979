"""A matrix under a real systemd: verdicts, one restore, an interruption, and nothing left behind."""

from __future__ import annotations

import json
import pathlib
import typing as t

from playbooks import Playbooks, Run

PLAYBOOK = "playbooks/backend_matrix.yml"
RIGHT = "moe=cutlass fp4=flashinfer_cudnn"
OWN = "moe=flashinfer_cutlass fp4=flashinfer_cudnn"
# Verdict and what the reason says, by combination.
KNOWN = {
    RIGHT: ("ok", ""),
    "moe=cutlass fp4=flashinfer_cutlass": ("wrong", "M=3072: 3 of 3 answers"),
    OWN: ("ok", ""),
    "moe=flashinfer_cutlass fp4=flashinfer_cutlass": ("wrong", "NaN"),
    "moe=flashinfer_cutedsl fp4=flashinfer_cudnn": ("wrong", "burst: "),
    "moe=flashinfer_cutedsl fp4=flashinfer_cutlass": ("crash", ""),
    "moe=flashinfer_trtllm fp4=flashinfer_cudnn": ("refused", ""),
    "moe=flashinfer_trtllm fp4=flashinfer_cutlass": ("refused", ""),
    f"{RIGHT} disable_custom_all_reduce=True": ("slow", "of the fastest correct one"),
    "moe=cutlass fp4=flashinfer_cutlass disable_custom_all_reduce=True": ("hang", "not ready after"),
}
TRIED = sum(1 for verdict, _why in KNOWN.values() if verdict != "refused")
TRIAL = "/run/systemd/system/sglang-qwen.service.d/90-backend-matrix.conf"
QUICK = {"backend_matrix_measure_levels": [], "backend_matrix_lengths": [96], "backend_matrix_long_tokens": 0}


def few(*names: str, **more: t.Any) -> dict[str, t.Any]:
    """Variables of a matrix over some combinations, asked little and not measured."""
    longer = {"moe": "moe_runner_backend", "fp4": "fp4_gemm_runner_backend"}
    sets = [{longer[key]: value for key, value in (part.split("=") for part in name.split())} for name in names]
    return {**QUICK, "backend_matrix_combinations": sets, **more}


def result(reports: pathlib.Path) -> dict[str, t.Any]:
    """The newest matrix."""
    newest = max((reports / "matrix").glob("*Z.json"))
    found: dict[str, t.Any] = json.loads(newest.read_text(encoding="utf-8"))
    return found


def starts(host: t.Any) -> int:
    """How often the unit was started since the host booted, by the words of systemd."""
    words = "journalctl -q -o cat -u sglang-qwen.service MESSAGE_ID=39f53479d3a045ac8e11786248231fbf | wc -l"
    return int(host.check_output(words))


def is_as_it_was(host: t.Any) -> None:
    """No trial is left, and the service serves what the unit says, proved."""
    assert host.check_output("find /run/systemd/system /etc/systemd/system -name '*backend-matrix*'") == ""
    assert host.check_output("find /run/systemd/system -name 'sglang*'") == ""
    assert "backend-matrix" not in host.check_output("systemctl show -p DropInPaths sglang-qwen sglang-verify@qwen")
    assert host.service("sglang-qwen").is_running
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    shown = host.check_output("systemctl show -p InvocationID --value sglang-qwen")
    assert proof["passed"] is True
    assert proof["invocation_id"] == shown
    command = host.check_output("tr '\\0' ' ' < /proc/$(systemctl show -p MainPID --value sglang-qwen)/cmdline")
    assert "--moe-runner-backend flashinfer_cutlass" in command


def interrupted(playbooks: Playbooks) -> Run:
    """A matrix of two that is killed while it asks the second."""
    killed = playbooks.run(PLAYBOOK, kill_at=f"| {OWN}: asking the gate", variables=few(RIGHT, OWN))
    assert killed.killed, killed.output
    return killed


def test_each_known_answer_is_labelled_and_a_correct_one_chosen(
    host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    good = host.file("/var/lib/sglang/qwen/good.json").content_string
    before = starts(host)
    run = playbooks.run(PLAYBOOK, timeout=1500)
    assert run.rc == 0, run.output
    found = result(tmp_path / "reports")
    why = {entry["id"]: entry["why"] for entry in found["combinations"]}
    assert {entry["id"]: entry["verdict"] for entry in found["combinations"]} == {
        name: verdict for name, (verdict, _why) in KNOWN.items()
    }, why
    assert all(words in why[name] for name, (_verdict, words) in KNOWN.items()), why
    assert found["best"] in (RIGHT, OWN)
    assert found["starts"] == TRIED
    assert starts(host) - before <= TRIED + 1, "one start each, and one to restore the service"
    is_as_it_was(host)
    assert host.file("/var/lib/sglang/qwen/good.json").content_string == good, "no trial is taken for good"
    assert not list((tmp_path / "reports/matrix").glob("*.state.json"))
    page = (tmp_path / "reports/sglang1.html").read_text(encoding="utf-8")
    assert "Backends tried" in page


def test_an_interrupted_matrix_goes_on_where_it_stopped(
    host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    before = starts(host)
    interrupted(playbooks)
    assert host.file(TRIAL).exists
    state = json.loads((tmp_path / "reports/matrix/sglang1-qwen.state.json").read_text(encoding="utf-8"))
    assert list(state["entries"]) == [RIGHT]
    run = playbooks.run(PLAYBOOK, variables=few(RIGHT, OWN))
    assert run.rc == 0, run.output
    assert "1 combinations are known" in run.output
    found = result(tmp_path / "reports")
    assert {entry["id"]: entry["verdict"] for entry in found["combinations"]} == {RIGHT: "ok", OWN: "ok"}
    assert found["starts"] == 1
    assert starts(host) - before <= 4, "two, the one that was cut off again, and one to restore the service"
    is_as_it_was(host)


def test_site_takes_a_trial_away_that_nobody_resumes(host: t.Any, playbooks: Playbooks) -> None:
    interrupted(playbooks)
    run = playbooks.run("site.yml", "--limit", "sglang1", "--tags", "sglang_service")
    assert run.rc == 0, run.output
    assert f"{TRIAL} of an interrupted backend_matrix is there" in " ".join(run.output.split())
    is_as_it_was(host)


def test_an_operators_command_line_is_named_by_site_and_matrix_before_anything_stops(
    host: t.Any, playbooks: Playbooks
) -> None:
    folder = "/etc/systemd/system/sglang-qwen.service.d"
    serving = host.check_output("systemctl show -p InvocationID --value sglang-qwen")
    text = "[Service]\\nExecStart=\\nExecStart=/usr/bin/sleep infinity\\n"
    host.check_output(f"mkdir -p {folder} && printf '{text}' > {folder}/99-mine.conf && systemctl daemon-reload")
    try:
        site = playbooks.run("site.yml", "--limit", "sglang1", "--tags", "sglang_service")
        matrix = playbooks.run(PLAYBOOK, variables=few(RIGHT))
    finally:
        host.check_output(f"rm -r {folder} && systemctl daemon-reload")
    for run in (site, matrix):
        assert run.rc != 0
        said = " ".join(run.output.split())
        assert f"{folder}/99-mine.conf replaces ExecStart of sglang-qwen.service" in said
        assert "sglang_service_unit_options" in said
    assert host.check_output("systemctl show -p InvocationID --value sglang-qwen") == serving
    is_as_it_was(host)


def test_check_mode_lists_the_plan_and_touches_nothing(
    host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    before = starts(host)
    run = playbooks.run(PLAYBOOK, "--check")
    assert run.rc == 0, run.output
    assert f"{TRIED} starts, and one to restore the service" in run.output
    assert "skip  moe=flashinfer_trtllm fp4=flashinfer_cudnn" in run.output
    assert starts(host) == before
    assert not (tmp_path / "reports").exists()
    is_as_it_was(host)


def test_the_best_is_written_into_the_instance(host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "instances.yml"
    file.write_text("# mine\nsglang_instances:\n  - name: qwen\n    model_path: /models/x\n", encoding="utf-8")
    run = playbooks.run(PLAYBOOK, variables=few(RIGHT, backend_matrix_write_to=str(file)))
    assert run.rc == 0, run.output
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# mine\n")
    assert "moe_runner_backend: cutlass" in text
    is_as_it_was(host)

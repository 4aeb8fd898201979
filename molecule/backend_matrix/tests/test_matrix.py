"""A matrix under a real systemd: verdicts, one restore, an interruption, and nothing left behind."""

from __future__ import annotations

import json
import pathlib
import typing as t

from playbooks import Playbooks

PLAYBOOK = "playbooks/backend_matrix.yml"
VERDICTS = {
    "moe=cutlass fp4=flashinfer_cudnn": "ok",
    "moe=cutlass fp4=flashinfer_cutlass": "wrong",
    "moe=flashinfer_cutlass fp4=flashinfer_cudnn": "ok",
    "moe=flashinfer_cutlass fp4=flashinfer_cutlass": "wrong",
    "moe=flashinfer_cutedsl fp4=flashinfer_cudnn": "ok",
    "moe=flashinfer_cutedsl fp4=flashinfer_cutlass": "crash",
    "moe=flashinfer_trtllm fp4=flashinfer_cudnn": "refused",
    "moe=flashinfer_trtllm fp4=flashinfer_cutlass": "refused",
}


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
    """No trial is left, and the service serves what the unit says."""
    assert host.run("test -e /run/systemd/system/sglang-qwen.service.d").rc == 1
    assert host.run("test -e /run/systemd/system/sglang-verify@qwen.service.d").rc == 1
    assert host.service("sglang-qwen").is_running
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    shown = host.check_output("systemctl show -p InvocationID --value sglang-qwen")
    assert proof["passed"] is True
    assert proof["invocation_id"] == shown


def test_an_interrupted_matrix_goes_on_and_ends_with_the_service_as_it_was(
    host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    good = host.file("/var/lib/sglang/qwen/good.json").content_string
    before = starts(host)
    killed = playbooks.run(PLAYBOOK, kill_at="3/8 moe=flashinfer_cutlass fp4=flashinfer_cudnn: starting", kill_after=2)
    assert killed.killed
    assert host.run("test -e /run/systemd/system/sglang-qwen.service.d/90-backend-matrix.conf").rc == 0
    state = json.loads((tmp_path / "reports/matrix/sglang1-qwen.state.json").read_text(encoding="utf-8"))
    assert len(state["entries"]) == 2

    run = playbooks.run(PLAYBOOK)
    assert run.rc == 0, run.output
    assert "2 combinations are known" in run.output
    found = result(tmp_path / "reports")
    assert {entry["id"]: entry["verdict"] for entry in found["combinations"]} == VERDICTS
    wrong = next(entry for entry in found["combinations"] if entry["id"] == "moe=cutlass fp4=flashinfer_cutlass")
    assert wrong["why"].startswith("M=3072: 3 of 3 answers")
    assert VERDICTS[found["best"]] == "ok"
    assert found["starts"] == 4, "two of six were known"
    # Six that can be tried, one of them twice since it was cut off, and one to restore.
    assert starts(host) - before <= 8
    is_as_it_was(host)
    assert host.file("/var/lib/sglang/qwen/good.json").content_string == good
    assert not list((tmp_path / "reports/matrix").glob("*.state.json"))
    page = (tmp_path / "reports/sglang1.html").read_text(encoding="utf-8")
    assert "Backends tried" in page


def test_check_mode_lists_the_plan_and_touches_nothing(
    host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path
) -> None:
    before = starts(host)
    run = playbooks.run(PLAYBOOK, "--check")
    assert run.rc == 0, run.output
    assert "6 starts, and one to restore the service" in run.output
    assert "skip  moe=flashinfer_trtllm fp4=flashinfer_cudnn" in run.output
    assert starts(host) == before
    assert not (tmp_path / "reports").exists()
    is_as_it_was(host)


def test_the_best_is_written_into_the_instance(host: t.Any, playbooks: Playbooks, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "instances.yml"
    file.write_text("# mine\nsglang_instances:\n  - name: qwen\n    model_path: /models/x\n", encoding="utf-8")
    sets = [{"moe_runner_backend": "cutlass", "fp4_gemm_runner_backend": "flashinfer_cudnn"}]
    wanted = {"backend_matrix_combinations": sets, "backend_matrix_write_to": str(file)}
    run = playbooks.run(PLAYBOOK, variables=wanted)
    assert run.rc == 0, run.output
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# mine\n")
    assert "moe_runner_backend: cutlass" in text
    is_as_it_was(host)

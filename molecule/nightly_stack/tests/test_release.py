"""A release as it stands on the host, and what stops one from being built."""

from __future__ import annotations

import json
import typing as t

from playbooks import Playbooks

CONVERGE = "molecule/nightly_stack/converge.yml"
NIGHTLY_TORCH = "==2.12.0.dev20260307+cu130"


def releases(host: t.Any) -> list[str]:
    """Folders of releases on the host."""
    return sorted(host.check_output("ls -d /opt/sglang/releases/*/ 2>/dev/null || true").split())


def test_one_verified_release_owned_by_root(host: t.Any) -> None:
    (release,) = releases(host)
    assert (host.file(release).user, host.file(release).group) == ("root", "root")
    record = json.loads(host.file(f"{release}release.json").content_string)
    assert record["state"] == "verified"
    assert record["versions"]["sglang"] == "0.5.12.post1"
    assert record["stack"] == "lab"


def test_what_is_installed_imports_and_is_what_was_recorded(host: t.Any) -> None:
    (release,) = releases(host)
    said = host.check_output(
        f"{release}venv/bin/python -c "
        "'import torch, flashinfer, sgl_kernel, sglang; print(sglang.__version__, torch.version.cuda)'"
    )
    assert said == "0.5.12.post1 13.0"


def test_no_instance_was_touched(host: t.Any) -> None:
    assert not host.file("/opt/sglang/instances/qwen/release").exists
    assert not host.file("/etc/systemd/system/sglang-qwen.service").exists


def test_a_second_run_asks_the_host_once(playbooks: Playbooks) -> None:
    run = playbooks.run(CONVERGE)
    assert run.rc == 0, run.output
    assert run.changed == {}
    assert [call[2] for call in run.module_calls] == ["blackwell.sglang.sglang_release_info"]


def stack(**changes: t.Any) -> dict[str, t.Any]:
    """The scenario's stack with other requirements, under a name of its own, and the instance that asks for it."""
    kernel = {"build": "wheel", "distribution": "sgl-kernel", "version": "0.3.21"}
    return {
        "sglang_stacks": {"other": {"channel": "nightly", "python": ["3.11", "3.12"], "kernel": kernel, **changes}},
        "sglang_instances": [
            {
                "name": "qwen",
                "profile": "qwen3_5_397b_nvfp4",
                "stack": "other",
                "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
            }
        ],
    }


def test_a_silent_downgrade_of_torch_is_refused_before_anything_is_installed(host: t.Any, playbooks: Playbooks) -> None:
    before = releases(host)
    run = playbooks.run(
        CONVERGE,
        variables=stack(
            requirements={
                "torch": {"version": NIGHTLY_TORCH, "index": "pytorch", "prerelease": True},
                "sglang": {"version": "==0.5.9"},
            }
        ),
    )
    assert run.rc != 0
    said = " ".join(run.output.split())
    assert "torch" in said
    assert "2.9.1" in said  # what sglang 0.5.9 pins
    assert "sglang" in said  # who asks for it
    assert releases(host) == before


def test_an_index_that_answers_404_is_named_with_its_variable(host: t.Any, playbooks: Playbooks) -> None:
    before = releases(host)
    gone = {"default": "http://10.213.3.1:8080/gone/"}
    run = playbooks.run(
        CONVERGE, variables={**stack(requirements={"sglang": {"version": "==0.5.12.post1"}}), "sglang_indexes": gone}
    )
    assert run.rc != 0
    said = " ".join(run.output.split())
    assert "http://10.213.3.1:8080/gone/" in said
    assert "sglang_indexes" in said
    assert [
        r for r in releases(host) if json.loads(host.file(f"{r}release.json").content_string)["state"] != "building"
    ] == (before)

"""wheel_index_info as a process, as Ansible runs it, against a real index with a password."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[4]
sys.path.insert(0, str(HERE.parents[1] / "module_utils"))

from index_server import IndexServer, Reply

NIGHTLY = "2.12.0.dev20260307+cu130"


def run(**params: t.Any) -> tuple[dict[str, t.Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.blackwell.sglang.plugins.modules.wheel_index_info"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": params}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".collections")},
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.stdout + done.stderr


def test_the_question_of_the_original_deployment_without_a_word_of_the_password() -> None:
    index = IndexServer(login="ann:s3cret-word")
    try:
        index.page(
            "/pt/torch/", f'<a href="torch-{NIGHTLY.replace("+", "%2B")}-cp312-cp312-manylinux_2_28_x86_64.whl">t</a>'
        )
        index.page(
            "/s/flashinfer-python/",
            '<a href="f/flashinfer_python-0.6.11.post1-py3-none-any.whl" data-core-metadata="true">f</a>',
        )
        index.routes["/s/flashinfer-python/f/flashinfer_python-0.6.11.post1-py3-none-any.whl.metadata"] = Reply(
            "Name: flashinfer-python\nRequires-Dist: torch\n"
        )
        index.page("/s/flashinfer-cubin/", '<a href="flashinfer_cubin-0.6.11.post1-py3-none-any.whl">c</a>')
        index.page("/fi/", '<a href="torch/">torch</a>')
        url = index.login("ann:s3cret-word")
        answer, printed = run(
            indexes={"default": f"{url}/s", "pytorch": f"{url}/pt", "flashinfer": f"{url}/fi"},
            projects={"torch": "pytorch"},
            torch=NIGHTLY,
            cuda="cu130",
            glibc="2.36",
            machine="x86_64",
        )
        assert not answer.get("failed"), answer
        assert answer["projects"]["torch"]["versions"] == [NIGHTLY]
        assert answer["projects"]["flashinfer-jit-cache"]["status"] == "absent"
        assert answer["flashinfer"]["usable"]
        assert answer["flashinfer"]["decoupled"]["flashinfer-jit-cache"] is None
        assert "nvcc" in answer["flashinfer"]["answer"]
        # The metadata was asked for with the credentials of its index.
        assert index.requests[-1][0].endswith(".metadata")
        assert "s3cret-word" not in printed
    finally:
        index.close()


def test_an_index_that_no_name_leads_to_is_said() -> None:
    answer, _printed = run(indexes={"default": "/nowhere"}, projects={"torch": "pytorch"})
    assert answer["failed"]
    assert "pytorch" in answer["msg"]

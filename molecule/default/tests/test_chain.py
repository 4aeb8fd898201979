"""What stands on the host after site.yml, judged by others than the collection where there is one."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import typing as t


def invocation(host: t.Any) -> str:
    """The InvocationID of the running service: it changes with every start."""
    return str(host.check_output("systemctl show -P InvocationID sglang-qwen.service"))


def test_the_service_runs_now_and_at_boot(host: t.Any) -> None:
    service = host.service("sglang-qwen")
    assert service.is_running, host.check_output("journalctl -u sglang-qwen -n 50 --no-pager")
    assert service.is_enabled


CHAT = """
import json, urllib.request
message = {"role": "user", "content": "What is the capital of France?"}
body = json.dumps({"model": "qwen", "temperature": 0, "messages": [message]}).encode()
url = "http://127.0.0.1:30000/v1/chat/completions"
request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
"""


def test_it_answers_a_question(host: t.Any) -> None:
    assert "Paris" in host.check_output("python3 -c %s", CHAT)


def test_the_proof_belongs_to_this_start(host: t.Any, proof: dict[str, t.Any]) -> None:
    assert proof["invocation_id"] == invocation(host)
    assert proof["passed"]
    assert proof["kv"]["verdict"] == "ok"
    assert proof["kv"]["effective_dtype"] == "bfloat16"
    proving = {row["source"].split(",")[0] for row in proof["kv"]["evidence"] if row["weight"] == "proves"}
    assert "arithmetic" in proving
    assert any(source.startswith("journal of sglang-qwen.service") for source in proving)


def test_the_link_points_at_a_verified_release(host: t.Any) -> None:
    release = host.check_output("readlink -f /opt/sglang/instances/qwen/release")
    assert '"state": "verified"' in host.file(f"{release}/release.json").content_string


def test_torch_is_the_nightly_although_the_engine_pins_another(host: t.Any) -> None:
    python = "/opt/sglang/instances/qwen/release/venv/bin/python"
    version = host.check_output(f"{python} -c 'import torch; print(torch.__version__)'")
    assert version == "2.12.0.dev20260307+cu130"
    ask = "from importlib.metadata import requires; print([r for r in requires('sglang') if r[:6] == 'torch='])"
    pinned = host.check_output(f"{python} -c %s", ask)
    assert pinned == "['torch==2.11.0']"


def test_the_kernel_holds_sm120a_code_as_cuobjdump_sees_it(host: t.Any, tmp_path: pathlib.Path) -> None:
    library = host.check_output(
        "ls /opt/sglang/instances/qwen/release/venv/lib/python3*/site-packages/sgl_kernel/sm100/common_ops.abi3.so"
    )
    copy = tmp_path / "common_ops.so"
    import base64

    copy.write_bytes(base64.b64decode(host.check_output(f"base64 {library}")))
    listed = subprocess.run([cuobjdump(), "--list-elf", copy], capture_output=True, text=True, check=True).stdout
    assert "sm_120a" in listed


def cuobjdump() -> str:
    """NVIDIA's own tool, from the toolkit or from the locked requirements."""
    found = shutil.which("cuobjdump")
    if found is None:
        import nvidia

        roots = [pathlib.Path(folder) for folder in nvidia.__path__]
        found = str(next(path for root in roots for path in root.rglob("bin/cuobjdump")))
    return found


def test_secrets_and_environment_are_for_root_alone(host: t.Any) -> None:
    environment = host.file("/etc/sglang/qwen.env")
    assert (environment.mode, environment.user) == (0o600, "root")


def test_the_engine_runs_as_its_own_user(host: t.Any) -> None:
    pid = host.check_output("systemctl show -P MainPID sglang-qwen.service")
    assert host.check_output(f"ps -o user= -p {pid}") == "sglang"

"""The stand-in for nvidia-smi has the form of the capture, and its memory follows the processes that hold it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Smi = Callable[..., subprocess.CompletedProcess[str]]

CAPTURES = Path(__file__).resolve().parents[5] / "shared/captures"
# Header of the capture nvidia_smi/query_gpu.csv, made with driver 580 on two H200.
HEADER = (
    "index, name, uuid, pci.bus_id, memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], "
    "temperature.gpu, power.draw [W], power.limit [W], compute_cap, driver_version, pcie.link.gen.current, "
    "pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max, persistence_mode, compute_mode, mig.mode.current"
)
FIELDS = ",".join(re.sub(r" \[.*?\]", "", word) for word in HEADER.split(", "))


@pytest.fixture
def holder(host: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds 70000 MiB of card 2."""
    with subprocess.Popen(["sleep", "60"]) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        entry = {"pid": process.pid, "starttime": int(stat.rpartition(")")[2].split()[19]), "gpus": {"2": 70000}}
        (host / f"holders/{process.pid}.json").write_text(json.dumps({**entry, "name": "sglang::scheduler_TP2"}))
        yield process
        process.kill()


def test_query_has_the_header_of_the_capture(smi: Smi) -> None:
    lines = smi(f"--query-gpu={FIELDS}", "--format=csv").stdout.splitlines()
    assert lines[0] == HEADER
    assert len(lines) == 9
    assert lines[1].startswith("0, NVIDIA RTX PRO 6000 Blackwell Server Edition, GPU-")
    assert ", 97887 MiB, 0 MiB, 97250 MiB, 0 %, " in lines[1]
    assert ", 12.0, 580.126.09, " in lines[1]


def test_each_cell_has_the_form_of_the_capture(smi: Smi) -> None:
    capture = CAPTURES / "nvidia_smi/query_gpu.csv"
    if not capture.exists():
        pytest.skip(f"the captures are not beside the checkout ({capture})")
    real, own = capture.read_text().splitlines()[1], smi(f"--query-gpu={FIELDS}", "--format=csv").stdout.splitlines()[1]
    forms = [[re.sub(r"[0-9A-Fa-f]", "#", cell) for cell in line.split(", ")] for line in (real, own)]
    kinds = [[re.sub(r"#+", "#", cell) for cell in form] for form in forms]
    # The name differs; so do bus ids and UUIDs, in digits alone.
    assert kinds[0][2:] == kinds[1][2:]


def test_q_has_the_lines_of_the_capture(smi: Smi) -> None:
    capture = CAPTURES / "nvidia_smi/q.txt"
    if not capture.exists():
        pytest.skip(f"the captures are not beside the checkout ({capture})")

    def keys(text: str) -> list[str]:
        found = []
        for line in text.splitlines():
            key, colon, _rest = line.partition(" : ")
            key = key if colon else line
            found.append(f"{key.rstrip()}@{len(key)}" if colon else key.rstrip())
        return found

    real, own = set(keys(capture.read_text())), keys(smi("-q").stdout)
    assert [key for key in own if key.strip() and not key.startswith("GPU 0") and key not in real] == []


def test_topology_tells_sockets_apart(smi: Smi) -> None:
    out = smi("topo", "-m").stdout
    rows = [line.split("\t") for line in out.splitlines() if re.match(r"GPU\d\t", line)]
    assert len(rows) == 8
    assert rows[0][1:9] == [" X ", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert rows[0][9:] == ["0-63", "0", "", "N/A"]
    capture = CAPTURES / "nvidia_smi/topo_m.txt"
    if capture.exists():
        assert out.partition("Legend")[2] == capture.read_text().partition("Legend")[2]


def test_memory_follows_the_process(smi: Smi, holder: subprocess.Popen[bytes]) -> None:
    query = ("--query-gpu=memory.used,memory.free", "--format=csv,noheader,nounits", "-i", "1,2")
    assert smi(*query).stdout.splitlines() == ["0, 97250", "70000, 27250"]
    apps = ("--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")
    expected = ["pid, process_name, used_gpu_memory [MiB]", f"{holder.pid}, sglang::scheduler_TP2, 70000 MiB"]
    assert smi(*apps).stdout.splitlines() == expected
    holder.kill()
    holder.wait()
    assert smi(*query).stdout.splitlines() == ["0, 97250", "0, 97250"]
    assert smi(*apps).stdout.splitlines() == expected[:1]


def test_a_reused_pid_holds_nothing(smi: Smi, host: Path, holder: subprocess.Popen[bytes]) -> None:
    path = host / f"holders/{holder.pid}.json"
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "starttime": entry["starttime"] - 1}))
    assert smi("--query-gpu=memory.used", "--format=csv,noheader", "-i", "2").stdout == "0 MiB\n"


def test_stuck_memory_needs_a_reset_by_the_hypervisor(smi: Smi, host: Path) -> None:
    (host / "stuck.json").write_text('{"0": 624}')
    used = ("--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0")
    assert smi(*used).stdout == "624\n"
    assert smi("--gpu-reset", "-i", "0").returncode != 0
    (host / "hypervisor").touch()
    done = smi("--gpu-reset", "-i", "0")
    if done.returncode == 4:
        pytest.skip("only root may reset a card")
    assert done.returncode == 0
    assert smi(*used).stdout == "0\n"


@pytest.mark.parametrize(
    ("missing", "status", "text"),
    [
        ("version", 9, "couldn't communicate with the NVIDIA driver"),
        ("dev/nvidiactl", 255, "Failed to initialize NVML"),
    ],
)
def test_missing_driver_or_node(smi: Smi, host: Path, missing: str, status: int, text: str) -> None:
    (host / missing).unlink()
    done = smi("-L")
    assert done.returncode == status
    assert text in done.stdout


def test_only_cards_with_a_node_are_seen(smi: Smi, host: Path) -> None:
    (host / "dev/nvidia5").unlink()
    lines = smi("-L").stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"GPU {n}" for n in (0, 1, 2, 3, 4, 6, 7)]
    assert smi("-L", "-i", "5").returncode == 6


def test_unknown_field_is_named(smi: Smi) -> None:
    done = smi("--query-gpu=memory.usd", "--format=csv")
    assert done.returncode == 2
    assert '"memory.usd" is not a valid field' in done.stdout


def test_table_keeps_its_columns(smi: Smi, holder: subprocess.Popen[bytes]) -> None:
    lines = [line for line in smi().stdout.splitlines() if line.startswith(("+", "|"))]
    assert {len(line) for line in lines} == {91}
    assert any(str(holder.pid) in line and "70000MiB" in line for line in lines)

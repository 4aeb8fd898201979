"""The all-reduce check where there is nothing to reduce with, and what its judge makes of the ranks.

What it says of real GPUs is in tests/gpu/README.md.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "roles/gpu_host/files/allreduce_check.py"
# A torch of a few lines: tensors are lists, and a sum is made through files that all ranks see.
TORCH = """
import os, pathlib, time
float32 = None
def device(*words): return words
class cuda:
    @staticmethod
    def device_count(): return 0
class Tensor(list):
    def __mod__(self, n): return Tensor(x % n for x in self)
    def __mul__(self, n): return Tensor(x * n for x in self)
    def __add__(self, n): return Tensor(x + n for x in self)
    def __ne__(self, other): return Tensor(a != b for a, b in zip(self, other))
    def sum(self): return Tensor([sum(self)])
    def item(self): return self[0]
def arange(n, **words): return Tensor(float(x) for x in range(min(n, 64)))
"""
DISTRIBUTED = """
import os, time
def is_available(): return True
def is_nccl_available(): return False
def init_process_group(backend, init_method, rank, world_size):
    global RANK, WORLD
    RANK, WORLD = rank, world_size
def destroy_process_group(): pass
def all_reduce(data):
    wish = os.environ.get("WISH", "")
    if wish == "hang" and RANK == 1: time.sleep(60)
    if wish == "crash" and RANK == 1: raise RuntimeError("NCCL error: unhandled system error")
    base = [x - RANK - 1 for x in data]
    data[:] = [x * WORLD + sum(range(1, WORLD + 1)) for x in base]
    if wish == "wrong" and RANK == 0: data[1] += 1
"""


def run(tmp_path: pathlib.Path, *words: str, wish: str = "", torch: bool = True) -> tuple[int, dict[str, t.Any]]:
    """Status and words of the script, with the small torch or none."""
    package = tmp_path / "torch"
    if torch and not package.exists():
        package.mkdir()
        (package / "__init__.py").write_text(TORCH)
        (package / "distributed.py").write_text(DISTRIBUTED)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "WISH": wish}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    said: dict[str, t.Any] = json.loads(done.stdout)
    return done.returncode, said


def test_it_skips_with_the_reason(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2'\n")
    status, said = run(tmp_path, torch=False)
    assert status == 3
    assert "torch.distributed is not there" in said["skipped"]
    (tmp_path / "torch.py").unlink()
    status, said = run(tmp_path)
    assert (status, said["skipped"]) == (3, "this torch was built without NCCL")


def test_right_sums_pass(tmp_path: pathlib.Path) -> None:
    status, said = run(tmp_path, "--backend", "gloo", "--ranks", "3")
    assert (status, said["ok"], said["ranks"]) == (0, True, 3)
    assert all(row["wrong"] == 0 for row in said["sizes"])


@pytest.mark.parametrize(
    ("wish", "reason"),
    [("wrong", "wrong sums at [8, 8196"), ("crash", "rank [1] ended with an error"), ("hang", "rank [1] did not end")],
)
def test_wrong_sums_an_error_and_a_hang_are_told_apart(tmp_path: pathlib.Path, wish: str, reason: str) -> None:
    begun = time.monotonic()
    status, said = run(tmp_path, "--backend", "gloo", "--seconds", "8", wish=wish)
    assert (status, said["ok"]) == (1, False)
    assert said["reason"].startswith(reason)
    assert time.monotonic() - begun < 25
    if wish == "crash":
        assert "unhandled system error" in said["tail"]

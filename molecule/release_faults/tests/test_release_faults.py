"""Whatever stops a build, what serves stays as it was, the message says what to do, and the next run completes."""

from __future__ import annotations

import pathlib
import re
import threading
import time
import typing as t

import pytest
from conftest import Host

Stack = dict[str, t.Any]

# A header shows when its task has ended: each run dies in what comes some seconds after it.
STAGES = {
    "while resolving": ("Hold the lock of this host", 1.5),
    "before the release exists": ("Write the lock", 0.0),
    "while installing": ("Begin the release", 1.5),
    "before it is recorded": ("Create the environment and install into it", 0.0),
    "while verifying": ("Say which release serves each stack", 1.5),
    "verified and not cleared up": ("Declare the release verified", 0.0),
}


def said(output: str) -> str:
    """The output as one line, however it was wrapped."""
    return re.sub(r"\s+", " ", output)


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_killed_in_any_stage_is_finished_by_the_next(site: Host, stack: Stack, stage: str) -> None:
    task, seconds = STAGES[stage]
    before = site.served()
    killed = site.build(stack, kill_at=f": {task}]", kill_after=seconds)
    assert killed.killed, killed.output
    assert site.served() == before
    again = site.build(stack)
    release = site.verified(again)
    assert release["stack_digest"] not in before.release
    # The lock of the run that is dead was taken over, and given back at the end.
    assert not site.host.file("/opt/sglang/run.lock").exists
    third = site.build(stack)
    assert (third.rc, third.changed) == (0, {}), third.output


def test_a_build_killed_in_the_middle_goes_on_where_it_was(site: Host, source: Stack) -> None:
    killed = site.build(source, kill_at=": Install CMake, ninja and scikit-build-core]", kill_after=8.0)
    assert killed.killed, killed.output
    again = site.build(source)
    release = site.verified(again)
    assert "sm_120a" in release["kernel"]["architectures"]
    # The build outlived the run that was killed, and the next one found it.
    assert "still runs from an earlier run: attached" in again.output, again.output


def test_a_full_disk_is_said_and_the_next_run_completes(site: Host, stack: Stack) -> None:
    site.host.check_output("mkdir -p /opt/sglang/cache/uv && mount -t tmpfs -o size=256k tmpfs /opt/sglang/cache/uv")
    try:
        run = site.build(stack)
    finally:
        site.host.check_output("umount /opt/sglang/cache/uv")
    assert run.rc != 0
    assert "the disk is full" in said(run.output), run.output
    assert "free space under sglang_root" in said(run.output)
    site.verified(site.build(stack))


@pytest.mark.parametrize(
    ("prefix", "kind", "words"),
    [
        ("/simple/xgrammar/", "404", ["404", "xgrammar", "sglang_indexes.default"]),
        ("/simple/xgrammar/xgrammar-", "reset", ["cannot be reached", "sglang_indexes.default"]),
        ("/simple/xgrammar/xgrammar-", "truncate", ["xgrammar"]),
        ("/simple/xgrammar/xgrammar-", "corrupt", ["xgrammar", "hash"]),
    ],
    ids=["index-404", "reset-in-mid-download", "cut-in-mid-download", "another-hash"],
)
def test_a_bad_index_is_named_and_the_next_run_completes(
    site: Host, stack: Stack, prefix: str, kind: str, words: list[str]
) -> None:
    site.fault(prefix, kind)
    run = site.build(stack)
    assert run.rc != 0, run.output
    for word in words:
        assert word in said(run.output), run.output
    site.fault()
    site.verified(site.build(stack))


BROKEN = """--- a/sgl-kernel/csrc/common_extension.cc
+++ b/sgl-kernel/csrc/common_extension.cc
@@ -1,1 +1,2 @@
+#error broken on purpose
 {first}
"""
OTHER_GPU = """--- a/sgl-kernel/CMakeLists.txt
+++ b/sgl-kernel/CMakeLists.txt
@@ -83,1 +83,1 @@
-        "-gencode=arch=compute_120a,code=sm_120a"
+        "-gencode=arch=compute_100a,code=sm_100a"
"""


def kernel_file(name: str) -> str:
    folder = pathlib.Path(__file__).resolve().parents[3] / "tests/lab/kernel-src/sgl-kernel"
    return (folder / name).read_text().splitlines()[0]


def test_a_build_that_fails_shows_the_compilers_own_words(site: Host, source: Stack, tmp_path: pathlib.Path) -> None:
    patch = tmp_path / "01-broken.patch"
    patch.write_text(BROKEN.format(first=kernel_file("csrc/common_extension.cc")))
    source["kernel"]["series"] = [str(patch)]
    run = site.build(source)
    assert run.rc != 0
    assert "#error broken on purpose" in said(run.output), run.output
    del source["kernel"]["series"]
    site.verified(site.build(source))


def test_a_patch_that_no_longer_applies_names_hunk_and_file(site: Host, source: Stack, tmp_path: pathlib.Path) -> None:
    patch = tmp_path / "01-old.patch"
    patch.write_text(OTHER_GPU.replace("compute_120a,code=sm_120a", "compute_130a,code=sm_130a"))
    source["kernel"]["series"] = [str(patch)]
    run = site.build(source)
    assert run.rc != 0
    assert "hunk 1 of 01-old.patch no longer applies to sgl-kernel/CMakeLists.txt" in said(run.output), run.output


def test_a_wheel_without_sm120_code_gets_into_no_release(site: Host, source: Stack, tmp_path: pathlib.Path) -> None:
    patch = tmp_path / "01-other-gpu.patch"
    patch.write_text(OTHER_GPU)
    source["kernel"]["series"] = [str(patch)]
    run = site.build(source)
    assert run.rc != 0
    assert "none for sm_120a or sm_120f" in said(run.output), run.output
    building = site.host.check_output("ls -1d /opt/sglang/releases/*/ | tail -n 1").rstrip("/")
    assert not site.host.run(f"ls -d {building}/venv/lib/python3*/site-packages/sgl_kernel").stdout
    del source["kernel"]["series"]
    site.verified(site.build(source))


def test_a_host_that_another_run_holds_is_left_alone(site: Host, stack: Stack) -> None:
    done: list[t.Any] = []
    first = threading.Thread(target=lambda: done.append(site.build(stack)))
    first.start()
    while not site.host.file("/opt/sglang/run.lock").exists and first.is_alive():
        time.sleep(0.2)
    assert first.is_alive()
    second = site.build(stack)
    first.join()
    site.verified(done[0])
    assert second.rc != 0
    assert "another run works on this host" in said(second.output), second.output
    assert (site.build(stack).rc, site.build(stack).changed) == (0, {})

"""Whatever stops a build, what serves stays as it was, the message says what to do, and the next run completes."""

from __future__ import annotations

import pathlib
import re
import threading
import time
import typing as t

import pytest
from conftest import Host, Stacks

# A header shows when its task has ended: each run dies in what comes some seconds after it.
STAGES = {
    "while resolving": ("Hold the lock of this host", 1.5),
    "before the release exists": ("Resolve the stack and judge the plan", 0.0),
    "while installing": ("Begin the release", 1.5),
    "before it is recorded": ("Create the environment and install into it", 0.0),
    "while verifying": ("Say which release serves each stack", 1.5),
    "verified and not cleared up": ("Declare the release verified", 0.0),
}


def said(output: str) -> str:
    """The output as one line, however it was wrapped."""
    return re.sub(r"\s+", " ", output)


# Each of these runs finds what the one before it left, and gets further: so it has gone on where that one was killed.
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_killed_in_any_stage_touches_nothing(site: Host, attempts: dict[str, Stacks], stage: str) -> None:
    task, seconds = STAGES[stage]
    before = site.served()
    killed = site.build(attempts["killed"], kill_at=f": {task}]", kill_after=seconds)
    assert killed.killed, killed.output
    assert site.host.file("/opt/sglang/run.lock").exists
    assert site.served() == before


def test_the_run_after_a_killed_one_completes(site: Host, attempts: dict[str, Stacks]) -> None:
    # Where the tests before did not run, as with -k, this one has its own.
    if not site.host.file("/opt/sglang/run.lock").exists:
        task, seconds = STAGES["while installing"]
        assert site.build(attempts["killed"], kill_at=f": {task}]", kill_after=seconds).killed
    again = site.build(attempts["killed"])
    release = site.verified(again)
    assert release["stack_digest"] not in site.served().release
    third = site.build(attempts["killed"])
    assert (third.rc, third.changed) == (0, {}), third.output
    # The lock of the run that is dead was taken over, and given back at the end.
    assert not site.host.file("/opt/sglang/run.lock").exists


def test_a_build_killed_in_the_middle_goes_on_where_it_was(site: Host, attempts: dict[str, Stacks]) -> None:
    # The build's first line of progress: it has begun, however slow this machine is.
    killed = site.build(attempts["source"], kill_at=" | kernel-", kill_after=1.0)
    assert killed.killed, killed.output
    again = site.build(attempts["source"])
    release = site.verified(again)
    assert "sm_120a" in release["kernel"]["architectures"]
    # The build outlived the run that was killed, and the next one found it.
    assert "still runs from an earlier run: attached" in again.output, again.output


def test_a_full_disk_is_said_and_the_next_run_completes(site: Host, stack: Stacks) -> None:
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
def test_a_bad_index_is_named(
    site: Host, attempts: dict[str, Stacks], prefix: str, kind: str, words: list[str]
) -> None:
    site.fault(prefix, kind)
    run = site.build(attempts["index"])
    assert run.rc != 0, run.output
    for word in words:
        assert word in said(run.output), run.output


def test_the_run_after_a_bad_index_completes(site: Host, attempts: dict[str, Stacks]) -> None:
    release = site.verified(site.build(attempts["index"]))
    assert release["stack_digest"] not in site.served().release


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


def with_patch(stacks: Stacks, patch: pathlib.Path, text: str) -> Stacks:
    """The stacks with one patch of the operator's own for the kernel."""
    patch.write_text(text)
    source = stacks["source"]
    return stacks | {"source": {**source, "kernel": source["kernel"] | {"series": [str(patch)]}}}


def test_a_build_that_fails_shows_the_compilers_own_words(
    site: Host, attempts: dict[str, Stacks], tmp_path: pathlib.Path
) -> None:
    text = BROKEN.format(first=kernel_file("csrc/common_extension.cc"))
    run = site.build(with_patch(attempts["kernel"], tmp_path / "01-broken.patch", text))
    assert run.rc != 0
    assert "#error broken on purpose" in said(run.output), run.output


def test_a_patch_that_no_longer_applies_names_hunk_and_file(
    site: Host, attempts: dict[str, Stacks], tmp_path: pathlib.Path
) -> None:
    text = OTHER_GPU.replace("compute_120a,code=sm_120a", "compute_130a,code=sm_130a")
    run = site.build(with_patch(attempts["kernel"], tmp_path / "01-old.patch", text))
    assert run.rc != 0
    assert "hunk 1 of 01-old.patch no longer applies to sgl-kernel/CMakeLists.txt" in said(run.output), run.output


def test_a_wheel_without_sm120_code_gets_into_no_release(
    site: Host, attempts: dict[str, Stacks], tmp_path: pathlib.Path
) -> None:
    run = site.build(with_patch(attempts["kernel"], tmp_path / "01-other-gpu.patch", OTHER_GPU))
    assert run.rc != 0
    assert "none for sm_120a or sm_120f" in said(run.output), run.output
    building = site.host.check_output("ls -1d /opt/sglang/releases/*/ | tail -n 1").rstrip("/")
    assert not site.host.run(f"ls -d {building}/venv/lib/python3*/site-packages/sgl_kernel").stdout


def test_the_run_after_a_kernel_that_failed_completes(site: Host, attempts: dict[str, Stacks]) -> None:
    release = site.verified(site.build(attempts["kernel"]))
    assert "sm_120a" in release["kernel"]["architectures"]


def test_a_host_that_another_run_holds_is_left_alone(site: Host, stack: Stacks) -> None:
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

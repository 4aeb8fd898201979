"""The unit as it stands on the host, judged by systemd and the kernel."""

from __future__ import annotations

import typing as t

import pytest


def test_systemd_finds_nothing_wrong_with_the_units(host: t.Any) -> None:
    for unit in (
        "sglang-qwen.service",
        "sglang-verify@qwen.service",
        "sglang-verify@qwen.timer",
        "sglang-recover.service",
    ):
        run = host.run(f"systemd-analyze verify {unit}")
        assert run.rc == 0, run.stderr
        assert "sglang" not in run.stderr, run.stderr


@pytest.mark.parametrize("unit", ["sglang-qwen.service"])
def test_the_protection_is_rated_4_or_better(host: t.Any, unit: str) -> None:
    run = host.run(f"systemd-analyze security --no-pager --threshold=40 {unit}")
    assert run.rc == 0, run.stdout[-600:]


def test_the_gpus_stay_usable_under_that_protection(service: t.Any) -> None:
    assert len(service.used_mib()) == 8
    assert min(service.used_mib()) > 10000


def test_the_unit_asks_for_the_limits_that_pinned_memory_needs(service: t.Any) -> None:
    # What the kernel grants inside of a container is up to its hypervisor; gpu_host looks at that.
    assert service.show("LimitMEMLOCK") == "infinity"
    assert int(service.show("LimitNOFILE")) >= 65535


def test_the_service_user_reads_no_secret_and_writes_no_release(host: t.Any) -> None:
    release = host.check_output("readlink -f /opt/sglang/instances/qwen/release")
    for command in (
        "cat /etc/sglang/qwen.env",
        f"touch {release}/release.json",
        "touch /opt/sglang/lib/sglang_launch.py",
    ):
        run = host.run(f"runuser -u sglang -- {command}")
        assert run.rc != 0, command
        assert "Permission denied" in run.stderr


def test_a_stop_gives_the_engine_time_to_free_its_memory(service: t.Any) -> None:
    assert service.show("KillMode") == "mixed"
    assert service.show("TimeoutStopUSec") == "2min"
    assert service.show("Restart") == "on-failure"
    assert int(service.show("StartLimitBurst")) == 4

"""What systemd runs on the host between two runs of Ansible."""

from __future__ import annotations

import json
import typing as t


def test_the_timer_runs_with_the_instance_and_ends_with_it(service: t.Any) -> None:
    assert service.show("ActiveState", "sglang-verify@qwen.timer") == "active"
    assert service.unit in service.show("PartOf", "sglang-verify@qwen.timer")


def test_the_verifier_proves_what_runs(host: t.Any, service: t.Any) -> None:
    assert host.run("systemctl start sglang-verify@qwen.service").rc == 0
    invocation = service.show("InvocationID", "sglang-verify@qwen.service")
    said = host.check_output(f"journalctl --no-pager -o cat _SYSTEMD_INVOCATION_ID={invocation}")
    assert "ordered.kv: passed: bfloat16" in said
    assert "FAILED" not in said
    proof = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    assert proof["invocation_id"] == service.show("InvocationID")


def test_the_recovery_looks_at_every_boot_and_before_the_instance(host: t.Any, service: t.Any) -> None:
    assert host.service("sglang-recover.service").is_enabled
    assert "sglang-recover.service" in service.show("After")

"""The screen of status.yml, rendered from what the module returns."""

from __future__ import annotations

import pathlib
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = pathlib.Path(__file__).resolve().parents[3]
TEMPLATE = ROOT / "roles" / "sglang_service" / "templates" / "status.j2"


def screen(**changes: Any) -> list[str]:
    """The lines for a host with one GPU and one instance that runs well, or otherwise."""
    unit = {
        "active": "active",
        "sub": "running",
        "since": "Sun 2026-11-29 18:04:02 UTC",
        "enabled": True,
        "restarts": 0,
    }
    proof = {"at": "2026-11-29T18:07:31Z", "by": "run", "passed": True}
    state = {
        "gpus": {"error": "", "gpus": [{"index": 0, "used_mib": 90112, "total_mib": 97887}], "holders": []},
        "users": {"0": "sglang::scheduler_TP0 pid 11 (sglang, sglang-qwen.service)"},
        "instances": {
            "qwen": {
                "unit": unit,
                "link": "r1",
                "release": "r1",
                "is_good": True,
                "pending": None,
                "proof": proof,
                "reasons": [],
                "obstacles": [],
            }
        },
        "gates": {"qwen": {"passed": True, "error": "", "checks": [], "proof": {}, "diagnosis": None}},
        "diagnoses": {},
        "last_errors": {},
        "interrupted": {},
        "strangers": [],
        "hand_made": [],
        **changes,
    }
    variables = {
        "inventory_hostname": "llm1",
        "__sglang_service_state": state,
        "__sglang_service_chosen": [{"name": "qwen", "state": "started"}],
    }
    # As the template lookup does it.
    text = Templar(DataLoader(), variables).copy_with_new_env(searchpath=[str(TEMPLATE.parent)])
    overrides = {"trim_blocks": True, "lstrip_blocks": False}
    return str(text.template(trust_as_template(TEMPLATE.read_text(encoding="utf-8")), overrides=overrides)).splitlines()


def test_who_uses_a_gpu_stands_in_its_line() -> None:
    assert screen()[1] == "  GPU 0: 90112 of 97887 MiB, sglang::scheduler_TP0 pid 11 (sglang, sglang-qwen.service)"
    assert screen(users={"0": ""})[1] == "  GPU 0: 90112 of 97887 MiB"


def test_what_runs_well_has_no_line_about_errors() -> None:
    text = "\n".join(screen())
    for word in ("last error", "cut off", "diagnosis", "in the way"):
        assert word not in text


def test_the_last_error_and_a_deployment_that_was_cut_off_have_a_line_each() -> None:
    diagnosis = {"id": "x", "what": "A kernel read beyond its memory", "fix": "Another backend."}
    lines = screen(
        last_errors={"qwen": {"restarts": 2, "at": "2026-11-30T05:23:22Z", "diagnosis": diagnosis}},
        interrupted={"qwen": {"release": "r2", "at": "2026-11-29T18:00:00Z", "recovered": "2026-11-29T18:07:31Z"}},
    )
    assert (
        "    last error (2 restarts): A kernel read beyond its memory, 2026-11-30T05:23:22Z. Fix: Another backend."
        in lines
    )
    assert (
        "    the deployment of release r2 that began 2026-11-29T18:00:00Z was cut off by a boot, which took it back at"
        " 2026-11-29T18:07:31Z; site.yml has not proved anything since"
    ) in lines


def test_units_that_somebody_wrote_by_hand_have_a_line_each_and_are_no_strangers_too() -> None:
    waits = {"unit": "llm.service", "path": "/etc/systemd/system/llm.service", "active": "inactive", "enabled": True}
    runs = {"unit": "sglang-old.service", "path": "/srv/x", "active": "active", "enabled": False}
    lines = screen(
        hand_made=[{**waits, "port": 30000, "gpus": [0, 1]}, {**runs, "port": None, "gpus": []}],
        strangers=[{"unit": "sglang-old.service"}, {"unit": "sglang-gone.service"}],
    )
    assert lines[-3:] == [
        "  llm.service was made by hand (/etc/systemd/system/llm.service), is inactive, starts at boot, uses port 30000"
        " and GPU 0, 1",
        "  sglang-old.service was made by hand (/srv/x), is active, uses port unknown and GPU unknown",
        "  sglang-gone.service runs and is not in the inventory",
    ]

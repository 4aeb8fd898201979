"""The guard: each rule refuses its case, leaves the good case alone, and can be lifted by name."""

from __future__ import annotations

import datetime
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_guard as guard
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import known_bad
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_plan import Package

DEFAULT, PYTORCH = "https://a.example/simple", "https://b.example/cu130"
NIGHTLY = "2.12.0.dev20260307+cu130"
STACK: dict[str, t.Any] = {
    "indexes": {"default": DEFAULT, "pytorch": PYTORCH},
    "requirements": {"torch": {"version": f"=={NIGHTLY}", "index": "pytorch"}, "sglang": {"version": "==0.5.12.post1"}},
}
GOOD = {
    "torch": (NIGHTLY, PYTORCH),
    "sglang": ("0.5.12.post1", DEFAULT),
    "flashinfer-python": ("0.6.11.post1", DEFAULT),
    "flashinfer-cubin": ("0.6.11.post1", DEFAULT),
    "nvidia-cublas": ("13.1.0.3", DEFAULT),
    "nvidia-cudnn-cu13": ("9.19.0.56", DEFAULT),
}


def packages(**changed: tuple[str, str] | None) -> dict[str, Package]:
    """The good plan with some packages replaced; names with _ for -."""
    wanted: dict[str, tuple[str, str] | None] = {**GOOD}
    wanted.update({name.replace("_", "-"): value for name, value in changed.items()})
    return {
        name: Package(name, value[0], value[1], via=["sglang-stack"] if name in ("torch", "sglang") else ["sglang"])
        for name, value in wanted.items()
        if value is not None
    }


def refused(plan: dict[str, Package], before: dict[str, str] | None = None, **stack: t.Any) -> list[str]:
    """Ids of what would stop a run."""
    return [finding.id for finding in guard.refusals(guard.judge({**STACK, **stack}, plan, before or {}))]


def test_the_good_plan_passes() -> None:
    assert refused(packages(), {"torch": NIGHTLY}) == []


def test_torch_going_down_is_refused_with_the_chain() -> None:
    plan = packages(torch=("2.9.1+cu130", PYTORCH))
    plan["torch"].via = ["sglang", "sglang-stack"]
    plan["sglang"] = Package("sglang", "0.5.9", DEFAULT, via=["sglang-stack"])
    findings = guard.refusals(guard.judge(STACK, plan, {"torch": NIGHTLY}))
    assert [finding.id for finding in findings] == ["downgrade:torch"]
    assert findings[0].chain == ["sglang-stack", "sglang 0.5.9", "torch 2.9.1+cu130"]
    assert "downgrade:torch" in findings[0].text()


@pytest.mark.parametrize("companion", ["torchvision", "torchaudio", "triton"])
def test_companions_of_torch_going_down_are_refused(companion: str) -> None:
    assert refused(packages(**{companion: ("0.1", DEFAULT)}), {companion: "0.2"}) == [f"downgrade:{companion}"]


@pytest.mark.parametrize("version", ["2.12.0", "2.12.0+cu128", "2.12.0+cpu"])
def test_torch_leaving_its_cuda_build_is_refused(version: str) -> None:
    assert refused(packages(torch=(version, PYTORCH)), {"torch": "2.11.0+cu130"}) == ["build:torch"]


def test_a_cpu_build_is_refused_on_a_new_host_too() -> None:
    assert refused(packages(torch=("2.12.0+cpu", PYTORCH))) == ["build:torch"]


def test_unequal_parts_of_flashinfer_are_refused() -> None:
    plan = packages(flashinfer_jit_cache=("0.6.10+cu130", DEFAULT))
    assert refused(plan) == ["flashinfer-parts"]


def test_equal_parts_may_differ_in_their_build_tag() -> None:
    assert refused(packages(flashinfer_jit_cache=("0.6.11.post1+cu130", DEFAULT))) == []


def test_both_names_of_the_kernel_are_refused() -> None:
    both = {"sgl_kernel": ("0.3.21", DEFAULT), "sglang_kernel": ("0.4.2.post2", DEFAULT)}
    assert refused(packages(**both)) == ["same-files:sglang-kernel+sgl-kernel"]


def test_a_built_kernel_beside_the_old_wheel_is_refused() -> None:
    kernel = {"build": "source", "distribution": "sglang-kernel"}
    assert refused(packages(sgl_kernel=("0.3.21", DEFAULT)), kernel=kernel) == ["same-files:sglang-kernel+sgl-kernel"]


def test_mixed_cuda_majors_are_refused() -> None:
    assert refused(packages(nvidia_cudnn_cu12=("9.10.2.21", DEFAULT))) == ["cuda-majors"]


def test_code_generators_for_two_cuda_majors_may_stand_side_by_side() -> None:
    # sglang 0.5.23 resolves to both of these on the public index.
    plan = packages(nvidia_cutlass_dsl_libs_cu12=("4.8.0", DEFAULT), nvidia_cutlass_dsl_libs_cu13=("4.8.0", DEFAULT))
    assert refused(plan) == []


def test_an_unasked_prerelease_is_refused() -> None:
    assert refused(packages(sglang=("0.5.13rc1", DEFAULT))) == ["prerelease:sglang"]
    asked = {**STACK["requirements"], "sglang": {"prerelease": True}}
    assert refused(packages(sglang=("0.5.13rc1", DEFAULT)), requirements=asked) == []


def test_a_prerelease_that_a_package_requires_is_asked_for() -> None:
    assert refused(packages(flash_attn_4=("4.0.0b36", DEFAULT))) == []


def test_a_package_from_an_index_it_is_not_pinned_to_is_refused() -> None:
    assert refused(packages(sglang=("0.5.12.post1", PYTORCH))) == ["index:sglang"]
    assert refused(packages(torch=(NIGHTLY, DEFAULT))) == ["index:torch"]


def test_any_other_index_will_do_as_default_where_none_is_named() -> None:
    assert refused(packages(), indexes={"pytorch": PYTORCH}) == []


def test_known_bad_in_every_use_is_refused_and_in_some_is_a_warning() -> None:
    assert refused(packages(flashinfer_python=("0.6.5", DEFAULT), flashinfer_cubin=("0.6.5", DEFAULT))) == [
        "known-bad:flashinfer-python"
    ]
    plan = packages(flashinfer_python=("0.6.9", DEFAULT), flashinfer_cubin=("0.6.9", DEFAULT))
    findings = guard.judge(STACK, plan, {})
    assert ("known-bad:flashinfer-python", "warn") in [(finding.id, finding.severity) for finding in findings]
    assert guard.refusals(findings) == []


@pytest.mark.parametrize("name", ["downgrade:torch", "downgrade"])
def test_an_exception_lifts_by_id_or_rule_and_its_reason_is_kept(name: str) -> None:
    stack = {**STACK, "exceptions": [{"id": name, "reason": "comparing with March"}]}
    findings = guard.judge(stack, packages(torch=("2.9.1+cu130", PYTORCH)), {"torch": NIGHTLY})
    assert guard.refusals(findings) == []
    assert [finding.lifted for finding in findings if finding.id == "downgrade:torch"] == ["comparing with March"]


def test_an_exception_ends_on_its_day() -> None:
    stack = {**STACK, "exceptions": [{"id": "downgrade", "reason": "a week", "until": "2026-12-01"}]}
    plan, before = packages(torch=("2.9.1+cu130", PYTORCH)), {"torch": NIGHTLY}
    assert guard.refusals(guard.judge(stack, plan, before, datetime.date(2026, 12, 1))) == []
    assert len(guard.refusals(guard.judge(stack, plan, before, datetime.date(2026, 12, 2)))) == 1


def test_table_of_known_bad_versions_is_sound() -> None:
    for row in known_bad.TABLE:
        assert row.severity in ("refuse", "warn")
        assert row.source
        assert row.symptom
        assert row.use
    assert known_bad.find("nvidia-cublas", "13.3.0.5")[0].severity == "refuse"
    assert known_bad.find("nvidia-cublas", "13.1.0.3") == []
    assert known_bad.find("nvidia-cublas", "no version") == []

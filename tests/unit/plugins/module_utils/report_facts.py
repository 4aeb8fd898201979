"""What the roles leave behind after a run that served, in the shapes of their contracts; of our own making."""

from __future__ import annotations

import copy
import typing as t

META: dict[str, t.Any] = {
    "generated_at": "2026-11-29T20:00:00Z",
    "collection_version": "1.0.0",
    "run_seconds": 61.5,
    "host_exceptions": [{"id": "shm_small", "reason": "one card", "until": None}],
}

KV = {
    "verdict": "proved",
    "effective_dtype": "bfloat16",
    "evidence": [
        {"source": "log", "says": "Using KV cache dtype: torch.bfloat16 (TP0)", "weight": "proves"},
        {"source": "arithmetic", "says": "15357 bytes per token and GPU, BF16 makes 15360", "weight": "proves"},
    ],
    "recommendation": "",
}


def gate(invocation: str = "a" * 32, quick: bool = False, passed: bool = True) -> dict[str, t.Any]:
    """A gate's result; ``quick`` has the cheap checks alone."""
    checks = [
        {"id": "ready.unit", "passed": True, "expected": "active", "seen": "active", "evidence": [], "seconds": 0.02},
        {
            "id": "ordered.kv",
            "passed": True,
            "expected": "bfloat16",
            "seen": "bfloat16",
            "evidence": ["log"],
            "seconds": 0.3,
        },
    ]
    if not quick:
        text = "null where a log-probability should be" if not passed else "finite"
        checks.append(
            {
                "id": "right.logprobs",
                "passed": passed,
                "expected": "numbers",
                "seen": text,
                "evidence": [text],
                "seconds": 1.5,
            }
        )
    return {
        "passed": passed,
        "checks": checks,
        "proof": {
            "invocation_id": invocation,
            "at": "2026-11-29T19:59:58Z",
            "quick": quick,
            "kv": KV,
            "capacity": {"tokens": 1194148, "requests": 64, "context": 262144},
        },
    }


RESOLVED: dict[str, t.Any] = {
    "host": {"hypervisor": "pve1", "guest_kind": "lxc", "vmid": 129, "root": "/opt/sglang", "user": "sglang"},
    "stacks": {
        "nightly": {
            "name": "nightly",
            "digest": "0123456789ab",
            "channel": "nightly",
            "engine_version": "0.5.12.post1",
            "requirements": {
                "torch": {"version": "==2.12.0.dev20260307+cu130", "index": "pytorch", "prerelease": True},
                "sglang": {"version": "==0.5.12.post1", "index": "default"},
            },
            "overrides": ["torch"],
            "kernel": {
                "build": "source",
                "distribution": "sglang-kernel",
                "repository": "https://git.example.org/sgl-kernel.git",
                "commit": "v0.4.2.post2",
                "cmake_args": ["-DSGL_KERNEL_ENABLE_FP4=ON"],
                "cuda_arch_list": "12.0a",
            },
            "exceptions": [
                {"id": "torch_override", "reason": "the nightly is what was asked for", "until": "2027-01-01"}
            ],
        }
    },
    "instances": [
        {
            "name": "qwen",
            "unit": "sglang-qwen.service",
            "state": "started",
            "profile": "qwen3_5_397b_nvfp4",
            "stack": "nightly",
            "model_path": "/models/Qwen3.5-397B-A17B-NVFP4",
            "served_model_name": "qwen",
            "gpus": "all",
            "listen": {"host": "127.0.0.1", "port": 30000},
            "env": {"NCCL_P2P_LEVEL": "SYS", "HF_TOKEN": "hf_abcdefghijklmnop"},
            "need": {"context": 131072, "concurrent": 4},
            "argv": ["--model-path", "/models/Qwen3.5-397B-A17B-NVFP4", "--kv-cache-dtype", "bf16", "--tp-size", "8"],
            "api_key_set": True,
            "kv_cache_dtype": "bf16",
            "tp_size": 8,
            "exceptions": [],
        }
    ],
}

FACTS: dict[str, t.Any] = {
    "sglang_resolved": RESOLVED,
    "proxmox_gpu_result": {
        "hypervisor": "pve1",
        "guests": [
            {
                "vmid": 129,
                "kind": "lxc",
                "host": "sglang1",
                "running": True,
                "style": "dev",
                "devices": ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"],
                "missing": [],
                "warnings": [],
                "ok": True,
            }
        ],
    },
    "nightly_stack_result": {
        "stacks": {
            "nightly": {
                "release": {
                    "id": "20261129T195000Z-0a1b2c",
                    "path": "/opt/sglang/releases/20261129T195000Z-0a1b2c",
                    "state": "verified",
                    "python": "3.12.3",
                    "lock_digest": "0a1b2c",
                    "versions": {"torch": "2.12.0.dev20260307+cu130", "sglang": "0.5.12.post1"},
                    "findings": [
                        {
                            "id": "override:torch",
                            "what": "sglang 0.5.12.post1 asks for torch ==2.9.1, the stack's pin wins",
                            "severity": "warn",
                            "lifted": None,
                        }
                    ],
                },
                "todo": [],
                "changed": True,
                "changes": [{"action": "add", "name": "torch", "before": None, "after": "2.12.0.dev20260307+cu130"}],
            }
        }
    },
    "sgl_kernel_result": {
        "stacks": {
            "nightly": {
                "needed": True,
                "reason": "no wheel of this stamp",
                "stamp": "9f8e7d",
                "wheel": "sglang_kernel-0.4.2.post2-cp310-abi3-linux_x86_64.whl",
                "built": True,
                "commit": "1234567890abcdef",
                "patches": [{"id": "cmp0169", "status": "applied"}],
                "architectures": {"common_ops.abi3.so": ["sm_120a"]},
            }
        }
    },
    "sglang_service_result": {
        "instances": {
            "qwen": {
                "release_id": "20261129T195000Z-0a1b2c",
                "changed": True,
                "started": True,
                "ready_seconds": 93.4,
                "downtime_seconds": 101.25,
                "argv": RESOLVED["instances"][0]["argv"],
                "gate": gate(),
                "rollback": None,
                "diagnosis": None,
            }
        }
    },
}


def facts(**changes: t.Any) -> dict[str, t.Any]:
    """A copy that a test may change."""
    return {**copy.deepcopy(FACTS), **changes}


def quiet() -> dict[str, t.Any]:
    """The same host at the next run, which finds everything in place."""
    found = facts()
    stack = found["nightly_stack_result"]["stacks"]["nightly"]
    del stack["changed"], stack["changes"]
    kernel = found.pop("sgl_kernel_result")["stacks"]["nightly"]
    # The release itself knows its kernel.
    stack["release"]["kernel"] = {key: kernel[key] for key in kernel if key not in ("needed", "built", "reason")}
    done = found["sglang_service_result"]["instances"]["qwen"]
    done.update(changed=False, started=False, gate=gate(quick=True))
    return found


def failed() -> dict[str, t.Any]:
    """An engine that computes NaN, the release before it back in service."""
    found = facts(
        sglang_failure={
            "host": "sglang1",
            "task": "Gate the instance",
            "msg": "qwen: right.logprobs failed; key sk-verysecretkey",
        }
    )
    found["sglang_service_result"]["instances"]["qwen"].update(
        gate=gate(passed=False),
        diagnosis={
            "id": "nan",
            "what": "the model computes NaN",
            "lines": ["logprob: null"],
            "fix": "another FP4 backend",
        },
        rollback={"to_release": "20261128T100000Z-ffffff", "gate": gate("b" * 32)},
    )
    return found

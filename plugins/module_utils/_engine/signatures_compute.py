# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures of the computation: kernels, backends, NaN, caches, speculation (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature

COMPUTE: tuple[Signature, ...] = (
    Signature(
        id="sampling_nan_assert",
        pattern=r"probability tensor contains either `?inf`?, `?nan`? or element < 0",
        what="The logits became NaN or infinite and sampling stopped the server",
        why=(
            "On SM120 usually the race of CUTLASS GEMMs that were compiled without the grid dependency "
            "flags; it shows from about 64 concurrent requests on."
        ),
        fix=(
            "Use FlashInfer 0.6.8 or newer, or args.fp4_gemm_runner_backend: flashinfer_cudnn with cuDNN "
            "9.19.1.2; empty the JIT cache of the instance after the change."
        ),
        source="field report B001, flashinfer #2708, #2913",
        fixed_in="FlashInfer 0.6.8",
        example="RuntimeError: Assertion `probability tensor contains either `inf`, `nan` or element < 0` failed",
    ),
    Signature(
        id="nan_in_logits",
        pattern=r"Detected errors during sampling! NaN in the logits",
        what="The model computes NaN; --enable-nan-detection turns it into garbage tokens",
        why=(
            "A kernel of this combination of GPU, backend and version computes wrong. With speculation and "
            "cached tokens it is the known race of the draft worker."
        ),
        fix=(
            "Run backend_matrix to find a combination that computes right; leave enable_nan_detection off, "
            "it only hides."
        ),
        source="field report B016, sglang PR #19897",
        example="[2026-03-02 10:11:12 TP0] Detected errors during sampling! NaN in the logits.",
    ),
    Signature(
        id="nan_happened",
        pattern=r"NaN happened",
        what="A token outside of the vocabulary was sampled: the model computes NaN",
        why="Weights, scales or a kernel yield NaN; the server still answers 200.",
        fix="Run backend_matrix; check that the KV cache is BF16 and that the checkpoint's shards are complete.",
        source="engine facts 6, schedule_batch.py",
        example='{"finish_reason": "stop", "matched_stop": "NaN happened"}',
    ),
    Signature(
        id="trtllm_moe_needs_sm100",
        pattern=r"requires 10\.x architecture\. Current device has SM (?P<sm>\d+)|trtllm_batched_gemm_runner\.cu:\d+",
        what="The MoE backend flashinfer_trtllm has no kernels for this GPU",
        why=(
            "Its kernels are compiled for SM100 alone; `auto` picks them for every GPU from SM100 on in "
            "several versions."
        ),
        fix="args.moe_runner_backend: flashinfer_cutlass (or cutlass).",
        source="sm120 facts A.2",
        example="RuntimeError: trtllm_fp4_block_scale_moe requires 10.x architecture. Current device has SM 120",
    ),
    Signature(
        id="moe_runner_not_implemented",
        pattern=r"NotImplementedError: (?:.*create_moe_runner|Unsupported runner backend).*",
        what="The MoE layer has no runner for the backend that was chosen",
        why="`auto` chose flashinfer_trtllm on a GPU that cannot run it.",
        fix="args.moe_runner_backend: flashinfer_cutlass.",
        source="field report B008, sglang #39807",
        example="NotImplementedError: Unsupported runner backend: MoeRunnerBackend.FLASHINFER_TRTLLM",
    ),
    Signature(
        id="fp4_gemm_backend_unsupported",
        pattern=(
            r"(?P<function>mm_fp4|\w+) does not support backend '(?P<backend>\w+)' with capability "
            r"(?P<capability>\d+)"
        ),
        what="{function} has no {backend} kernels for compute capability {capability}",
        why="The backend was made for another generation; the default of some versions is trtllm.",
        fix="args.fp4_gemm_runner_backend: flashinfer_cudnn (with cuDNN 9.19.1.2) or flashinfer_cutlass.",
        source="field reports B002 and B011",
        example=(
            "flashinfer.utils.BackendSupportedError: mm_fp4 does not support backend 'trtllm' with capability 120"
        ),
    ),
    Signature(
        id="cudnn_no_plan",
        pattern=r"cudnnGraphNotSupportedError: No execution plans support the graph",
        what="cuDNN has no FP4 GEMM for this shape on this GPU",
        why="The installed cuDNN is older than 9.15, or FlashInfer 0.6.3 asks for a graph that it does not know.",
        fix="Pin nvidia-cudnn-cu13 to 9.19.1.2, or args.fp4_gemm_runner_backend: flashinfer_cutlass.",
        source="field report B002, flashinfer #2577",
        example="cudnn._compiled_module.cudnnGraphNotSupportedError: No execution plans support the graph.",
    ),
    Signature(
        id="cutlass_grouped_gemm_init",
        pattern=r"Failed to initialize cutlass TMA WS grouped gemm",
        what="CUTLASS could not start a grouped GEMM with a tactic",
        why=(
            "Tiles made for SM100 need more shared memory than the 99 KB of SM120; when all tactics fail "
            "the answers are garbage."
        ),
        fix=(
            "FlashInfer 0.6.11 or newer compiled for 12.0f or 12.0a with CUDA 13; a few such lines while "
            "tuning are harmless."
        ),
        source="field report B004, cutlass #3096, flashinfer #2723 and #3152",
        fixed_in="FlashInfer 0.6.11",
        level="degraded",
        example="[TensorRT-LLM][ERROR] Failed to initialize cutlass TMA WS grouped gemm. Error: Error Internal",
    ),
    Signature(
        id="triton_fp4_moe",
        pattern=r"run_fp4_blockwise_scaled_group_mm_sm120 half no implementation produced",
        what="The FP4 MoE has no kernel for float16 on SM120, so its output is garbage",
        why="Only bfloat16 is implemented; the triton runner cannot compute NVFP4 here.",
        fix="args.dtype: bfloat16 and args.moe_runner_backend: flashinfer_cutlass.",
        source="field report B019",
        example="run_fp4_blockwise_scaled_group_mm_sm120 half no implementation produced",
    ),
    Signature(
        id="w4a8_moe_init",
        pattern=r"cutlass_w4a8_moe_mm.*?GEMM initialization failed|GEMM initialization failed",
        what="The W4A8 MoE kernel does not start on this GPU",
        why="It was made for SM90.",
        fix="Use a checkpoint of another quantization, or another MoE backend.",
        source="field report B020",
        example="RuntimeError: cutlass_w4a8_moe_mm: GEMM initialization failed",
    ),
    Signature(
        id="scaled_mm_not_compiled",
        pattern=r"No compiled cutlass_scaled_mm for CUDA device capability: (?P<capability>\d+)",
        what="The kernel package holds no FP8 GEMM for capability {capability}",
        why="The wheel was built without this architecture.",
        fix="Build the kernel from source (kernel.build: source); the role proves the architectures in the .so.",
        source="field report B028",
        example="NotImplementedError: No compiled cutlass_scaled_mm for CUDA device capability: 120",
    ),
    Signature(
        id="hybrid_gdn_attention",
        pattern=(
            r"backends? (?:is|are) the only supported backends on Blackwell GPUs for hybrid GDN models"
            r"|backends are supported on Blackwell GPUs for hybrid GDN models\. (?:Got|got)"
        ),
        what="The attention backend is not admitted for this hybrid model on Blackwell",
        why="0.5.9 admits triton and trtllm_mha only; flashinfer on SM120 came with 0.5.17.",
        fix="args.attention_backend: triton.",
        source="field report B022, engine facts 2.3",
        fixed_in="0.5.17 (flashinfer on SM120)",
        example=(
            "AssertionError: triton or trtllm_mha backend are the only supported backends on Blackwell "
            "GPUs for hybrid GDN models, got: flashinfer"
        ),
    ),
    Signature(
        id="trtllm_attention_needs_sm100",
        pattern=r"TllmGenFmhaRunner|fmhaRunner.*Unsupported architecture",
        what="The attention backend trtllm has no kernels for this GPU",
        why="Its kernels are for SM100 and SM103.",
        fix="args.attention_backend: triton or flashinfer.",
        source="field reports B009 and B010",
        example="RuntimeError: Error in function 'TllmGenFmhaRunner' at fmhaRunner.cuh:30: Unsupported architecture",
    ),
    Signature(
        id="sparse_attention_architecture",
        pattern=r"Assertion error \(\S*attention\.hpp:\d+\): Unsupported architecture",
        what="The sparse attention kernels (FlashMLA, DeepGEMM) do not know this GPU",
        why="The defaults of DSA models are for SM90 and SM100.",
        fix="Set the prefill and decode backends of the sparse attention to flashinfer.",
        source="sm120 facts A.2, GLM-5",
        example="RuntimeError: Assertion error (csrc/apis/attention.hpp:159): Unsupported architecture",
    ),
    Signature(
        id="triton_shared_memory",
        pattern=r"out of resource: shared memory, Required: (?P<need>\d+), Hardware limit: (?P<limit>\d+)",
        what="A Triton kernel needs {need} bytes of shared memory, this GPU has {limit}",
        why="The tile sizes were tuned for another GPU; SM120 has 99 KB.",
        fix="Another attention or MoE backend for this model, or a version with tuned block sizes.",
        source="field report B025",
        example=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, "
            "Hardware limit: 101376."
        ),
    ),
    Signature(
        id="flashinfer_no_architecture",
        pattern=r"No supported CUDA architectures found for major versions \[12\]|SM 12\.x requires CUDA >= 12\.9",
        what="FlashInfer dropped SM120 because the nvcc that it found is older than 12.9",
        why="CUDA_HOME or PATH leads to an old toolkit although torch is of CUDA 13.",
        fix="env.CUDA_HOME to a toolkit of 12.9 or newer; gpu_host checks it.",
        source="field report B007, flashinfer #3633",
        example="RuntimeError: No supported CUDA architectures found for major versions [12].",
    ),
    Signature(
        id="flashinfer_sm75",
        pattern=r"FlashInfer requires GPUs with sm75 or higher",
        what="FlashInfer found no architecture that it can compile for",
        why="The same as an nvcc older than 12.9 on SM120: the architecture was dropped and the list is empty.",
        fix="env.CUDA_HOME to a toolkit of 12.9 or newer; gpu_host checks it.",
        source="field report B007",
        example="RuntimeError: FlashInfer requires GPUs with sm75 or higher",
    ),
    Signature(
        id="ptxas_e2m1",
        pattern=r"cvt with \.e2m1x2' not supported on \.target 'sm_120'",
        what="A JIT compilation for plain sm_120 failed",
        why="The FP4 conversion exists for sm_120a and sm_120f only.",
        fix="env.FLASHINFER_CUDA_ARCH_LIST: 12.0a (or 12.0f) and TORCH_CUDA_ARCH_LIST: 12.0a.",
        source="sm120 facts A.0, flashinfer #1966",
        example="ptxas error   : Instruction 'cvt with .e2m1x2' not supported on .target 'sm_120'",
    ),
    Signature(
        id="glibc_math_headers",
        pattern=r"exception specification is incompatible with that of previous function \"?(?P<function>\w+)\"?",
        what="nvcc cannot compile against this glibc's math headers ({function})",
        why="glibc 2.41 (Debian 13) declares functions that CUDA's headers declare otherwise.",
        fix="A guest with Ubuntu 24.04 (glibc 2.39) or a CUDA toolkit of 13.1 or newer.",
        source="field report B047",
        example='error: exception specification is incompatible with that of previous function "cospi"',
    ),
    Signature(
        id="jit_no_nvcc",
        pattern=(
            r"(?:Could not find|Unable to find) nvcc|nvcc(?:: command)? not found|CUDA_HOME environment"
            r" variable is not set"
        ),
        what="A kernel had to be compiled at run time and there is no nvcc",
        why="No CUDA toolkit on this host, or not on the unit's PATH.",
        fix="Install the toolkit (gpu_host says which) or set env.CUDA_HOME.",
        source="torch.utils.cpp_extension, flashinfer jit",
        example="RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist",
    ),
    Signature(
        id="jit_no_ninja",
        pattern=r"Ninja is required to load C\+\+ extensions|FileNotFoundError: .*'ninja'",
        what="A kernel had to be compiled at run time and ninja is missing",
        why="ninja is not installed on this host.",
        fix="Run gpu_host, which installs what JIT compilers need.",
        source="torch.utils.cpp_extension, flashinfer jit",
        example="RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)",
    ),
    Signature(
        id="jit_no_python_header",
        pattern=r"fatal error: Python\.h: No such file or directory",
        what="Triton could not compile its launcher: the headers of Python are missing",
        why="The package with Python's headers is not installed for the interpreter of the release.",
        fix="Run gpu_host, which installs them.",
        source="triton",
        example="/tmp/tmpx/main.c:6:10: fatal error: Python.h: No such file or directory",
    ),
    Signature(
        id="jit_no_compiler",
        pattern=r"Failed to find C compiler",
        what="Triton found no C compiler",
        why="gcc is not installed on this host.",
        fix="Run gpu_host, which installs gcc and g++.",
        source="triton",
        example=(
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set "
            "triton.knobs.build.impl."
        ),
    ),
    Signature(
        id="torch_symm_mem_capability",
        pattern=r"KeyError: 12$",
        what="--enable-torch-symm-mem does not know compute capability 12",
        why="The table of sizes has rows for 9 and 10 only; PCIe cards would not use it anyway.",
        fix="Remove args.enable_torch_symm_mem.",
        source="engine facts 7, sglang PR #24548",
        fixed_in="0.5.15.post1",
        example="KeyError: 12",
    ),
    Signature(
        id="fp8_kv_without_scales",
        pattern=r"Using FP8 KV cache but no scaling factors provided",
        what="The KV cache is FP8 and has no scales, so 1.0 is used",
        why="The checkpoint labels its KV cache FP8 without carrying scales; values beyond 448 are cut off.",
        fix="args.kv_cache_dtype: bf16.",
        source="capture kv_fp8_e4m3_explicit_api_key, field report B029",
        level="degraded",
        example=(
            "Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. "
            "This may lead to less accurate results!"
        ),
    ),
    Signature(
        id="moe_config_missing",
        pattern=(
            r"Using default MoE kernel config\. Performance might be sub-optimal! Config file not found at"
            r" (?P<path>\S+?),? "
        ),
        what="There is no tuned MoE configuration for this GPU and shape",
        why="The name of the device is part of the file's name; Server, Workstation and Max-Q differ.",
        fix="Nothing is wrong; tuning gains some throughput.",
        source="field report B068",
        level="degraded",
        example=(
            "Using default MoE kernel config. Performance might be sub-optimal! Config file not found at "
            "/opt/x/E=16,N=128,device_name=NVIDIA_H200.json, you can create them"
        ),
    ),
    Signature(
        id="spec_disables_radix",
        pattern=r"Disabling radix cache since speculative decoding for (?P<model>\S+) is not supported",
        what="The prefix cache is off, because speculation was asked for",
        why="0.5.9 switches it off in silence for hybrid models; later versions refuse.",
        fix="args.mamba_scheduler_strategy: extra_buffer with env.SGLANG_ENABLE_SPEC_V2: '1'.",
        source="engine facts 2.3",
        fixed_in="0.5.10",
        level="degraded",
        example=(
            "Disabling radix cache since speculative decoding for Qwen3_5MoeForConditionalGeneration is "
            "not supported with no_buffer"
        ),
    ),
    Signature(
        id="watchdog_timeout",
        pattern=r"[Ww]atchdog timeout \((?:self\.)?watchdog_timeout=(?P<seconds>[\d.]+)|Watchdog timeout",
        what="The scheduler made no progress for its watchdog's time",
        why="A kernel or a collective hangs, or one prefill took longer than --watchdog-timeout (300 s).",
        fix=(
            "args.watchdog_timeout: 600 for long prompts; if the GPUs stay at full load without progress "
            "see the NCCL entries."
        ),
        source="field report B115",
        example="[2026-05-01 10:00:00 TP0] Watchdog timeout (self.watchdog_timeout=300)",
    ),
    Signature(
        id="detokenizer_silent",
        pattern=r"Health check failed\. [Ss]erver couldn?'?(?:t| not) get a response from detokenizer",
        what="The server got no token within the time of its health check",
        why="A very long prefill, or a hang. /health answers 503 meanwhile.",
        fix="env.SGLANG_HEALTH_CHECK_TIMEOUT for long prompts; otherwise look for the hang.",
        source="sm120 facts A.4 and F, sglang #22511",
        level="degraded",
        example="Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    ),
    Signature(
        id="cutlass_sfa_divisible",
        pattern=r"assert K % 4 == 0|No valid tactics available for fused moe op",
        what="The MoE backend has no kernel for this shape on this GPU",
        why="flashinfer_mxfp4 was made for SM90 and SM100.",
        fix="args.moe_runner_backend: triton for MXFP4 models.",
        source="sm120 facts A.2, flashinfer #2122, sglang #24692",
        example="RuntimeError: No valid tactics available for fused moe op with the requested input combination.",
    ),
    Signature(
        id="router_weight_on_input",
        pattern=r"apply_router_weight_on_input is not supported for Flashinfer",
        what="This model's MoE cannot run on the FlashInfer backends",
        why="Llama-4 applies the router's weight to the input, which they do not implement.",
        fix="args.moe_runner_backend: cutlass or triton.",
        source="sm120 facts A.2, sglang #34192",
        example="AssertionError: apply_router_weight_on_input is not supported for Flashinfer",
    ),
    Signature(
        id="custom_all_reduce",
        pattern=r"CustomAllReduceV2|custom_all_reduce.*(?:error|Error)",
        what="The custom all-reduce failed",
        why="A regression of a nightly build, or PCIe cards without peer access.",
        fix="args.disable_custom_all_reduce: true; go back to the last good release.",
        source="field reports B055 and B082",
        example="RuntimeError: CustomAllReduceV2 is not initialized",
    ),
    Signature(
        id="gate_nan",
        pattern=r"gate: right\.\w+: .*(?:computes NaN|NaN happened|outside of the vocabulary)",
        what="The server answers 200 and computes NaN",
        why=(
            "A kernel of this combination of GPU, backends and versions computes wrong, the weights are damaged, or"
            " a stale JIT cache is in use. /health cannot see it."
        ),
        fix=(
            "Run backend_matrix to find backends that compute right on this host; check the checkpoint's files; after"
            " a change of FlashInfer the caches are new by themselves, since they belong to the release."
        ),
        source="capture nan_weights",
        example="gate: right.logprobs: 16 of 16 log-probabilities are null, not numbers: the model computes NaN",
    ),
    Signature(
        id="gate_garbage",
        pattern=r"gate: right\.\w+: .*(?:a loop|characters are|replacement characters|the answer is empty)",
        what="The server answers 200 with text that makes no sense",
        why="An attention or MoE backend computes wrong for this model on this GPU, or the KV cache lost its scales.",
        fix="args.kv_cache_dtype: bf16; then backend_matrix for other attention and MoE backends.",
        source="field reports B013, B014 and B032",
        example="gate: right.text: 64 of 64 characters are '!'",
    ),
    Signature(
        id="gate_differs",
        pattern=r"gate: right\.same: .*the answers differ",
        what="The same prompt gets another answer when its prefix comes from the cache",
        why="The path that reads cached tokens computes other values: a wrong KV cache dtype or kernel, or a race.",
        fix="Try args.disable_radix_cache: true to confirm, then another attention backend.",
        source="field report B016",
        example="gate: right.same: the answers differ from token 3 on (log-probabilities [-0.1, -4.2])",
    ),
    Signature(
        id="gate_port",
        pattern=r"gate: ready\.\w+: port (?P<port>\d+) is answered by (?P<who>.*), which is not of",
        what="Port {port} is answered by {who}, not by this server",
        why="It took the port while this server loaded: the engine binds only after that, and then ends.",
        fix="Stop it, or choose another args.port.",
        source="captures fail_port_in_use and tp2_auto_beaten_to_the_port",
        example=(
            "gate: ready.started: port 30000 is answered by python3 (pid 7, user nobody, x.service), which is not of"
            " sglang-qwen.service"
        ),
    ),
    Signature(
        id="gate_hangs",  # before gate_not_ready, which matches the same line
        pattern=r"gate: ready\.started: (?P<seen>not ready after .*503.*the engine says that it is ready.*)",
        what="The server loaded, called itself ready, and gives no token: {seen}",
        why=(
            "A kernel or a collective hangs: /health computes a token and answers 503 when none comes within 20 s. More"
            " time does not help."
        ),
        fix=(
            "Look at the GPUs (full load without progress means NCCL: env.NCCL_P2P_DISABLE: '1') and at the kernel's"
            " log for an Xid; with neither, let backend_matrix look for other backends."
        ),
        source="engine facts 6, field reports B070 and B115",
        example=(
            "gate: ready.started: not ready after 9 s: 503: loaded, not yet warmed up; the engine says that it is ready"
        ),
    ),
    Signature(
        id="gate_not_ready",
        pattern=r"gate: ready\.started: (?P<seen>not ready after .*?); the limit is (?P<limit>gate\.\w+)",
        what="The server did not become ready: {seen}",
        why=(
            "It is slower than the limit (a cold JIT cache, a slow disk), or it hangs: a collective between the ranks"
            " that never ends shows as GPUs at full load with flat memory."
        ),
        fix="Raise {limit} if the log moves on; if it stands still, try env.NCCL_P2P_DISABLE: '1'.",
        source="field reports B070, B071 and B116",
        example=(
            "gate: ready.started: not ready after 900 s: port closed; loading shard 3 of 120; the limit is"
            " gate.ready_timeout_warm, warm start, the JIT caches of r1 are there: raise it if the log moves on"
        ),
    ),
    Signature(
        id="gate_starting",
        pattern=r"gate: ready\.started: (?P<seen>not ready yet: [^;]*(?:; [^;]*)?)",
        what="The server is still starting: {seen}",
        why="This look did not wait for it.",
        fix="Wait for it; site.yml waits, and shows what it does.",
        source="design, the gate",
        example="gate: ready.started: not ready yet: port closed; loading shard 3 of 120; last log line read: Loading",
    ),
    Signature(
        id="gate_died",
        pattern=r"gate: ready\.started: (?P<seen>sglang-\S+ (?:is (?:failed|inactive|activating)|ended) .*)",
        what="The server ended while it was waited for: {seen}",
        why="Its log names no reason that the catalogue knows.",
        fix="Read the first exception in the journal of this start.",
        source="design, the gate",
        level="generic",
        example="gate: ready.started: sglang-qwen.service is failed (failed): exit-code, status 1",
    ),
    Signature(
        id="gate_kv",
        pattern=r"gate: ordered\.kv: (?P<seen>.*)",
        what="The KV cache is not proved to be as ordered: {seen}",
        why="The evidence of the check says which source refutes it or is missing.",
        fix="Write args.kv_cache_dtype, never auto, for a checkpoint that labels its KV cache.",
        source="design, KV cache guard",
        example="gate: ordered.kv: fp8_e4m3: refuted",
    ),
    Signature(
        id="gate_crowded",
        pattern=r"gate: roomy\.free: (?P<seen>.*)",
        what="Another process holds GPU memory, or held it while this server loaded: {seen}",
        why="A forgotten server, or another guest on the same GPUs. The engine starts beside it without a word.",
        fix="status names the holders; stop them, then restart.",
        source="capture tp2_bf16_beside_a_forgotten_server",
        example="gate: roomy.free: 68.18 GiB on TP0",
    ),
)

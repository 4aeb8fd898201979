# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of CUDA itself, in the words of every layer that prints them (private to the collection).

The same error has several forms: torch writes ``CUDA error:`` and its text (as RuntimeError, in newer versions as
AcceleratorError, some with the name beside it), Triton ``Triton Error [CUDA]:``, NCCL ``Cuda failure 719 'text'``,
other libraries the name of the runtime or of the driver API alone. So text and both names are looked for.
"""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature

CUDA: tuple[Signature, ...] = (
    Signature(
        id="illegal_instruction",
        pattern=r"an illegal instruction was encountered|cudaErrorIllegalInstruction|CUDA_ERROR_ILLEGAL_INSTRUCTION",
        what="A kernel used an instruction that this GPU does not have",
        why="CUTLASS 4.2 selects SM100 code on SM120.",
        fix="FlashInfer with CUTLASS 4.4.2 or newer (FlashInfer 0.6.7); empty the JIT cache.",
        source="field report B026, flashinfer #2798",
        fixed_in="FlashInfer 0.6.7",
        example=(
            "torch.AcceleratorError: CUDA error: an illegal instruction was encountered (cudaErrorIllegalInstruction)"
        ),
    ),
    Signature(
        id="illegal_memory_access",
        pattern=r"an illegal memory access was encountered|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS",
        what="A kernel wrote or read outside of its memory",
        why=(
            "Stale precompiled kernels of another version, NCCL 2.26.2 with messages from 512 KiB on, or "
            "more drafted tokens than the draft model takes."
        ),
        fix=(
            "Empty the instance's JIT cache; check that the FlashInfer parts are of one version and NCCL "
            "is not 2.26.2; lower speculative_num_draft_tokens."
        ),
        source="field reports B044 and B073",
        example="torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    Signature(
        id="device_side_assert",
        pattern=(
            r"device-side assert triggered|cudaErrorAssert|CUDA_ERROR_ASSERT|_zero_fill_draft_kv_for_cached_prefix"
        ),
        what="An assertion failed on the GPU",
        why=(
            "Often an index out of range after NaN (token id outside of the vocabulary); with speculation "
            "and prefix cache a known race."
        ),
        fix="Without speculation first; then with the radix cache off to tell the two apart.",
        source="field report B016",
        example="torch.AcceleratorError: CUDA error: device-side assert triggered",
    ),
    Signature(
        id="no_kernel_image",
        pattern=(
            r"no kernel image is available for execution|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU"
        ),
        what="A compiled library holds no code for this GPU",
        why="It was built without sm_120 (FA3 exists for SM90 only, for instance).",
        fix="Build the kernel for 12.0a; args.attention_backend: triton or flashinfer.",
        source="field report B034",
        example=(
            "CUDA error (/x/flash-attention/hopper/flash_fwd_launch_template.h:166): no kernel image is "
            "available for execution on the device"
        ),
    ),
    Signature(
        id="launch_failure",
        pattern=r"unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED",
        what="A kernel ended with a fault on the GPU that CUDA does not name",
        why=(
            "Most often a kernel that left its shared memory or followed a bad pointer; a card, its power or its link "
            "that fails shows the same way, and then the kernel's log holds an Xid of that moment. The stack below it "
            "is of a later call."
        ),
        fix=(
            "Read the hypervisor's kernel log for an Xid of that minute (gpu_host reports them). With none: empty the "
            "instance's JIT cache and let backend_matrix look for other backends; env.CUDA_LAUNCH_BLOCKING: '1' names "
            "the kernel, at the price of speed."
        ),
        source="CUDA runtime API, error 719; sglang #15132",
        example="torch.AcceleratorError: CUDA error: unspecified launch failure",
    ),
    Signature(
        id="misaligned_address",
        pattern=(r"C[Uu][Dd][Aa].*[:'] ?misaligned address|cudaErrorMisalignedAddress|CUDA_ERROR_MISALIGNED_ADDRESS"),
        what="A kernel read or wrote at an address that its instruction cannot use",
        why="A kernel assumes another layout than the tensor has: odd head sizes, a slice, or a stale compiled kernel.",
        fix="Empty the instance's JIT cache; then another attention or MoE backend (backend_matrix finds one).",
        source="CUDA runtime API, error 716",
        example="torch.AcceleratorError: CUDA error: misaligned address",
    ),
    Signature(
        id="launch_timeout",
        pattern=r"the launch timed out and was terminated|cudaErrorLaunchTimeout|CUDA_ERROR_LAUNCH_TIMEOUT",
        what="The driver ended a kernel that ran too long",
        why="A display or another user of the card has its watchdog on, or the kernel never ends.",
        fix="Take the card from any display server; if it comes back without one, try another backend.",
        source="CUDA runtime API, error 702",
        example="RuntimeError: CUDA error: the launch timed out and was terminated",
    ),
    Signature(
        id="ecc_uncorrectable",
        pattern=r"uncorrectable ECC error encountered|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        what="A GPU's memory returned a wrong bit that it could not put right",
        why="A memory cell failed. The row is remapped at the next reset of the card.",
        fix=(
            "nvidia-smi -q -d ECC,ROW_REMAPPER names the card; reset it or reboot the hypervisor so that the row is "
            "remapped, and have the card replaced if it comes back."
        ),
        source="CUDA runtime API, error 214",
        example="torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    ),
    Signature(
        id="devices_unavailable",
        pattern=(
            r"CUDA-capable device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable"
            r"|CUDA_ERROR_DEVICE_UNAVAILABLE"
        ),
        what="The GPU takes no new process",
        why="Its compute mode is exclusive and another process has it, or the card waits for a reset.",
        fix="status names who has it; nvidia-smi -c DEFAULT on the hypervisor, or reset the card.",
        source="CUDA runtime API, error 46",
        example="torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    Signature(
        id="cublas_failed",
        pattern=r"CUBLAS_STATUS_(?P<status>EXECUTION_FAILED|NOT_INITIALIZED|INTERNAL_ERROR|ALLOC_FAILED|ARCH_MISMATCH)",
        what="cuBLAS failed ({status})",
        why=(
            "EXECUTION_FAILED is usually a fault of an earlier kernel, NOT_INITIALIZED and ALLOC_FAILED a GPU without "
            "memory left for its workspace; with cuBLAS 13.3 SM120 saw invalid accesses that 13.1.0.3 does not have."
        ),
        fix="Pin nvidia-cublas to 13.1.0.3 in the stack; lower args.mem_fraction_static by 0.02.",
        source="cuBLAS library documentation; engine facts 1.8",
        example="RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(...)`",
    ),
)

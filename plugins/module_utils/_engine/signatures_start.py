# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures of a start: arguments, checkpoint, packages, memory, port (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature

START: tuple[Signature, ...] = (
    Signature(
        id="unknown_argument",
        pattern=r"error: unrecognized arguments: (?P<words>.*)",
        what="The engine does not know an argument: {words}",
        why="The flag is of another version, of a fork, or is a field's name and not the flag's spelling.",
        fix="Give it by field name under args, which is translated for each version, or remove it.",
        source="capture fail_unrecognized_argument",
        example="sglang serve: error: unrecognized arguments: --fp4-gemm-runner-backend flashinfer_cudnn",
    ),
    Signature(
        id="invalid_choice",
        pattern=r"error: argument (?P<flag>--[\w-]+).*?: invalid choice: '(?P<value>[^']*)'",
        what="{flag} does not take the value {value}",
        why="The choices differ between versions; this one does not have the value.",
        fix="Take one of the choices that the line lists.",
        source="capture fail_invalid_choice",
        example=(
            "sglang serve: error: argument --moe-runner-backend: invalid choice: 'nope' (choose from 'auto', 'triton')"
        ),
    ),
    Signature(
        id="ambiguous_argument",
        pattern=r"error: ambiguous option: (?P<flag>\S+) could match (?P<options>.*)",
        what="{flag} is the beginning of several flags: {options}",
        why="The flag was split in a later version (--cuda-graph-max-bs into -decode and -prefill from 0.5.21 on).",
        fix="Give the argument by field name under args, which is translated for each version.",
        source="engine source 0.5.21, arg_groups",
        example=(
            "sglang serve: error: ambiguous option: --cuda-graph-max-bs could match "
            "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill"
        ),
    ),
    Signature(
        id="argument_needs_value",
        pattern=(
            r"error: argument (?P<flag>--[\w-]+).*?: (?:expected (?:one|at least one) argument|invalid \w+"
            r" value: .*)"
        ),
        what="{flag} has no value or one of the wrong type",
        why="The argument list is incomplete or a word of it was lost.",
        fix="Give the argument under args as field: value.",
        source="argparse",
        example="sglang serve: error: argument --tp-size/--tensor-parallel-size: invalid int value: 'eight'",
    ),
    Signature(
        id="json_of_checkpoint",
        pattern=r"json\.decoder\.JSONDecodeError: (?P<reason>.*)",
        what="A JSON file of the checkpoint is broken: {reason}",
        why="A download or copy was cut, or the file was edited by hand. The engine does not name the file.",
        fix="Run validate, which names the file; fetch config.json, hf_quant_config.json and the index again.",
        source="capture fail_broken_hf_quant_config",
        example=(
            "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 "
            "column 74 (char 73)"
        ),
    ),
    Signature(
        id="capability_too_low",
        pattern=(
            r"quantization method (?P<method>\S+) is not supported for the current GPU\. Minimum"
            r" capability: (?P<least>\d+)\. Current capability: (?P<now>\d+)"
        ),
        what="{method} needs compute capability {least}, this GPU has {now}",
        why="The quantization has no kernels for this generation of GPUs.",
        fix="Use a checkpoint of another quantization on this GPU.",
        source="capture fail_nvfp4_on_sm90",
        example=(
            "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. "
            "Minimum capability: 100. Current capability: 90."
        ),
    ),
    Signature(
        id="speculation_without_extra_buffer",
        pattern=(
            r"Speculative decoding for (?P<model>\S+) is not compatible with radix cache when using"
            r" --mamba-scheduler-strategy no_buffer"
        ),
        what="Speculative decoding of {model} needs the extra_buffer strategy",
        why="With no_buffer the state of a hybrid model cannot be rolled back when drafted tokens are refused.",
        fix=(
            "args.mamba_scheduler_strategy: extra_buffer and env.SGLANG_ENABLE_SPEC_V2: '1' (up to "
            "0.5.13), or no speculation."
        ),
        source="capture fail_nextn_without_extra_buffer",
        example=(
            "ValueError: Speculative decoding for Qwen3NextForCausalLM is not compatible with radix cache "
            "when using --mamba-scheduler-strategy no_buffer.To use radix cache"
        ),
    ),
    Signature(
        id="not_enough_memory",
        pattern=r"Not enough memory\. Please try to increase --mem-fraction-static",
        what="After the weights no memory was left for the KV cache",
        why="mem_fraction_static is too small for these weights, or another process holds memory on the GPU.",
        fix="Look at status for who holds the GPUs; raise args.mem_fraction_static or use more GPUs.",
        source="capture fail_not_enough_memory",
        example="RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    Signature(
        id="weights_leave_no_memory",
        pattern=r"Loaded weights leave no GPU memory",
        what="The weights fill the GPU memory that the engine may use",
        why="The model is too large for this tensor parallel size and mem_fraction_static.",
        fix="Raise args.tp_size or args.mem_fraction_static.",
        source="engine source 0.5.23, kv_cache_configurator.py",
        example="RuntimeError: Loaded weights leave no GPU memory for the KV cache",
    ),
    Signature(
        id="port_in_use",
        pattern=r"\[Errno 98\] error while attempting to bind on address \('(?P<host>[^']*)', (?P<port>\d+)\)",
        what="Port {port} on {host} is taken by another process",
        why="The engine binds only after loading; another server took the port before or meanwhile.",
        fix="status names who listens; stop it or choose another args.port.",
        source="captures fail_port_in_use and tp2_auto_beaten_to_the_port",
        example=(
            "[2026-11-29 18:00:53] ERROR:    [Errno 98] error while attempting to bind on address "
            "('127.0.0.1', 30000): address already in use"
        ),
    ),
    Signature(
        id="cuda_out_of_memory",
        pattern=(
            r"(?:torch\.(?:cuda\.)?OutOfMemoryError: )?CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)"
        ),
        what="A GPU ran out of memory while {size} were asked for",
        why=(
            "mem_fraction_static leaves too little for activations and graphs, a request is larger than "
            "planned, or another process uses the GPU."
        ),
        fix="Lower args.mem_fraction_static by 0.02 to 0.05, args.chunked_prefill_size or args.cuda_graph_max_bs.",
        source="engine facts 6",
        example=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
            "capacity of 94.97 GiB"
        ),
    ),
    Signature(
        id="model_unknown",
        pattern=r"(?P<model>\w+) has no SGlang implementation",
        what="The engine found no implementation of {model}",
        why=(
            "Often misleading: the model's file was skipped because one of its imports failed (an 'Ignore "
            "import error when loading' line above names it, in 0.5.9 usually FA3 that was not built)."
        ),
        fix=(
            "Look at the 'Ignore import error' lines; build the kernel with FA3, or use 0.5.11 or newer, "
            "which loads it lazily."
        ),
        source="engine facts 1.8",
        fixed_in="0.5.11 (for the FA3 import)",
        example=(
            "ValueError: Qwen3_5MoeForConditionalGeneration has no SGlang implementation and the "
            "Transformers implementation is not compatible"
        ),
    ),
    Signature(
        id="fa3_missing",
        pattern=r"ImportError: Can not import FA3 in sgl_kernel",
        what="The engine needs FA3, which this kernel was built without",
        why="The kernel's flash_ops extension is absent (built with FA3=OFF, or not for this architecture).",
        fix="args.attention_backend: triton or flashinfer, or build the kernel with FA3.",
        source="engine facts 1.8",
        example="ImportError: Can not import FA3 in sgl_kernel. Please check your installation.",
    ),
    Signature(
        id="kernel_library_missing",
        pattern=r"\[sgl_kernel\] CRITICAL: Could not load any common_ops library",
        what="The kernel package has no library that loads here",
        why="It was built for another CUDA (libcudart.so.12 against a cu130 environment) or another torch ABI.",
        fix="Build it from source against the installed torch (kernel.build: source in the stack).",
        source="field report B038",
        example="ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library!",
    ),
    Signature(
        id="undefined_symbol",
        pattern=r"(?P<library>\S+\.so\S*): undefined symbol: (?P<symbol>\S+)",
        what="{library} does not fit the installed torch ({symbol} is missing)",
        why="A compiled extension was built for another version of torch; its C++ ABI changed.",
        fix="Build the kernel against the installed torch, or pin torch to the version it was built for.",
        source="field report B037",
        example=(
            "ImportError: /opt/x/sgl_kernel/sm100/common_ops.abi3.so: undefined symbol: "
            "_ZN3c104cuda29c10_cuda_check_implementation"
        ),
    ),
    Signature(
        id="shared_library_missing",
        pattern=r"(?:ImportError|OSError): (?P<library>\S+\.so[.\d]*): cannot open shared object file",
        what="The shared library {library} is neither in the release nor on the host",
        why="A package was built for another CUDA (libcudart.so.12 in an environment of cu130), or one is left out.",
        fix="Let the stack pin the build of that package for its CUDA, or build the kernel from source; then site.yml.",
        source="engine facts 1.9, sgl_kernel 0.3.21 in an environment of cu130",
        example="ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    ),
    Signature(
        id="flashinfer_parts_differ",
        pattern=(
            r"flashinfer-(?P<part>cubin|jit-cache) version \((?P<one>[^)]*)\) does not match flashinfer"
            r" version \((?P<two>[^)]*)\)"
        ),
        what="flashinfer-{part} is {one} but flashinfer is {two}",
        why="The precompiled parts must be of the same version; they are not on PyPI and are easily left behind.",
        fix=(
            "Pin flashinfer-python, -cubin and -jit-cache to one version in the stack. Do not switch the "
            "check off: stale kernels give illegal memory accesses (field report B044)."
        ),
        source="field report B043",
        example="RuntimeError: flashinfer-cubin version (0.6.9) does not match flashinfer version (0.6.11.post1).",
    ),
    Signature(
        id="transformers_unknown_model",
        pattern=r"model type `?(?P<type>[\w-]+)`? but Transformers does not recognize this architecture",
        what="The installed transformers does not know the model type {type}",
        why="The model is newer than the library.",
        fix="Pin a newer transformers in the stack (Qwen3.5 needs 5.3 or newer).",
        source="engine facts 8",
        example=(
            "ValueError: The checkpoint you are trying to load has model type `qwen3_5_moe` but "
            "Transformers does not recognize this architecture."
        ),
    ),
    Signature(
        id="checkpoint_file_missing",
        pattern=(
            r"(?:FileNotFoundError: .*?No such file or directory: '(?P<path>[^']+)'|(?P<folder>\S+) does"
            r" not appear to have a file named (?P<file>config\.json|tokenizer\S*))"
        ),
        what="A file of the checkpoint is missing: {path}{folder} {file}",
        why="The download is not complete or model_path points elsewhere.",
        fix=(
            "Compare the folder with the model's file list; the mount of the model must be there before "
            "the unit starts."
        ),
        source="transformers, safetensors",
        example=(
            "OSError: /models/qwen does not appear to have a file named config.json. Checkout 'https://huggingface.co'"
        ),
    ),
    Signature(
        id="model_path_is_no_folder",
        pattern=(
            r"(?:Repo id must|HFValidationError|Repo id must be in the form)|(?:is not a local folder and"
            r" is not a valid model identifier)"
        ),
        what="model_path is not a folder on this host, so it was taken for a name on a hub",
        why="The path is mistyped, or its file system was not mounted when the unit started.",
        fix="Mount the model's file system; check model_path.",
        source="huggingface_hub",
        example=(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            "'namespace/repo_name': '/models/qwen'."
        ),
    ),
    Signature(
        id="shard_truncated",
        pattern=(
            r"SafetensorError: (?:Error while deserializing header: )?(?:MetadataIncompleteBuffer"
            r"|InvalidHeader\w*|HeaderTooSmall|HeaderTooLarge|incomplete metadata)"
        ),
        what="A safetensors file is cut or damaged",
        why="A download was interrupted or a disk is full.",
        fix="Fetch the shards whose size differs from the hub's again; the checkpoint check of the role names them.",
        source="safetensors",
        example="safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    ),
    Signature(
        id="weight_shape",
        pattern=(
            r"Tried to load weights of size torch\.Size\((?P<one>\[[^]]*\])\) ?to a parameter of size"
            r" torch\.Size\((?P<two>\[[^]]*\])\)"
        ),
        what="A tensor of the checkpoint has shape {one}, the model expects {two}",
        why=(
            "A layer that is not quantized is missing from the ignore list (mtp.fc, mlp.gate), so packed "
            "and plain shapes mix."
        ),
        fix="Add the layer to ignore in config.json and to exclude_modules in hf_quant_config.json, both.",
        source="field report B059",
        example=(
            "AssertionError: Tried to load weights of size torch.Size([512, 4096])to a parameter of size "
            "torch.Size([512, 2048])"
        ),
    ),
    Signature(
        id="input_size_multiple_of_16",
        pattern=r"in(?:put)? ?features? size is not (?:a )?multiple of 16",
        what="A layer is too narrow for the NVFP4 kernel",
        why="A layer that should stay unquantized is missing from the ignore list.",
        fix="Add it to ignore in config.json and to exclude_modules in hf_quant_config.json.",
        source="field report B059",
        example="ValueError: in features size is not multiple of 16",
    ),
    Signature(
        id="context_longer_than_model",
        pattern=(
            r"User-specified context_length \((?P<asked>\d+)\) is greater than the derived context_length"
            r" \((?P<most>\d+)\)"
        ),
        what="context_length {asked} is more than the model's {most}",
        why="The engine refuses to go beyond what the model was trained for.",
        fix=(
            "args.context_length of at most {most}; SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 only if "
            "you know the model."
        ),
        source="engine facts 2.3",
        example=(
            "ValueError: Warning: User-specified context_length (524288) is greater than the derived "
            "context_length (262144)."
        ),
    ),
    Signature(
        id="moe_intermediate_not_divisible",
        pattern=(
            r"(?:tensor parallel size|tp_size) .*(?:not divisible|must be divisible)|is not divisible by "
            r"(?:the )?(?:tp_size|tensor parallel)"
        ),
        what="The model cannot be cut into this many parts",
        why="Heads or a layer's width are no multiple of the tensor parallel size.",
        fix="Take a tp_size that divides them: 1, 2, 4 or 8 for most models.",
        source="engine source",
        example="AssertionError: 30 is not divisible by tp_size 8",
    ),
    Signature(
        id="bf16_kv_impossible",
        pattern=r"bf16 is not supported for (?P<model>\w+)",
        what="{model} cannot have a BF16 KV cache",
        why="Its attention kernels store FP8 only.",
        fix="args.kv_cache_dtype: fp8_e4m3 with an exception that says why.",
        source="sm120 facts A.2, DeepSeek-V4",
        example="AssertionError: bf16 is not supported for DeepseekV4ForCausalLM",
    ),
    Signature(
        id="cudnn_check",
        pattern=r"CRITICAL WARNING: PyTorch (?P<torch>[\d.]+) & CuDNN Compatibility Issue Detected",
        what="PyTorch {torch} and the installed cuDNN do not go together",
        why="torch 2.9.1 with cuDNN before 9.15 computes wrong convolutions for vision towers.",
        fix="Pin nvidia-cudnn-cu13 to 9.19.1.2 in the stack.",
        source="engine facts 2.3",
        example="CRITICAL WARNING: PyTorch 2.9.1 & CuDNN Compatibility Issue Detected",
    ),
    Signature(
        id="warmup_failed",
        pattern=r"Initialization failed\. warmup error|Warmup failed|warmup error:",
        what="The engine's own warm-up request failed, so it ended itself",
        why=(
            "Another server answered on the port, the first kernels did not compile, or the first request "
            "computed nonsense."
        ),
        fix="Read the first exception above it; SGLANG_WARMUP_TIMEOUT gives a slow first compilation more time.",
        source="engine facts 6",
        level="generic",
        example="[2026-11-29 18:00:53] Initialization failed. warmup error: Traceback (most recent call last):",
    ),
)

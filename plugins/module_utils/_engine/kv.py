# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What versions of SGLang do with KV caches, as tables (private to the collection).

Every row has a range of versions and the place in SGLang's own source that it was read from; paths are relative to
``sglang/srt/`` of the published wheel. All wheels from 0.5.3 to 0.5.23 were compared for these rows, so a bound is the
first release that has (or no longer has) the code named. Nothing outside this package branches on a version.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion, in_range

# The version assumed where none is given: the newest whose source was read.
DEFAULT_VERSION = "0.5.23"
# Versions that the tables speak for; outside, only arithmetic is sure.
TABLE_RANGE = ">=0.5.3,<0.5.24"


@dataclasses.dataclass(frozen=True)
class Row:
    """A fact: holds for ``range``, says ``value``, was read in ``source``."""

    range: str
    value: t.Any
    source: str


def pick(rows: t.Sequence[Row], version: EngineVersion) -> Row | None:
    """The first row whose range holds for a version."""
    return next((row for row in rows if in_range(version, row.range)), None)


def known(version: EngineVersion) -> bool:
    """Whether the tables were made from this version; ``main`` is judged like the newest of them."""
    return version.is_main or in_range(version, TABLE_RANGE)


def has(feature: str, version: EngineVersion) -> bool:
    """Whether a version has a feature of :data:`FEATURES`."""
    return in_range(version, FEATURES[feature].range)


# --- what --kv-cache-dtype takes -------------------------------------------------------------------------------------

_OLD = ("auto", "fp8_e5m2", "fp8_e4m3")
_BF16 = (*_OLD, "bf16", "bfloat16")
KV_CHOICES = (
    Row("<0.5.4", _OLD, "server_args.py choices of --kv-cache-dtype"),
    Row(">=0.5.4,<0.5.4.post3", _BF16, "server_args.py choices of --kv-cache-dtype"),
    Row(">=0.5.4.post3,<0.5.18", (*_BF16, "fp4_e2m1"), "server_args.py choices of --kv-cache-dtype"),
    Row(
        ">=0.5.18,<0.5.21",
        (*_BF16, "mxfp8", "nvfp4", "fp4_mx_block16", "fp4_e2m1"),
        "server_args.py; arg_groups/fields/model.py (fp4_e2m1 deprecated)",
    ),
    Row(">=0.5.21", (*_BF16, "mxfp8", "nvfp4", "fp4_mx_block16"), "arg_groups/fields/model.py"),
)
DRAFT_FLAG = Row(
    ">=0.5.18", "--speculative-draft-kv-cache-dtype", "server_args.py; arg_groups/fields/spec.py (default: follows)"
)
# Spellings of an argument's value and the dtype that the pool gets (mem_cache/kv_cache_dtype.py).
VALUE_DTYPE = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "fp8_e4m3": "fp8_e4m3",
    "fp8_e5m2": "fp8_e5m2",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
    "fp4_e2m1": "fp4_e2m1",
    "fp4_mx_block16": "fp4_mx_block16",
}
# torch's names in the log; float8_e4m3fnuz is AMD's twin and the 4-bit type is shared by nvfp4 and fp4_mx_block16.
TORCH_DTYPE = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e4m3fnuz": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "float8_e5m2fnuz": "fp8_e5m2",
    "float4_e2m1fn_x2": "fp4",
    "uint8": "uint8",
    "int8": "int8",
}

# --- how quantization metadata is read ---------------------------------------------------------------------------

_MODEL_CONFIG = "configs/model_config.py ModelConfig"
_MODELOPT = "layers/quantization/modelopt_quant.py"
_WEIGHT_UTILS = "model_loader/weight_utils.py get_quant_config"
FEATURES: dict[str, Row] = {
    "config_without_method": Row(
        ">=0.5.9",
        "config.json's quantization_config without quant_method is recognised by its quant_algo",
        f"{_MODEL_CONFIG}._parse_quant_hf_config",
    ),
    "config_method_modelopt": Row(
        ">=0.5.10",
        "quant_method modelopt is resolved by quant_algo; before, it means modelopt_fp8 unless --quantization is given",
        f"{_MODEL_CONFIG}._parse_quant_hf_config",
    ),
    "file_by_algo": Row(
        ">=0.5.3.post1",
        "hf_quant_config.json is resolved by quant_algo; before, to modelopt, which finds FP4 by itself",
        f"{_MODEL_CONFIG}._parse_modelopt_quant_config",
    ),
    "unknown_algo_is_fp8": Row(
        "<0.5.4.post3",
        "an algorithm that is not known is taken for modelopt_fp8, whose class then raises",
        f"{_MODEL_CONFIG}._parse_modelopt_quant_config",
    ),
    "flat_file": Row(
        ">=0.5.20",
        "hf_quant_config.json may be flat; before, a missing key 'quantization' raises KeyError",
        f"{_MODEL_CONFIG}; unwrap_modelopt_quantization_config",
    ),
    "mixed_nemotron": Row(
        ">=0.5.10,<0.5.15",
        "MIXED_PRECISION is modelopt_mixed for NemotronH alone, else w4afp8",
        f"{_MODEL_CONFIG}._parse_modelopt_quant_config",
    ),
    "mixed_by_layers": Row(
        ">=0.5.15",
        "MIXED_PRECISION with a layer of NVFP4 or W4A16_NVFP4 is modelopt_mixed, else w4afp8",
        f"{_MODEL_CONFIG}._parse_modelopt_quant_config",
    ),
    "mixed_falls_through": Row(
        ">=0.5.15",
        "modelopt_mixed whose config.json lacks the layer map or both KV keys is read from hf_quant_config.json",
        _WEIGHT_UTILS,
    ),
    "fp8_exact": Row(
        ">=0.5.18",
        "modelopt_fp8 is FP8 exactly; before, every algorithm whose name holds FP8",
        f"{_MODEL_CONFIG}._parse_modelopt_quant_config",
    ),
    "mxfp8": Row(">=0.5.18", "MXFP8 is mxfp8", f"{_MODEL_CONFIG}._parse_modelopt_quant_config"),
    "flat_kv_algo": Row(
        ">=0.5.15",
        "a flat kv_cache_quant_algo is read where there is no kv_cache_scheme",
        f"{_MODELOPT} from_config of the three classes",
    ),
    "fp4_flat_kv_algo_first": Row(
        "<0.5.9",
        "the FP4 class reads a flat kv_cache_quant_algo before kv_cache_scheme",
        f"{_MODELOPT} ModelOptFp4Config",
    ),
    "fp4_string_scheme": Row(
        ">=0.5.7",
        "the FP4 class understands a kv_cache_scheme that is a string; before, it raises AttributeError",
        f"{_MODELOPT} ModelOptFp4Config",
    ),
    "fp8_string_scheme": Row(
        ">=0.5.9",
        "the FP8 class ignores a kv_cache_scheme that is a string; before, it raises AttributeError",
        f"{_MODELOPT} ModelOptFp8Config",
    ),
    "fp4_group_size_known": Row(
        ">=0.5.17",
        "a flat NVFP4 section without group_size means 16; before, it raises",
        f"{_MODELOPT} ModelOptFp4Config",
    ),
    "method_fp8_kv_algo": Row(
        ">=0.5.18",
        "quant_method fp8 or mxfp8 reads a kv_cache_quant_algo",
        "layers/quantization/fp8.py Fp8Config.from_config",
    ),
    "compressed_tensors_kv": Row(
        ">=0.5.19",
        "a static symmetric per-tensor float8 kv_cache_scheme of compressed-tensors means FP8",
        "layers/quantization/compressed_tensors/compressed_tensors.py kv_cache_quant_algo",
    ),
    "kv_scales_qwen3_5": Row(
        ">=0.5.17",
        "k_scale and v_scale of Qwen3.5 are loaded; before, its loader drops them and 1.0 is used",
        "models/qwen3_5.py",
    ),
    "internal_states_resolved": Row(
        ">=0.5.9,<0.5.17",
        "internal_states repeats what auto became; elsewhere it repeats the argument",
        "model_executor/model_runner.py configure_kv_cache_dtype",
    ),
    "extra_buffer_default": Row(
        ">=0.5.14",
        "the state strategy auto is extra_buffer where overlap scheduling is on; before, no_buffer",
        "server_args.py; arg_groups/overrides.py mamba_radix_cache_strategy",
    ),
    "padding_slot_in_budget": Row(
        ">=0.5.17",
        "the padding slot of the state pool is charged to its budget; before, it is allocated beside it",
        "mem_cache/kv_cache_configurator.py _handle_max_mamba_cache",
    ),
    "spec_state_joint": Row(
        ">=0.5.13",
        "states kept per draft token share the state budget; before, they are reserved ahead of it",
        "model_executor/model_runner_kv_cache_mixin.py handle_max_mamba_cache",
    ),
    "draft_in_cell": Row(
        ">=0.5.14",
        "the layers of an EAGLE or NEXTN draft are part of the cell size",
        "model_executor/pool_configurator.py DefaultPoolConfigurator",
    ),
    "index_elided": Row(
        ">=0.5.18",
        "layers that share another layer's index keep no index cache of their own",
        "model_executor/pool_configurator.py _compute_dsa_indexer_cell_size",
    ),
    "post_capture": Row(
        ">=0.5.16",
        "the pool may be sized after graph capture (SGLANG_ENABLE_POST_CAPTURE_KV_SIZING)",
        "mem_cache/memory_pool.py; environ.py",
    ),
}
FP4_ALGOS = (
    Row("<0.5.17", ("FP8", "NVFP4"), f"{_MODELOPT} ModelOptFp4Config.from_config"),
    Row(">=0.5.17,<0.5.19", ("FP8", "NVFP4", "NVFP4_AWQ"), f"{_MODELOPT} ModelOptFp4Config.from_config"),
    Row(">=0.5.19", ("FP8", "NVFP4", "NVFP4_AWQ", "W4A16_NVFP4"), f"{_MODELOPT} ModelOptFp4Config.from_config"),
)
# Model classes that keep no quant_config, so that `auto` cannot see what the checkpoint declares. Read with a walk over
# all classes named EntryClass; classes that pass attribute access on to an inner model are left out.
NO_QUANT_CONFIG = (
    Row("<0.5.9", ("NemotronHForCausalLM",), "models/nemotron_h.py"),
    Row(
        "<0.5.10",
        (
            "InternS1ProForConditionalGeneration",
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLMoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
        ),
        "models/qwen3_vl.py (fixed by PR 19291)",
    ),
    Row(
        "",
        (
            "Cohere2VisionForConditionalGeneration",
            "DeciLMForCausalLM",
            "DeepseekOCRForCausalLM",
            "DeepseekVL2ForCausalLM",
            "DotsVLMForCausalLM",
            "Ernie4_5_VLMoeForConditionalGeneration",
            "Glm4vForConditionalGeneration",
            "HunYuanDenseV1ForCausalLM",
            "HunYuanMoEV1ForCausalLM",
            "JetVLMForConditionalGeneration",
            "LagunaForCausalLM",
            "LlavaForConditionalGeneration",
            "LlavaLlamaForCausalLM",
            "LlavaMistralForCausalLM",
            "LlavaQwenForCausalLM",
            "NVILAForConditionalGeneration",
            "NemotronH_Nano_Omni_Reasoning_V3",
            "NemotronH_Nano_VL_V2",
            "Olmo2ForCausalLM",
            "OlmoForCausalLM",
            "Phi4MMForCausalLM",
            "PixtralForConditionalGeneration",
            "QWenLMHeadModel",
            "Qwen2AudioForConditionalGeneration",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3OmniMoeForConditionalGeneration",
            "Starcoder2ForCausalLM",
            "Step3p7ForConditionalGeneration",
            "StepVLForConditionalGeneration",
            "VoxtralForConditionalGeneration",
        ),
        "models/*.py: in none of the wheels does the class, or one it derives from, set self.quant_config",
    ),
)

# --- rules that a model's architecture brings ------------------------------------------------------------------------

# DeepSeek Sparse Attention: the class is in the list and the config has index_topk (configs/model_config.py
# is_deepseek_dsa; arg_groups/overrides.py _DEEPSEEK_FAMILY_ARCHS).
DSA_ARCHS = (
    ("DeepseekV3ForCausalLM", ">=0.5.3"),
    ("DeepseekV32ForCausalLM", ">=0.5.3"),
    ("MistralLarge3ForCausalLM", ">=0.5.7"),
    ("PixtralForConditionalGeneration", ">=0.5.7"),
    ("GlmMoeDsaForCausalLM", ">=0.5.9"),
    ("LongcatFlashForCausalLM", ">=0.5.16"),
    ("Glm5NextForConditionalGeneration", ">=0.5.19"),
    ("Dots3NoteForCausalLM", ">=0.5.19"),
    ("HYV4ForCausalLM", ">=0.5.19"),
)
DSA_RULE = (
    Row("<0.5.4.post3", "forced", "server_args.py: SM10 and newer are set to fp8_e4m3 whatever was asked"),
    Row(">=0.5.4.post3", "default", "server_args.py; arg_groups/overrides.py _dsa_kv_cache_dtype_default"),
)
# What it takes beside auto, where none is forced.
DSA_VALUES = (Row("", ("bf16", "bfloat16", "fp8_e4m3"), "server_args.py _set_default_nsa_kv_cache_dtype"),)
# Its backends that keep a latent in FP8 raw, without scales, on CUDA.
DSA_RAW = (
    Row("<0.5.23", ("trtllm",), "calculate_mla_kv_cache_dim of 0.5.9 to 0.5.21"),
    Row(">=0.5.23", ("trtllm", "tilelang"), "mem_cache/kv_cache_configurator.py, calculate_mla_kv_cache_dim"),
)
# Architectures whose `auto` is fixed, whatever the checkpoint says.
ARCH_AUTO = {
    "DeepseekV4ForCausalLM": Row(">=0.5.12", "fp8_e4m3", "arg_groups/deepseek_v4_hook.py; _deepseek_v4_kv_cache_dtype"),
    "MuseSparkForConditionalGeneration": Row(">=0.5.16", "fp8_e4m3", "arg_groups/overrides.py _muse_spark_overrides"),
}
# DeepSeek-V4 takes fp8_e4m3 alone at first, then also bfloat16, but never the spelling bf16.
DSV4_VALUES = (
    Row("<0.5.14", ("fp8_e4m3",), "arg_groups/deepseek_v4_hook.py"),
    Row(
        ">=0.5.14", ("fp8_e4m3", "bfloat16"), "arg_groups/deepseek_v4_hook.py; overrides.py _deepseek_v4_kv_cache_dtype"
    ),
)
M3_NATIVE = Row(
    ">=0.5.23",
    ("fp8_e4m3",),
    "arg_groups/model_overrides/minimax_m3.py: MiniMax-M3.1 NVFP4 on Blackwell requires fp8_e4m3",
)
# What an attention backend accepts; a backend that is not here accepts what the version does.
BACKEND_VALUES = {
    "trtllm_mla": (
        Row("<0.5.5", ("fp8_e4m3", "auto"), "server_args.py TRTLLM MLA"),
        Row(">=0.5.5,<0.5.7", ("fp8_e4m3", "fp4_e2m1", "auto"), "server_args.py TRTLLM MLA"),
        Row(">=0.5.7,<0.5.21", ("fp8_e4m3", "fp4_e2m1", "bf16", "auto"), "server_args.py TRTLLM MLA"),
        Row(">=0.5.21", ("fp8_e4m3", "bf16", "auto"), "arg_groups/overrides.py _mla_kv_cache_dtype_checks"),
    ),
    "cutedsl_mla": (
        Row("", ("fp8_e4m3", "bf16", "bfloat16", "auto"), "arg_groups/overrides.py _cutedsl_prefill_backend_fill"),
    ),
    "tokenspeed_mla": (Row("", ("fp8_e4m3",), "server_args.py tokenspeed_mla; arg_groups/serving_hook.py (0.5.23)"),),
}
# Architectures whose default backend on SM100 is trtllm_mla, so that a spelling must suit it too.
TRTLLM_MLA_DEFAULT = (
    "DeepseekV3ForCausalLM",
    "KimiK25ForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
)
# Hopes of an operator that the log does not fulfil: these lines say nothing about the dtype of the pool.
WORTHLESS_LINES = (
    (
        "Using FP8 KV cache but no scaling factors provided",
        "printed for every explicit fp8_e4m3, never when auto became FP8",
    ),
    ("The server is fired up and ready to roll", "printed also when another server answered the warm-up"),
)

# --- how pools are laid out ----------------------------------------------------------------------------------------

# Classes whose sliding-window layers get a pool of their own, smaller by swa_full_tokens_ratio; for every other class
# each layer keeps the whole context (configs/model_config.py is_hybrid_swa_model).
SWA_ARCHS = {
    "Llama4ForConditionalGeneration": ">=0.5.3",
    "MiMoV2FlashForCausalLM": ">=0.5.7",
    "GptOssForCausalLM": ">=0.5.8",
    "Step3p5ForCausalLM": ">=0.5.9",
    "Gemma4ForConditionalGeneration": ">=0.5.11",
    "Gemma4ForCausalLM": ">=0.5.11",
    "MiMoV2ForCausalLM": ">=0.5.11",
    "LagunaForCausalLM": ">=0.5.12",
    "Gemma4UnifiedForConditionalGeneration": ">=0.5.13",
    "Step3p7ForConditionalGeneration": ">=0.5.13",
    "MellumForCausalLM": ">=0.5.16",
    "InklingForConditionalGeneration": ">=0.5.16",
    "MuseSparkForConditionalGeneration": ">=0.5.16",
    "MuseGlimmerForConditionalGeneration": ">=0.5.18",
    "MuseGlimmerForCausalLM": ">=0.5.18",
    "GraniteMoeSWAForCausalLM": ">=0.5.19",
    "GraniteSWAForCausalLM": ">=0.5.19",
    "DiffusionGemmaForBlockDiffusion": ">=0.5.21",
    "IQuestQ1ForCausalLM": ">=0.5.21",
}
# Default of --swa-full-tokens-ratio (server_args.py); DeepSeek-V4 sets its own.
SWA_RATIO = 0.8
DSV4_SWA_RATIO = 0.1
# Default of --mamba-full-memory-ratio: bytes of states over bytes of tokens (server_args.py).
STATE_RATIO = 0.9
# State slots that one running request holds (MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO and its additions).
SLOTS_PER_REQUEST = {
    "radix_off": 1,
    "no_buffer": 3,
    "extra_buffer_lazy": 4,
    "extra_buffer_no_overlap": 4,
    "extra_buffer": 5,
}
# Bytes of one element in the pool; 4-bit formats carry a scale byte for 16 elements, MXFP8 one for 32
# (layers/quantization/fp4_kv_cache_quant_method.py; model_executor/pool_configurator.py).
ELEMENT_BYTES = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "mxfp8": 1.0 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "fp4_e2m1": 0.5 + 1 / 16,
    "fp4_mx_block16": 0.5 + 1 / 16,
}

# --- what a start writes ---------------------------------------------------------------------------------------------

# Log lines, by name; the first group of names that a version writes. `rank` is taken from the prefix of the line.
_SIZES = r"(?:K size: (?P<k>[\d.]+) ?GB, V size: (?P<v>[\d.]+) ?GB|KV size: (?P<kv>[\d.]+) ?GB)"
_LABEL = r"(?P<label>\w[\w ]*? )?"
_DTYPE = r"dtype: (?:torch\.)?(?P<dtype>\w+)"
LOG_LINES: dict[str, Row] = {
    "dtype": Row(
        ">=0.5.3,<0.5.13",
        r"Using KV cache dtype: (?:torch\.)?(?P<dtype>\w+)",
        "model_executor/model_runner.py (rank 0 alone)",
    ),
    "pool": Row(
        ">=0.5.3,<0.5.13",
        rf"KV Cache is allocated\. #tokens: (?P<tokens>\d+), {_SIZES}",
        "mem_cache/memory_pool.py (every rank)",
    ),
    "pool_dtype": Row(
        ">=0.5.13",
        rf"{_LABEL}KV Cache is allocated\. {_DTYPE}, #tokens: (?P<tokens>\d+), {_SIZES}",
        "mem_cache/memory_pool.py (every rank)",
    ),
    "bound": Row(
        ">=0.5.18",
        rf"{_LABEL}KV Cache VA upper bound\. {_DTYPE}, #tokens: (?P<tokens>\d+), {_SIZES}",
        "mem_cache/memory_pool.py: addresses, not memory; the number that counts comes after capture",
    ),
    "post_capture": Row(
        ">=0.5.16",
        r"Post-capture KV sizing: (?P<draft>draft )?KV cache allocated\. dtype: (?:torch\.)?(?P<dtype>\w+), "
        rf"#tokens: (?P<tokens>\d+)(?:, {_SIZES})?",
        "model_executor/model_runner_components/kv_pool_runtime.py",
    ),
    "state": Row(
        "",
        r"Mamba Cache is allocated\. max_mamba_cache_size: (?P<slots>\d+), conv_state size: (?P<conv>[\d.]+) ?GB, "
        r"ssm_state size: (?P<ssm>[\d.]+) ?GB",
        "mem_cache/memory_pool.py",
    ),
    "totals": Row(
        "",
        r"max_total_num_tokens=(?P<tokens>\d+),.*?max_running_requests=(?P<requests>\d+)",
        "managers/scheduler.py (rank 0)",
    ),
    "load_begin": Row("", r"Load weight begin\. avail mem=(?P<gib>[\d.]+) GB", "model_executor/model_runner.py"),
    "load_end": Row("", r"Load weight end\..*?avail mem=(?P<gib>[\d.]+) GB", "model_executor/model_runner.py"),
}
# The part of a line that names the rank: "[2026-11-29 18:23:04 TP0]", also with DP, PP, EP in any order.
RANK = r"^\[[\d-]+ [\d:.,]+(?P<rank>(?: [A-Z]{2,3}\d+)*)\]"

# --- where a running server keeps its numbers -------------------------------------------------------------------

# jmespath over the JSON of /server_info; several forms are tried, since fields moved between versions.
SERVER_INFO = {
    # GiB that the KV pool of the first scheduler holds (rounded to 0.01)
    "kv_gib": Row(
        "", "(internal_states[].memory_usage.kvcache | [0]) || memory_usage.kvcache", "managers/scheduler.py"
    ),
    # tokens that this pool was made for
    "tokens": Row(
        "",
        "(internal_states[].memory_usage.token_capacity | [0]) || memory_usage.token_capacity || max_total_num_tokens",
        "managers/scheduler.py; entrypoints/http_server.py",
    ),
    "max_total_num_tokens": Row(
        "", "max_total_num_tokens || (internal_states[].max_total_num_tokens | [0])", "http_server.py"
    ),
    "state_dtypes": Row("", "internal_states[].kv_cache_dtype", "managers/scheduler.py get_internal_state"),
    "top_dtype": Row("", "kv_cache_dtype || server_args.kv_cache_dtype", "http_server.py: the user's value"),
    "version": Row("", "version || sglang_version", "http_server.py"),
    "tp_size": Row("", "tp_size || server_args.tp_size || tensor_parallel_size", "http_server.py"),
    "pp_size": Row("", "pp_size || server_args.pp_size", "http_server.py"),
    "dp_size": Row("", "dp_size || server_args.dp_size", "http_server.py"),
    "random_seed": Row(
        "", "random_seed || server_args.random_seed || (internal_states[].random_seed | [0])", "server_args.py"
    ),
    "model_path": Row("", "model_path || server_args.model_path", "http_server.py"),
    "running_requests": Row(
        "",
        "(internal_states[].effective_max_running_requests_per_dp | [0]) || effective_max_running_requests_per_dp",
        "managers/scheduler.py",
    ),
}

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields of a configuration bear on the KV cache, and which of them nobody here knows (private).

A field that sounds like attention, cache or recurrent state, is switched on, and is in no list below makes a figure
``approximate``: a plain GQA number for a mechanism that is not understood would be wrong in silence.
"""

from __future__ import annotations

import re
import typing as t

# Words by which a field announces that it has to do with what is stored per token or per request.
_SUSPICIOUS = re.compile(
    r"(attn|attention|(^|_)kv(_|$)|(^|_)k?v?_?cache|window|sliding|sparse|index|chunk|compress|latent|lora_rank|"
    r"head_dim|(^|_)heads?(_|$)|mamba|ssm|linear_|recurren|state_size|conv_kernel|conv_l_cache|rwkv|lightning|"
    r"retention|hyena|delta|memory|(^|_)(qsa|nsa|msa|dsa|gla|gdn|kda|mla)(_|$)|layers_block|layer_types|hybrid|"
    r"block_configs|cross_attn)"
)
# Understood by _kv_layers and _kv_state.
_USED_WORDS = """
num_hidden_layers n_layer n_layers num_layers layers_block_type hybrid_override_pattern block_configs layer_types
num_attention_heads n_head n_heads num_heads num_key_value_heads n_head_kv num_kv_heads multi_query_group_num
num_attention_groups attn_config multi_query new_decoder_architecture head_dim attention_head_dim
hidden_size_per_head v_head_dim hidden_size n_embd d_model kv_lora_rank qk_rope_head_dim index_head_dim index_topk
indexer_types index_topk_freq index_topk_pattern index_skip_topk_offset index_n_heads cli_factor sliding_window
sliding_window_pattern _sliding_window_pattern use_sliding_window attention_chunk_size no_rope_layers
hybrid_layer_pattern swa_num_key_value_heads swa_head_dim swa_v_head_dim swa_num_attention_heads global_head_dim
num_global_key_value_heads num_kv_shared_layers attention_other_setting local_layer_ids linear_attn_config
full_attention_interval linear_num_value_heads linear_num_key_heads linear_key_head_dim linear_value_head_dim
linear_conv_kernel_dim mamba_ssm_dtype mamba_ssm_cache_dtype mamba_num_heads mamba_head_dim ssm_state_size n_groups
conv_kernel mamba_n_heads mamba_d_head mamba_d_state mamba_n_groups mamba_d_conv mamba_expand expand
attn_layer_period attn_layer_offset attn_layer_indices attn_type_list sparse_attention_config compress_ratios
state_size conv_kernel_size conv_l_cache full_attn_idxs layer_group_size short_conv_kernel_size mixer_types
lightning_nh lightning_nkv lightning_head_dim mamba_d_ssm index_kpool
"""
USED = frozenset(_USED_WORDS.split())
# Known to leave the size of the cache alone: projections, numerics, training, vision, and what other fields repeat.
_IRRELEVANT_WORDS = """
use_cache attention_bias attention_dropout attention_probs_dropout_prob attn_pdrop attn_output_gate
attention_out_bias attn_logit_softcapping attention_k_eq_v attention_scaling attention_multiplier
attn_implementation _attn_implementation attn_temperature_tuning attn_scale attention_value_scale
query_pre_attn_scalar attention_in_multiplier attention_out_multiplier attn_bias attn_dropout output_attentions
use_bidirectional_attention use_qk_norm_in_attention add_cross_attention cross_attention_hidden_size
is_encoder_decoder attention_qkv_bias attention_o_bias attention_type max_window_layers use_flash_attention
flash_attention use_flash_attn layernorm_num_heads moe_num_heads qk_nope_head_dim qk_head_dim
indexer_rope_interleave index_share_for_mtp_iteration rope_head_dim partial_rotary_factor num_hash_layers
compress_rope_theta compress_rope_scaling mamba_hidden_act mamba_proj_bias mamba_conv_bias mamba_rms_norm
mamba_chunk_size mamba_dt_rank mamba_inner_layernorms use_mamba_kernels mamba_mlp_ratio mamba_enabled chunk_size
chunk_size_feed_forward time_step_limit conv_use_bias use_conv_bias head_dim_ratio pruned_heads lm_head_bias
tie_lm_head mtp_hybrid_override_pattern mtp_layers_block_type mtp_num_heads mtp_attention image_token_index
video_token_index audio_token_index boi_token_index eoi_token_index eoa_token_index ignore_index pad_token_index
sep_token_index vision_feature_layer index_topk_tokens image_token_id token_type_index projector_lora_rank
q_lora_rank o_lora_rank lora_rank max_position_embeddings sliding_window_size attention_projection_layout
add_swa_attention_sink_bias add_full_attention_sink_bias learnable_sink attention_sink_bias swa_rope_theta
swa_rope_parameters rope_local_base_freq cache_implementation head_dim_original attention_window_sink_size
attention_layernorm use_attn_layernorm mup_attn_multiplier attn_factor use_pre_attention_norm n_heads_in_group
sparse_step decoder_sparse_step sparse_mode moe_sparse sparse_init mlp_layer_types moe_layer_freq
num_attention_heads_per_layer layernorm_per_head use_head_wise_attn_gate use_rope_layers yarn_only_types
use_linear_silu swa_attention_sink attention_dropout_prob attn_gate attention_gate moe_latent_size
lightning_layerwise_decay lightning_use_rope attn_use_rope attn_use_output_gate index_kpool_compress
"""
IRRELEVANT = frozenset(_IRRELEVANT_WORDS.split())
# Classes known to give their windowed layers the whole context (they are not in the engine's list of classes with a
# pool for windows); for a class in neither list it is not known.
ONE_POOL = (
    "Gemma2",
    "Gemma3",
    "Mistral",
    "Ministral",
    "Mixtral",
    "Cohere2",
    "Phi",
    "Qwen",
    "Olmo",
    "Exaone4",
    "Starcoder2",
)
# Values of layer_types and layers_block_type that are understood, by what such a layer keeps.
FULL_TYPES = frozenset({"full_attention", "attention", "full", "global", "global_attention", "*"})
SLIDING_TYPES = frozenset({"sliding_attention", "sliding", "local", "local_attention", "swa"})
CHUNKED_TYPES = frozenset({"chunked_attention"})
STATE_TYPES = frozenset({"linear_attention", "linear", "mamba", "mamba2", "m", "conv", "short_conv", "gdn", "kda"})
NO_CACHE_TYPES = frozenset({"moe", "mlp", "dense", "e", "-"})


def unknown_fields(text: t.Mapping[str, t.Any]) -> list[str]:
    """Fields of the language model's configuration that may change what is stored and are not understood."""
    return sorted(
        name
        for name, value in text.items()
        if name.lower() not in USED
        and name.lower() not in IRRELEVANT
        and _SUSPICIOUS.search(name.lower())
        and _is_on(value)
        and not name.endswith(
            (
                "_token_id",
                "_token_ids",
                "_token_index",
                "_dropout",
                "_bias",
                "_eps",
                "_act",
                "_range",
                "_implementation",
                "_impl",
                "_backend",
                "_dtype",
                "_path",
            )
        )
    )


def _is_on(value: t.Any) -> bool:
    """Whether a value switches something on: not null, false, zero or empty."""
    return value not in (None, False, 0, "", [], {})

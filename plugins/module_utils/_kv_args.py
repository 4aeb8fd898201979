# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine's arguments, as a list, a string or a dict, as far as the KV cache is concerned (private to the
collection).
"""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

# Fields that the KV cache depends on, by the engine's name. argparse accepts any unambiguous beginning of a flag, so a
# flag is also found by a beginning that no other flag of any known version shares (second column).
FIELDS: dict[str, str] = {
    "kv_cache_dtype": "--kv-c",
    "speculative_draft_kv_cache_dtype": "--speculative-draft-kv",
    "speculative_algorithm": "--speculative-al",
    "speculative_num_draft_tokens": "--speculative-num-d",
    "speculative_num_steps": "--speculative-num-s",
    "speculative_draft_attention_backend": "--speculative-draft-att",
    "attention_backend": "--attention-b",
    "decode_attention_backend": "--decode-att",
    "prefill_attention_backend": "--prefill-att",
    "quantization": "--quantization",
    "tp_size": "--tp-s",
    "pp_size": "--pp-s",
    "dp_size": "--dp-s",
    "enable_dp_attention": "--enable-dp-att",
    "random_seed": "--random-s",
    "config": "--config",
    "page_size": "--page-s",
    "mem_fraction_static": "--mem-fraction-s",
    "max_running_requests": "--max-running-r",
    "max_mamba_cache_size": "--max-mamba",
    "max_total_tokens": "--max-total-t",
    "mamba_full_memory_ratio": "--mamba-full",
    "mamba_ssm_dtype": "--mamba-ssm",
    "mamba_scheduler_strategy": "--mamba-scheduler-s",
    "mamba_radix_cache_strategy": "--mamba-radix-cache-s",
    "disable_radix_cache": "--disable-radix-cache",
    "disable_overlap_schedule": "--disable-overlap-s",
    "swa_full_tokens_ratio": "--swa-full",
}
_ALIASES = {
    "--tensor-parallel-size": "tp_size",
    "--tp": "tp_size",
    "--pp": "pp_size",
    "--dp": "dp_size",
    "--pipeline-parallel-size": "pp_size",
    "--data-parallel-size": "dp_size",
    "--speculative-algo": "speculative_algorithm",
}
_SWITCHES = ("enable_dp_attention", "disable_radix_cache", "disable_overlap_schedule")


@dataclasses.dataclass
class Arguments:
    """What was given, by field name; the last one of a repeated flag. ``given`` holds texts, and True for switches."""

    given: dict[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def kv_cache_dtype(self) -> str | None:
        """The value of --kv-cache-dtype, in lower case; None where it is not given."""
        return self._word("kv_cache_dtype")

    @property
    def draft_kv_cache_dtype(self) -> str | None:
        """The same for the draft model."""
        return self._word("speculative_draft_kv_cache_dtype")

    @property
    def speculative(self) -> bool:
        """Whether speculative decoding is on."""
        return bool(self._word("speculative_algorithm"))

    def attention_backends(self) -> list[str]:
        """Every attention backend that is named."""
        names = ("attention_backend", "decode_attention_backend", "prefill_attention_backend")
        return [word for word in map(self._word, names) if word]

    def _word(self, name: str) -> str | None:
        value = self.given.get(name)
        return None if value is None else str(value).strip()


def parse(args: t.Any) -> Arguments:
    """Read arguments.

    A list of words (``[--kv-cache-dtype, bf16]`` or ``[--kv-cache-dtype=bf16]``), a string as in a shell, or a dict by
    field name (``kv_cache_dtype``, also with dashes); None is no arguments.

    Raises:
        SglangError: another type, a string with an unclosed quote, or a flag without its value.
    """
    if args is None:
        return Arguments()
    if isinstance(args, t.Mapping):
        given = {str(key).lstrip("-").replace("-", "_"): value for key, value in args.items()}
        return Arguments({key: value for key, value in given.items() if value is not None})
    if isinstance(args, str):
        try:
            words = shlex.split(args)
        except ValueError as exc:
            raise SglangError(f"the arguments cannot be split: {exc}", where="args", fix="close the quote") from exc
    elif isinstance(args, t.Sequence):
        words = [str(word) for word in args]
    else:
        raise SglangError(
            f"{type(args).__name__} is no form of arguments",
            where="args",
            expected="a list of words, a string or a dict",
        )
    return Arguments(_walk(words))


def _walk(words: list[str]) -> dict[str, t.Any]:
    given: dict[str, t.Any] = {}
    position = 0
    while position < len(words):
        flag, _rest, value = words[position].partition("=")
        joined = "=" in words[position]
        position += 1
        name = _field(flag)
        if name is None:
            continue
        if name in _SWITCHES and not joined:
            given[name] = True
        elif joined:
            given[name] = value
        elif position < len(words) and not words[position].startswith("--"):
            given[name] = words[position]
            position += 1
        else:
            raise SglangError(
                f"{flag} has no value",
                where=f"args[{position - 1}]",
                expected="a word after it",
                fix=f"write {flag} VALUE",
            )
    return given


def _field(flag: str) -> str | None:
    if flag in _ALIASES:
        return _ALIASES[flag]
    if not flag.startswith("--"):
        return None
    for name, beginning in FIELDS.items():
        full = "--" + name.replace("_", "-")
        if flag == full or (len(flag) >= len(beginning) and full.startswith(flag)):
            return name
    return None

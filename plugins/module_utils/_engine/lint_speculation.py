# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint rules on speculative decoding and on the states of hybrid models (private to the collection)."""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.lint_rule import (
    REFUSE,
    WARN,
    Facts,
    Finding,
    Rule,
)
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.options import options_for

_CHUNK = 64  # FLA_CHUNK_SIZE, layers/attention/fla/chunk_delta_h.py
_EAGLE = ("EAGLE", "EAGLE3", "NEXTN")
_NEEDS_DRAFT = ("EAGLE3", "STANDALONE", "DFLASH")
_COUNTS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def _algorithm(facts: Facts) -> str:
    return str(facts.get("speculative_algorithm") or "").upper()


def _strategy(facts: Facts) -> str:
    return str(facts.get("mamba_scheduler_strategy") or "auto")


def _needs_extra_buffer(facts: Facts) -> Finding | None:
    if not (_algorithm(facts) and facts.hybrid) or facts.get("disable_radix_cache"):
        return None
    if _strategy(facts) == "extra_buffer":
        return None
    name = facts.name_of("mamba_scheduler_strategy")
    effect = "the engine switches the prefix cache off" if facts.within("<0.5.10") else "the engine refuses to start"
    return Finding(
        f"args.{name}",
        f"is {_strategy(facts)} with speculative decoding of a hybrid model: {effect}",
        "extra_buffer, or disable_radix_cache: true",
        f"write {name}: extra_buffer",
    )


def _no_buffer_overlap(facts: Facts) -> Finding | None:
    if not facts.hybrid or _strategy(facts) != "no_buffer" or facts.get("disable_radix_cache"):
        return None
    if facts.get("disable_overlap_schedule"):
        return None
    name = facts.name_of("mamba_scheduler_strategy")
    return Finding(
        f"args.{name}",
        "is no_buffer, which this version asserts against unless the overlap schedule is off",
        "extra_buffer, or disable_overlap_schedule: true",
        f"write {name}: extra_buffer",
    )


def _needs_spec_v2(facts: Facts) -> Finding | None:
    if _algorithm(facts) not in _EAGLE:
        return None
    extra = facts.hybrid and _strategy(facts) == "extra_buffer"
    nextn = _algorithm(facts) == "NEXTN"
    if facts.on("SGLANG_ENABLE_SPEC_V2") or not (extra or nextn):
        return None
    default_on = facts.within(">=0.5.11")
    if default_on and "SGLANG_ENABLE_SPEC_V2" not in facts.env:
        return None
    effect = (
        "extra_buffer needs it" if extra else "without it NEXTN loads a second copy of the model and runs out of memory"
    )
    said = (
        "is off"
        if "SGLANG_ENABLE_SPEC_V2" in facts.env
        else f"is not set, and off by default in sglang {facts.version}"
    )
    return Finding("env.SGLANG_ENABLE_SPEC_V2", f"{said}: {effect}", '"1"', 'write env: {SGLANG_ENABLE_SPEC_V2: "1"}')


def _spec_v2_gone(facts: Facts) -> Finding | None:
    if "SGLANG_ENABLE_SPEC_V2" not in facts.env:
        return None
    return Finding("env.SGLANG_ENABLE_SPEC_V2", "was taken away; this version always works so", "not set", "remove it")


def _counts(facts: Facts) -> Finding | None:
    if not _algorithm(facts):
        given = [field for field in _COUNTS if facts.get(field) is not None]
        if given:
            return Finding(
                f"args.{given[0]}",
                "is given, but speculative_algorithm is not: it has no effect",
                "both, or neither",
                "write speculative_algorithm: NEXTN, or remove it",
            )
        return None
    if _algorithm(facts) not in _EAGLE:
        return None
    given = [field for field in _COUNTS if facts.get(field) is not None]
    if given and len(given) < len(_COUNTS) and "speculative_num_steps" not in given:
        return Finding(
            f"args.{given[0]}",
            "is given without speculative_num_steps, which the engine asserts against",
            "all three of num_steps, eagle_topk and num_draft_tokens, or none",
            "write speculative_num_steps: 3, speculative_eagle_topk: 1, speculative_num_draft_tokens: 4",
        )
    return None


def _draft_tokens(facts: Facts) -> Finding | None:
    steps, topk = facts.number("speculative_num_steps", 0), facts.number("speculative_eagle_topk", 0)
    tokens = facts.number("speculative_num_draft_tokens", 0)
    if not (_algorithm(facts) in _EAGLE and steps and tokens and topk == 1) or tokens == steps + 1:
        return None
    return Finding(
        "args.speculative_num_draft_tokens",
        f"is {tokens}, but with speculative_eagle_topk 1 the engine makes it num_steps + 1",
        str(steps + 1),
        f"write speculative_num_draft_tokens: {steps + 1}",
    )


def _topk(facts: Facts) -> Finding | None:
    topk = facts.number("speculative_eagle_topk", 1)
    if topk <= 1 or _algorithm(facts) not in _EAGLE:
        return None
    if facts.on("SGLANG_ENABLE_SPEC_V2") and facts.within("<0.5.11"):
        return Finding(
            "args.speculative_eagle_topk",
            f"is {topk}: Spec v2 currently only supports topk = 1",
            "1",
            "write speculative_eagle_topk: 1",
        )
    allowed = ("flashinfer", "fa3", "triton") if facts.within(">=0.5.13") else ("flashinfer", "fa3")
    backend = facts.get("attention_backend")
    if facts.number("page_size", 1) > 1 and backend is not None and backend not in allowed:
        return Finding(
            "args.speculative_eagle_topk",
            f"is {topk} with page_size {facts.get('page_size')}, which the engine "
            f"refuses for attention_backend {backend}",
            "1, or page_size: 1",
            "write speculative_eagle_topk: 1",
        )
    return None


def _draft_model(facts: Facts) -> Finding | None:
    if _algorithm(facts) not in _NEEDS_DRAFT or facts.get("speculative_draft_model_path"):
        return None
    return Finding(
        "args.speculative_draft_model_path",
        f"is not given, but {_algorithm(facts)} reads a draft model of its own",
        "the folder of the draft model on the host",
        "write speculative_draft_model_path: /models/NAME",
    )


def _draft_attention(facts: Facts) -> Finding | None:
    field = "speculative_draft_attention_backend"
    given, choices = facts.get(field), options_for(facts.version)["attention_backend"].choices
    if given is None or given in choices:
        return None
    return Finding(
        f"args.{field}",
        f"is {given!r}: the parser takes any word here, and the engine then finds no such backend",
        "one of " + ", ".join(map(str, choices)),
        f"write {field}: triton, or leave it out",
    )


def _many_steps(facts: Facts) -> Finding | None:
    if not _algorithm(facts) or facts.number("speculative_num_steps", 0) <= 4:
        return None
    return Finding(
        "args.speculative_num_steps",
        f"is {facts.get('speculative_num_steps')}: reports of illegal memory accesses from 5 on",
        "at most 4",
        "write speculative_num_steps: 3",
    )


def _track_interval(facts: Facts) -> Finding | None:
    if not facts.hybrid or not _strategy(facts).startswith("extra_buffer"):
        return None
    if facts.get("disable_radix_cache") and facts.within(">=0.5.10"):
        return Finding(
            "args.disable_radix_cache",
            "is true with extra_buffer, which the engine refuses",
            "one of the two",
            "remove disable_radix_cache",
        )
    page = facts.number("page_size", 1)
    if page > 0 and max(page, _CHUNK) % min(page, _CHUNK):
        return Finding(
            "args.page_size",
            f"is {page}: with extra_buffer the engine wants {_CHUNK} and it to divide one another",
            "1, 16, 32, 64 or 128",
            "write page_size: 64",
        )
    interval = facts.number("mamba_track_interval", 256)
    tokens = facts.number("speculative_num_draft_tokens", 0)
    if interval < tokens:
        return Finding(
            "args.mamba_track_interval",
            f"is {interval}, less than the {tokens} draft tokens",
            f"at least {tokens}",
            "remove mamba_track_interval (256)",
        )
    if page > 0 and interval % page:
        return Finding(
            "args.mamba_track_interval",
            f"is {interval}, no multiple of page_size {page}",
            "a multiple of page_size",
            f"write mamba_track_interval: {page * max(1, 256 // page)}",
        )
    return None


RULES: tuple[Rule, ...] = (
    Rule(
        "speculation_needs_extra_buffer",
        REFUSE,
        ">=0.5.10,<0.5.15",
        "ValueError: Speculative decoding ... is not compatible with radix cache when using no_buffer",
        "_handle_mamba_radix_cache of 0.5.10.post1 to 0.5.13.post1",
        _needs_extra_buffer,
    ),
    Rule(
        "speculation_drops_radix_cache",
        WARN,
        "<0.5.10",
        "Disabling radix cache since speculative decoding ...",
        "server_args.py of 0.5.9, _handle_mamba_radix_cache",
        _needs_extra_buffer,
    ),
    Rule(
        "no_buffer_overlap",
        REFUSE,
        ">=0.5.15",
        "AssertionError: no_buffer do not support overlap schedule",
        "_validate_mamba_no_buffer of 0.5.15.post1; mamba_hook.py of 0.5.23",
        _no_buffer_overlap,
    ),
    Rule(
        "speculation_needs_spec_v2",
        REFUSE,
        "<0.5.15",
        "ValueError naming the setting, or out of memory at start",
        "environ.py of 0.5.9 to 0.5.13.post1; local-inference-lab/rtx6kpro, inference-engines/sglang.md",
        _needs_spec_v2,
    ),
    Rule(
        "spec_v2_removed",
        WARN,
        ">=0.5.15",
        "SGLANG_ENABLE_SPEC_V2 has been removed",
        "speculative_hook.py of 0.5.15.post1",
        _spec_v2_gone,
    ),
    Rule(
        "speculation_counts",
        REFUSE,
        "",
        "assertion at start, or no speculation at all",
        "_handle_speculative_decoding",
        _counts,
    ),
    Rule(
        "speculation_draft_tokens",
        WARN,
        "",
        "another number of draft tokens than asked",
        "_handle_speculative_decoding",
        _draft_tokens,
    ),
    Rule(
        "speculation_topk",
        REFUSE,
        "",
        "ValueError at start",
        "_handle_speculative_decoding of 0.5.9; speculative_hook.py of 0.5.13.post1",
        _topk,
    ),
    Rule("speculation_draft_model", REFUSE, "", "fails while loading", "speculative_hook.py of 0.5.23", _draft_model),
    Rule(
        "speculation_draft_attention",
        REFUSE,
        "",
        "ValueError: EAGLE is not supported in decode attention backend",
        "DraftBackendFactory in speculative/draft_utils.py",
        _draft_attention,
    ),
    Rule(
        "speculation_steps",
        WARN,
        "",
        "illegal memory access",
        "local-inference-lab/rtx6kpro, models/qwen35-397b.md",
        _many_steps,
    ),
    Rule(
        "mamba_extra_buffer",
        REFUSE,
        "",
        "assertion or ValueError at start",
        "_handle_mamba_radix_cache of 0.5.9; mamba_hook.py of 0.5.23",
        _track_interval,
    ),
)

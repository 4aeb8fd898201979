# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits: tokens, state slots and requests for a model, a dtype and a memory (private to the collection)."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_dtype
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint, from_config
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_cell import Cell, Parallel, cell

GIB = 1024**3
CONTEXTS = (32768, 131072, 262144)
_NO_DRAFT_MODEL = ("NGRAM",)


@dataclasses.dataclass(frozen=True)
class Memory:
    """Memory of one GPU.

    Either ``kv_pool_bytes``: what the pool of tokens gets, beside any states. Or the engine's own figures, in GiB (its
    log calls them GB): ``before_load`` ("Load weight begin. avail mem"), ``after_load`` ("Load weight end. ... avail
    mem") and
    ``fraction`` (--mem-fraction-static); then tokens and states share what is left, as the engine divides it.
    """

    kv_pool_bytes: float | None = None
    before_load: float | None = None
    after_load: float | None = None
    fraction: float | None = None


@dataclasses.dataclass(frozen=True)
class StateSettings:
    """Settings of the state pool, by the engine's names; ``strategy`` is auto, no_buffer, extra_buffer or
    extra_buffer_lazy."""

    ssm_dtype: str | None = None
    full_memory_ratio: float = kv.STATE_RATIO
    strategy: str = "auto"
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    max_cache_size: int | None = None


@dataclasses.dataclass(frozen=True)
class Speculative:
    """Speculative decoding: ``algorithm`` None is off; ``draft_layers`` None means what the configuration has (else
    1).
    """

    algorithm: str | None = None
    num_draft_tokens: int | None = None
    draft_layers: int | None = None


def budget(
    config: t.Mapping[str, t.Any] | Checkpoint,
    kv_cache_dtype: str = "bfloat16",
    tp_size: int = 1,
    *,
    pp_size: int = 1,
    dp_size: int = 1,
    dp_attention: bool | int = False,
    page_size: int = 1,
    engine_version: str | None = None,
    contexts: t.Sequence[int] = CONTEXTS,
    memory: Memory | None = None,
    states: StateSettings | None = None,
    speculative: Speculative | None = None,
    max_running_requests: int | None = None,
    max_total_tokens: int | None = None,
    swa_full_tokens_ratio: float | None = None,
    dsa_layout: str = "scaled",
    compress_state_dtype: str = "float32",
    attention_backend: str | None = None,
    compute_capability: str | float | None = None,
) -> dict[str, t.Any]:
    """Compute the budget of one GPU.

    Args:
        config: config.json as a dict, or a checkpoint; the language model's part is found by itself.
        kv_cache_dtype: what the pool holds; ``auto`` is resolved as the engine version would.
        tp_size: and the rest: by the engine's names. ``dp_attention`` may also be the number of groups.
        memory: without it only costs are returned.

    Returns:
        See RETURN of kv_cache_budget_info. ``approximate`` is true where anything about the model is not understood,
        and
        ``notes`` says what.

    Raises:
        SglangError: a value that makes no sense, with its name.
    """
    for name, value in (("tp_size", tp_size), ("pp_size", pp_size), ("dp_size", dp_size), ("page_size", page_size)):
        if value < 1:
            raise SglangError(f"{name} is {value}", where=name, expected="1 or more")
    for context in contexts:
        if context < 1:
            raise SglangError(f"a context of {context} tokens", where="contexts", expected="1 or more")
    if not isinstance(dp_attention, bool):  # a number of groups, as people also say it
        dp_size, dp_attention = (dp_attention, True) if dp_attention > 1 else (dp_size, False)
    checkpoint = config if isinstance(config, Checkpoint) else from_config(config)
    version = _kv_dtype.version_of(engine_version)
    notes: list[str] = []
    doubts: list[str] = []
    dtype = _resolve(
        kv_cache_dtype,
        checkpoint,
        version,
        backend=attention_backend,
        capability=compute_capability,
        notes=notes,
        doubts=doubts,
    )
    states, speculative = states or StateSettings(), speculative or Speculative()
    parallel = Parallel(tp_size, pp_size, dp_size, dp_attention)

    def make(of: str) -> Cell:
        return cell(
            checkpoint.text,
            checkpoint.architectures,
            of,
            version,
            parallel,
            draft_layers=_draft_layers(checkpoint, speculative),
            swa_ratio=swa_full_tokens_ratio,
            dsa_layout=dsa_layout,
            ssm_dtype=states.ssm_dtype,
            compress_state_dtype=compress_state_dtype,
        )

    made = make(dtype)
    notes += made.notes
    doubts += made.doubts
    if not kv.known(version):
        doubts.append(f"SGLang {version} is outside the versions that were read ({kv.TABLE_RANGE})")
    fit = _Fit(
        made,
        memory or Memory(),
        states,
        speculative,
        version=version,
        page_size=page_size,
        max_running=max_running_requests,
        dp=dp_size if dp_attention else 1,
    )
    tokens, slots = fit.solve(max_total_tokens)
    notes += fit.notes
    doubts += fit.doubts
    per_request = fit.slots_per_request()
    requests = [_requests(context, tokens, slots, per_request) for context in contexts]
    notes += _limits(made, requests)
    return {
        "kind": made.geometry.kind,
        "kv_cache_dtype": dtype,
        "bytes_per_token": _plain(made.bytes),
        "state_bytes_per_slot": made.state_bytes,
        "tokens": tokens,
        "state_slots": slots,
        "slots_per_request": per_request if made.state_layers else None,
        "max_running_requests": fit.running(tokens, slots, _context(checkpoint)),
        "requests": requests,
        "kv_heads_replicated": made.kv_heads_replicated,
        "pools": [{**pool, "bytes_per_token": _plain(pool["bytes_per_token"])} for pool in made.pools],
        "fp8": _other(make("fp8_e4m3"), fit, max_total_tokens, contexts),
        "formula": _formula(made, fit, tokens, slots),
        "approximate": bool(doubts),
        "notes": _unique([*notes, *(f"approximate: {doubt}" for doubt in doubts)]),
    }


class _Fit:
    """The engine's division of memory between tokens and states."""

    def __init__(
        self,
        made: Cell,
        memory: Memory,
        states: StateSettings,
        speculative: Speculative,
        *,
        version: EngineVersion,
        page_size: int,
        max_running: int | None,
        dp: int,
    ) -> None:
        self.made = made
        self.memory = memory
        self.states = states
        self.speculative = speculative
        self.version = version
        self.page_size = page_size
        self.max_running = max_running
        self.dp = dp
        self.notes: list[str] = []
        self.doubts: list[str] = []
        self.rest: float | None = None
        self.pool: float | None = None

    def slots_per_request(self) -> int:
        """State slots that a running request holds."""
        if self.states.disable_radix_cache:
            return kv.SLOTS_PER_REQUEST["radix_off"]
        strategy = self.states.strategy
        if strategy == "auto":
            default = kv.has("extra_buffer_default", self.version) and not self.states.disable_overlap_schedule
            strategy = "extra_buffer" if default else "no_buffer"
        if strategy == "extra_buffer" and self.states.disable_overlap_schedule:
            strategy = "extra_buffer_no_overlap"
        if strategy not in kv.SLOTS_PER_REQUEST:
            raise SglangError(
                f"{strategy!r} is no strategy of the state pool",
                where="mamba_strategy",
                expected="auto, no_buffer, extra_buffer or extra_buffer_lazy",
            )
        return kv.SLOTS_PER_REQUEST[strategy]

    def solve(self, max_total_tokens: int | None) -> tuple[int | None, int | None]:
        """Tokens and state slots; None where the memory does not tell."""
        memory, state = self.memory, self.made.state_bytes
        slots: int | None = self.states.max_cache_size if state else None
        if memory.kv_pool_bytes is not None:
            self.pool = memory.kv_pool_bytes
        elif memory.after_load is not None and memory.fraction is not None:
            before = memory.before_load
            if before is None:
                before = memory.after_load
                self.doubts.append(
                    "memory before loading is not given: the reserve is taken of what is free afterwards"
                )
            self.rest = (memory.after_load - before * (1 - memory.fraction)) * GIB
            slots, self.pool = self._split(self.rest, state)
        else:
            return None, slots
        tokens = int(max(self.pool, 0) // self.made.bytes) if self.made.bytes else 0
        tokens = tokens // self.page_size * self.page_size
        if max_total_tokens is not None and tokens > max_total_tokens:
            tokens = max_total_tokens // self.page_size * self.page_size
            self.notes.append(f"max_total_tokens {max_total_tokens} is less than what fits")
        if tokens == 0:
            self.notes.append("nothing fits: the engine would stop with 'Not enough memory'")
        return tokens, slots

    def _split(self, rest: float, state: int) -> tuple[int | None, float]:
        """States first: their share of the rest, in whole slots; tokens get what is left."""
        if not state:
            return None, rest
        drafts = (self.speculative.num_draft_tokens or 0) if self.speculative.algorithm else 0
        running = max(1, (self.max_running or 48) // self.dp)
        if drafts and not self.max_running:
            self.notes.append("speculative decoding without max_running_requests: 48 are taken, as the engine does")
        joint = kv.has("spec_state_joint", self.version)
        if drafts and not joint:
            rest -= state * running * drafts
        padding = 1 if kv.has("padding_slot_in_budget", self.version) else 0
        share = rest * self.states.full_memory_ratio / (1 + self.states.full_memory_ratio)
        per_request = self.slots_per_request()
        if self.states.max_cache_size is not None:
            slots = self.states.max_cache_size // self.dp
        elif self.states.disable_radix_cache and self.max_running is not None:
            slots = max(1, self.max_running // self.dp)
        elif drafts and joint:
            slots = int((share - padding * state * (1 + drafts)) // (state * (1 + drafts / per_request)))
        else:
            slots = int((share - padding * state) // state)
        slots = max(slots, 0)
        if drafts and joint:
            rest -= state * (min(running, slots // per_request) + padding) * drafts
        return slots, rest - (slots + padding) * state

    def running(self, tokens: int | None, slots: int | None, context: int | None) -> int | None:
        """What the engine sets max_running_requests to (and prints)."""
        if tokens is None:
            return None
        cap = self.max_running
        if cap is None:
            length = context or CONTEXTS[-1]
            cap = int(min(max(tokens / length * 512, 2048), 4096))
            if self.speculative.algorithm:
                cap = 48
        cap = max(1, cap // self.dp)
        return min(cap, slots // self.slots_per_request()) if slots is not None else cap


def _resolve(
    asked: str,
    checkpoint: Checkpoint,
    version: EngineVersion,
    *,
    backend: str | None,
    capability: str | float | None,
    notes: list[str],
    doubts: list[str],
) -> str:
    word = asked.strip().lower()
    if word in (_kv_dtype.UNKNOWN, _kv_dtype.REFUSED, _kv_dtype.UNRECOGNISED):
        doubts.append(f"the dtype of the KV cache is {word}; computed for bfloat16")
        return "bfloat16"
    if word != "auto":
        return kv.VALUE_DTYPE.get(word, word)
    dtype, why = _kv_dtype.engine_auto(checkpoint, str(version), backend, capability)
    if dtype in kv.ELEMENT_BYTES:
        notes.append(f"auto is {dtype} in SGLang {version}")
        return dtype
    doubts.append(f"auto is {dtype} in SGLang {version} ({why}); computed for bfloat16")
    return "bfloat16"


def _draft_layers(checkpoint: Checkpoint, speculative: Speculative) -> int:
    algorithm = (speculative.algorithm or "").upper()
    if not algorithm or algorithm in _NO_DRAFT_MODEL:
        return 0
    if speculative.draft_layers is not None:
        return speculative.draft_layers
    for name in ("num_nextn_predict_layers", "mtp_num_hidden_layers"):
        value = checkpoint.text.get(name)
        if isinstance(value, int) and value > 0:
            # The engine runs one MTP layer over and over unless told otherwise.
            return 1
    return 1


def _context(checkpoint: Checkpoint) -> int | None:
    value = checkpoint.text.get("max_position_embeddings")
    return value if isinstance(value, int) and value > 0 else None


def _requests(context: int, tokens: int | None, slots: int | None, per_request: int) -> dict[str, t.Any]:
    by_tokens = None if tokens is None else tokens // context
    by_slots = None if slots is None else slots // per_request
    known = [value for value in (by_tokens, by_slots) if value is not None]
    concurrent = min(known) if by_tokens is not None else None
    return {"context": context, "by_tokens": by_tokens, "by_slots": by_slots, "concurrent": concurrent}


def _limits(made: Cell, requests: list[dict[str, t.Any]]) -> list[str]:
    notes = []
    if made.state_layers:
        notes.append(
            f"{made.state_layers} layers keep a state of fixed size per request ({made.state_bytes} B a slot); "
            "only the others cost anything per token"
        )
    limited = [
        str(r["context"])
        for r in requests
        if r["by_tokens"] is not None and r["by_slots"] is not None and r["by_slots"] < r["by_tokens"]
    ]
    if limited:
        notes.append(f"limited by state slots, not by tokens, at a context of {', '.join(limited)}")
    return notes


def _other(made: Cell, fit: _Fit, max_total_tokens: int | None, contexts: t.Sequence[int]) -> dict[str, t.Any]:
    """What FP8 would give instead, in the same memory."""
    twin = _Fit(
        made,
        fit.memory,
        fit.states,
        fit.speculative,
        version=fit.version,
        page_size=fit.page_size,
        max_running=fit.max_running,
        dp=fit.dp,
    )
    tokens, slots = twin.solve(max_total_tokens)
    return {
        "bytes_per_token": _plain(made.bytes),
        "tokens": tokens,
        "requests": [_requests(context, tokens, slots, twin.slots_per_request()) for context in contexts],
    }


def _formula(made: Cell, fit: _Fit, tokens: int | None, slots: int | None) -> str:
    parts = [f"bytes_per_token = {made.formula} = {_plain(made.bytes)} B"]
    if made.state:
        parts.append(
            f"state_bytes_per_slot = {made.state_layers} layers x ({made.state.formula}) = {made.state_bytes} B"
        )
    memory = fit.memory
    if fit.rest is not None:
        before = memory.after_load if memory.before_load is None else memory.before_load
        parts.append(
            f"rest = {memory.after_load} GiB - {before} GiB x (1 - {memory.fraction}) = {fit.rest / GIB:.3f} GiB"
        )
        if slots is not None and fit.pool is not None:
            ratio = fit.states.full_memory_ratio
            parts.append(
                f"state_slots = {fit.rest / GIB:.3f} GiB x {ratio:g} / {1 + ratio:g} / {made.state_bytes} B = {slots}; "
                f"left for tokens: {fit.pool / GIB:.3f} GiB"
            )
    if tokens is not None and fit.pool is not None:
        parts.append(f"tokens = {fit.pool:.0f} B / {_plain(made.bytes)} B = {tokens}")
    return "; ".join(parts)


def _plain(number: float) -> int | float:
    """Whole numbers as such, others to four places."""
    rounded = round(number, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))

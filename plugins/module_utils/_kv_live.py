# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof of the KV cache's dtype from a running engine; what the gate and kv_cache_assert share (private).

Each source can do what it can do: the log of this start and arithmetic prove, together; internal_states can only
refute; the top-level kv_cache_dtype of /server_info and two hopeful log lines are worth nothing.
"""

from __future__ import annotations

import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _kv_dtype, _kv_measure
from ansible_collections.blackwell.sglang.plugins.module_utils._checkpoint import Checkpoint, from_config
from ansible_collections.blackwell.sglang.plugins.module_utils._engine import kv
from ansible_collections.blackwell.sglang.plugins.module_utils._engine.versions import EngineVersion
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_cell import Parallel
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_log import LogFacts, Pool, facts
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_server import ServerFacts, read_server_info
from ansible_collections.blackwell.sglang.plugins.module_utils._kv_verdict import Evidence, KvVerdict
from ansible_collections.blackwell.sglang.plugins.module_utils._unit_log import UnitLog

__all__ = ["Evidence", "KvVerdict", "prove"]

_DEAD = ("failed", "inactive")
_AUTO_MAY_BE = ("bfloat16", "fp8_e4m3", "float16")


def prove(
    ordered: str,
    checkpoint: Checkpoint | t.Mapping[str, t.Any],
    unit_log: UnitLog | None,
    server_info: t.Mapping[str, t.Any] | None,
    *,
    tp_size: int,
    engine_version: str | None,
    receipt: t.Mapping[str, t.Any] | None = None,
    pp_size: int = 1,
    draft_ordered: str | None = None,
    arguments: t.Mapping[str, t.Any] | None = None,
    silence: str = "",
) -> KvVerdict:
    """Judge whether the KV cache of a running engine has the dtype ordered.

    Args:
        ordered: the dtype that must hold, for instance ``bfloat16``; with ``auto`` any that is proved.
        checkpoint: a :class:`Checkpoint` or its config.json as a dict; bytes per token come from it.
        unit_log: the log of this start, or None.
        server_info: the JSON of ``/server_info``, or None.
        tp_size: tensor parallel size that was ordered; what the log or the server says of itself wins.
        engine_version: version that was ordered; what the server says of itself wins.
        receipt: what :attr:`KvVerdict.receipt` of an earlier run held, kept under the InvocationID.
        pp_size: pipeline parallel size.
        draft_ordered: the dtype of the draft model's cache, where speculation is on and it differs.
        arguments: the arguments of the engine by field name, for settings that change the pools.
        silence: why there is no ``server_info``, for the evidence.
    """
    try:
        server = read_server_info(server_info)
    except SglangError as exc:  # without jmespath the log can still speak
        server, silence = ServerFacts(), str(exc)
    model = checkpoint if isinstance(checkpoint, Checkpoint) else from_config(checkpoint)

    def judge(dtype: str) -> KvVerdict:
        return _Case(
            ordered=dtype,
            checkpoint=model,
            log=unit_log,
            server=server,
            tp_size=tp_size,
            pp_size=pp_size,
            engine_version=engine_version,
            receipt=dict(receipt or {}),
            draft_ordered=_kv_dtype.canonical(draft_ordered) if draft_ordered else None,
            arguments=dict(arguments or {}),
            silence=silence,
        ).judge()

    wanted = _kv_dtype.canonical(ordered)
    if wanted != "auto":
        return judge(wanted)
    # No dtype was ordered: whichever is proved will do.
    verdicts = [judge(dtype) for dtype in _AUTO_MAY_BE]
    best = next((verdict for verdict in verdicts if verdict.ok), verdicts[0])
    if not best.ok:
        best.verdict, best.recommendation = "unproved", ""
    best.evidence.insert(0, Evidence("arguments", f"auto was ordered; it became {best.effective_dtype}", "intent"))
    return best


class _Case:
    """One judgement; the steps leave their evidence behind."""

    def __init__(
        self,
        *,
        ordered: str,
        checkpoint: Checkpoint,
        log: UnitLog | None,
        server: ServerFacts,
        tp_size: int,
        pp_size: int,
        engine_version: str | None,
        receipt: dict[str, t.Any],
        draft_ordered: str | None,
        arguments: dict[str, t.Any],
        silence: str,
    ) -> None:
        self.ordered = ordered
        self.checkpoint = checkpoint
        self.log = log
        self.server = server
        self.receipt = receipt
        self.draft_ordered = draft_ordered or ordered
        self.arguments = arguments
        self.silence = silence
        self.evidence: list[Evidence] = []
        self.other: str | None = None  # a dtype that is proved or named instead of the ordered one
        self.facts = facts(log.lines) if log is not None else LogFacts()
        self.version = self._version(engine_version)
        self.tp = self.server.tp_size or self.facts.tp_size or tp_size
        self.pp = self.server.pp_size or pp_size
        if self.tp != tp_size:
            self._say("tp_size", f"{tp_size} was ordered, the engine says {self.tp}", "risk")

    def judge(self) -> KvVerdict:
        """Weigh everything."""
        counts, foreign = self._log_counts()
        server = None if foreign else self.server
        scale = self._scale(server)
        logged = self._by_log(scale, counts)
        summed = self._by_log_sizes(scale, counts)
        measured = self._by_server(scale, server)
        self._refute(server)
        self._worthless(server)
        if self.other is not None:
            return self._verdict("violated", self.other)
        if foreign:
            return self._verdict("unproved", "unknown")
        if logged and (summed or measured) and summed is not False and measured is not False:
            return self._verdict("ok", self.ordered, keep=True)
        if self._receipt_stands(logged, measured):
            return self._verdict("ok", self.ordered, keep=True)
        if measured and not logged and self._wording_unknown():
            self._say(
                "arithmetic",
                f"no table knows how SGLang {self.version} words its log, so arithmetic alone is taken as proof",
                "proves",
            )
            return self._verdict("ok", self.ordered)
        return self._verdict("unproved", "unknown")

    # --- whose log, whose answers ---------------------------------------------------------------------------------

    def _version(self, ordered: str | None) -> EngineVersion:
        running = EngineVersion.try_parse(self.server.version)
        wanted = _kv_dtype.version_of(ordered)
        if running is not None and ordered and running != wanted:
            self._say("/server_info version", f"{running} runs, {wanted} was ordered", "risk")
        return running or wanted

    def _log_counts(self) -> tuple[str, bool]:
        """How far the log's lines count (``proves``, ``refutes`` or ``nothing``), and whether another server
        answers.
        """
        log = self.log
        if log is None or (not log.lines and log.belongs != "no"):
            self._say("log of this start", "there is none" if log is None else "it is empty", "nothing")
            return "nothing", False
        if log.belongs == "no":
            self._say(
                log.source or "log", f"not counted: {'; '.join(log.notes) or 'it is of another start'}", "nothing"
            )
            return "nothing", False
        if log.active_state in _DEAD and log.invocation_id:
            self._say(log.source, f"the unit is {log.active_state}: its log proves nothing about what runs", "nothing")
            return "nothing", self.server.answered
        same = self._same_server()
        if same is False and log.belongs == "yes":
            self._say(
                "/server_info",
                "another server answers here: its random seed or tokens are not those of the log",
                "nothing",
            )
            return "proves", True
        if log.belongs == "yes":
            return "proves", False
        why = "; ".join(log.notes) or "nothing ties it to the running process"
        if same:
            self._say(
                log.source or "log",
                f"{why}; but its random seed and tokens are those of the server that answers",
                "risk",
            )
            return "proves", False
        if same is False:
            self._say(
                log.source or "log",
                f"not counted: it is of another start than the server that answers ({why})",
                "nothing",
            )
            return "nothing", False
        self._say(log.source or "log", f"it may refute but not prove: {why}", "nothing")
        return "refutes", False

    def _same_server(self) -> bool | None:
        """Whether the log is of the server that answers: by the random seed of each start, and by the tokens."""
        ours = {pool.tokens for pool in self.facts.pools if not pool.draft}
        if self.facts.tokens is not None:
            ours.add(self.facts.tokens)
        theirs = self.server.max_total_num_tokens or self.server.tokens
        if ours and theirs is not None and theirs not in ours:
            return False
        if self.facts.seed is None or self.server.random_seed is None:
            return None
        if self.facts.seed != self.server.random_seed:
            return False
        # A seed that is given on the command line is the same at every start and tells nothing.
        return None if self.arguments.get("random_seed") is not None else True

    # --- log ------------------------------------------------------------------------------------------------------

    def _scale(self, server: ServerFacts | None) -> _kv_measure.Scale:
        def setting(name: str) -> t.Any:
            value = self.arguments.get(name)
            return value if value is not None else (server.settings.get(name) if server else None)

        dp = int(setting("dp_size") or 1)
        ratio = setting("swa_full_tokens_ratio")
        scale = _kv_measure.Scale(
            self.checkpoint,
            self.version,
            Parallel(self.tp, self.pp, dp, str(setting("enable_dp_attention")).lower() == "true"),
            swa_ratio=float(ratio) if ratio is not None else None,
        )
        if scale.problem:
            self._say("config.json", f"no arithmetic is possible: {scale.problem}", "nothing")
        return scale

    def _by_log(self, scale: _kv_measure.Scale, counts: str) -> bool:
        """Whether the log proves the dtype on every rank; finds another dtype on any."""
        found = self.facts
        if counts == "nothing" or not found.recognised:
            if counts != "nothing":
                self._say(self._source(), "it holds no line about the KV cache that is known", "nothing")
            return False
        weight = "proves" if counts == "proves" else "nothing"
        named: dict[str, str] = {}
        for rank, dtype, line in found.dtypes:
            self._named(rank, dtype, line, named, weight=weight, draft=False)
        for pool in found.pools:
            if pool.dtype is not None:
                self._named(pool.rank, pool.dtype, pool.line, named, weight=weight, draft=self._is_draft(pool, scale))
        if self.other is not None or counts != "proves":
            return False
        return self._every_rank(scale, named)

    def _named(self, rank: str, dtype: str, line: str, named: dict[str, str], *, weight: str, draft: bool) -> None:
        wanted = self.draft_ordered if draft else self.ordered
        if dtype != wanted and not (dtype == "fp4" and wanted in ("nvfp4", "fp4_e2m1", "fp4_mx_block16")):
            self.other = self.other or dtype
            self._say(
                self._source(), f"rank {rank or 'TP0'}: {_tail(line)}", "proves" if weight == "proves" else "refutes"
            )
        elif not draft:
            if not named:
                self._say(self._source(), f"rank {rank or 'TP0'}: {_tail(line)}", weight)
            named[rank] = dtype

    def _every_rank(self, scale: _kv_measure.Scale, named: dict[str, str]) -> bool:
        """Each rank must name the dtype, or show it by its own token count and size once some rank has named it."""
        if not named:
            self._say(self._source(), "no rank names a dtype", "nothing")
            return False
        ranks = self.facts.ranks()
        expected = self.tp * self.pp
        if len(ranks) < expected:
            self._say(self._source(), f"{len(ranks)} of {expected} ranks logged a pool", "nothing")
            return False
        silent = [rank for rank in ranks if rank not in named]
        for rank in silent:
            pools = [pool for pool in self.facts.pools if pool.rank == rank and not self._is_draft(pool, scale)]
            if not any(self._fits(pool, scale) for pool in pools):
                self._say(self._source(), f"rank {rank}: neither a dtype nor a size that shows it", "nothing")
                return False
        if silent:
            self._say(
                self._source(),
                f"rank{'s' if len(silent) > 1 else ''} {', '.join(silent)}: by token count and size",
                "proves",
            )
        elif len(named) > 1:
            self._say(self._source(), f"all {len(named)} ranks name {self.ordered}", "proves")
        return True

    # --- arithmetic -------------------------------------------------------------------------------------------------

    def _by_log_sizes(self, scale: _kv_measure.Scale, counts: str) -> bool | None:
        """Sizes over tokens in the log: True proves, False fits nothing, None is not there."""
        pools = [(pool, pool.gib) for pool in self.facts.pools if pool.gib is not None]
        if counts == "nothing" or scale.problem or not pools:
            return None
        good = True
        for pool, gib in pools:
            if self._is_draft(pool, scale) and pool.dtype is not None:
                continue  # a draft model of another shape is judged by the dtype that it names
            fits = self._candidates(pool, scale)
            figure = f"rank {pool.rank or 'TP0'}: {gib:.2f} GiB / {pool.tokens} tokens = {pool.bytes_per_token:.0f} B"
            if not fits:
                good = False
                if not scale.doubts:
                    self._say("arithmetic", f"{figure}, which fits no dtype of this model on {self.tp} GPUs", "nothing")
            elif any(_kv_measure.same_width(self._wanted(place), place.dtype) for place in fits):
                if pool is pools[0][0]:
                    self._say(
                        "arithmetic",
                        f"{figure}: {_kv_measure.words(fits)} per number",
                        counts if counts == "proves" else "nothing",
                    )
            else:
                self.other = self.other or fits[0].dtype
                self._say(
                    "arithmetic",
                    f"{figure}: {_kv_measure.words(fits)} per number",
                    "proves" if counts == "proves" else "refutes",
                )
                return False
        if not good and scale.doubts:
            return None
        return good if counts == "proves" else None

    def _by_server(self, scale: _kv_measure.Scale, server: ServerFacts | None) -> bool | None:
        """memory_usage over token_capacity: the first scheduler's, whatever the version or wording."""
        if server is None:
            return None
        if not server.answered:
            self._say("/server_info", self.silence or "not asked", "nothing")
            return None
        if server.kv_gib is None or not server.tokens or scale.problem:
            self._say("/server_info", "it gives no memory of the KV cache", "nothing")
            return None
        fits = scale.match(server.kv_gib, server.tokens, 0.01, whole=True)
        measured = server.kv_gib * 1024**3 / server.tokens
        figure = f"memory_usage.kvcache {server.kv_gib} GiB / token_capacity {server.tokens} = {measured:.0f} B a token"
        if not fits:
            self._say("arithmetic", f"{figure}, which fits no dtype of this model on {self.tp} GPUs", "nothing")
            return None if scale.doubts else False
        if any(_kv_measure.same_width(self.ordered, place.dtype) for place in fits):
            self._say("arithmetic", f"{figure}: {_kv_measure.words(fits)} per number", "proves")
            return True
        self.other = self.other or fits[0].dtype
        self._say("arithmetic", f"{figure}: {_kv_measure.words(fits)} per number", "proves")
        return False

    def _candidates(self, pool: Pool, scale: _kv_measure.Scale) -> list[_kv_measure.Candidate]:
        if pool.gib is None:
            return []
        fits = scale.match(pool.gib, pool.tokens, pool.rounding)
        draft = self._is_draft(pool, scale)
        return [place for place in fits if (place.pool == "draft") == draft]

    def _fits(self, pool: Pool, scale: _kv_measure.Scale) -> bool:
        fits = self._candidates(pool, scale)
        return any(_kv_measure.same_width(self.ordered, place.dtype) for place in fits)

    def _wanted(self, place: _kv_measure.Candidate) -> str:
        return self.draft_ordered if place.pool == "draft" else self.ordered

    def _is_draft(self, pool: Pool, scale: _kv_measure.Scale) -> bool:
        """Whether a pool is the draft model's: it says so, or speculation is on and it comes after the target's own."""
        if pool.draft:
            return True
        if not self._speculative():
            return False
        mine = [other for other in self.facts.pools if other.rank == pool.rank and not other.draft]
        if mine and mine[0] is pool:
            return False
        if pool.gib is None:
            return True
        return not any(place.pool != "draft" for place in scale.match(pool.gib, pool.tokens, pool.rounding))

    def _speculative(self) -> bool:
        given = self.arguments.get("speculative_algorithm") or self.server.settings.get("speculative_algorithm")
        return bool(given)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def _refute(self, server: ServerFacts | None) -> None:
        for dtype in server.state_dtypes if server else []:
            named = _kv_dtype.canonical(dtype)
            if named not in ("auto", self.ordered):
                self.other = self.other or named
                self._say("/server_info internal_states", f"kv_cache_dtype is {dtype}", "refutes")
            else:
                self._say(
                    "/server_info internal_states", f"kv_cache_dtype is {dtype}; it may repeat the argument", "nothing"
                )

    def _worthless(self, server: ServerFacts | None) -> None:
        if server and server.top_dtype is not None:
            self._say("/server_info kv_cache_dtype", f"{server.top_dtype}: the argument as it was given", "nothing")
        for mark, why in self.facts.worthless:
            self._say(self._source(), f"'{mark}': {why}", "nothing")

    def _receipt_stands(self, logged: bool, measured: bool | None) -> bool:
        """A receipt of the same start, with fresh arithmetic, stands in for a log that has been rotated away."""
        if not self.receipt:
            return False
        mine = self.log.invocation_id if self.log else None
        kept = self.receipt.get("invocation_id")
        if not mine or kept != mine:
            self._say("receipt", f"it is of another start ({kept})", "nothing")
            return False
        if _kv_dtype.canonical(str(self.receipt.get("effective_dtype"))) != self.ordered:
            self._say("receipt", f"it holds {self.receipt.get('effective_dtype')}", "nothing")
            return False
        tokens = self.receipt.get("tokens")
        if tokens is not None and self.server.tokens is not None and tokens != self.server.tokens:
            self._say("receipt", f"it holds {tokens} tokens, the server has {self.server.tokens}", "nothing")
            return False
        if not logged and not measured:
            self._say("receipt", "it is of this start, but there is no fresh arithmetic beside it", "nothing")
            return False
        self._say("receipt", f"the log of this start (invocation {mine}) proved {self.ordered} before", "proves")
        return measured is True

    def _wording_unknown(self) -> bool:
        """Whether no table speaks for this version's log; for main only if its log has no line that is known."""
        if self.facts.recognised:
            return False
        if self.version.is_main:
            return self.log is not None and bool(self.log.lines) and self.log.belongs != "no"
        return not kv.known(self.version)

    def _verdict(self, verdict: str, dtype: str, keep: bool = False) -> KvVerdict:
        receipt: dict[str, t.Any] = {}
        if keep and self.log is not None and self.log.invocation_id:
            receipt = {
                "invocation_id": self.log.invocation_id,
                "ordered": self.ordered,
                "effective_dtype": dtype,
                "tokens": self.server.tokens or self.facts.tokens,
                "ranks": self.facts.ranks() or self.receipt.get("ranks", []),
                "engine_version": str(self.version),
            }
        advice = ""
        if verdict != "ok":
            best, _rest = _kv_dtype.recommend(self.ordered, self.checkpoint, self.version)
            advice = _kv_dtype.as_argument(best) if verdict == "violated" else ""
        return KvVerdict(verdict, dtype, self.evidence, advice, receipt)

    def _source(self) -> str:
        return (self.log.source if self.log else "") or "log of this start"

    def _say(self, source: str, says: str, weight: str) -> None:
        item = Evidence(source, says, weight)
        if item not in self.evidence:
            self.evidence.append(item)


def _tail(line: str) -> str:
    """A line without its time stamp."""
    return line.split("] ", 1)[-1].strip()

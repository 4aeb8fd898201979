"""The served model: takes prompts, says answers, keeps count, and shows the faults that only computing shows."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from sglang._standin import answers
from sglang._standin.children import Child, ChildDied
from sglang._standin.loading import Loader

REASONING = "The user asks something that I can answer directly, so I will do that and keep it short."


# Tokens of earlier prompts that are kept to find shared beginnings; the oldest prompt goes first.
REMEMBERED_TOKENS = 300_000


class Refused(Exception):
    """A request that the server answers with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Call:
    """One request on its way through the model."""

    prompt: str
    pieces: list[str]
    cached: int
    limit: int
    params: dict[str, Any]
    chat: bool
    thinking: bool
    arrived: float


@dataclass
class Result:
    """One finished answer; `reasoning` is the part before the answer for servers with a reasoning parser."""

    pieces: list[answers.Piece]
    finish: dict[str, Any]
    call: Call
    nan: bool
    started: float
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    reasoning: list[answers.Piece] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def completion_tokens(self) -> int:
        """Tokens of reasoning and answer."""
        return len(self.pieces) + len(self.reasoning)


class Engine:
    """Thread-safe front of the model; the scheduler child of rank 0 writes its log lines."""

    def __init__(self, loader: Loader, scheduler: Child, settings: Any) -> None:
        self.loader = loader
        self.args = loader.args
        self.settings = settings
        self.ready = False
        self.running = 0
        self.totals = {"prompt": 0, "generation": 0, "requests": 0, "cached": 0}
        self.crashed = threading.Event()
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._prefixes: list[list[str]] = []
        self._overlapping = any(settings.get(name) for name in ("nan_burst", "illegal_memory_access"))
        self._crowded = 0.0
        self._overlapping = self._overlapping or "requests" in (settings.get("garbage") or {})

    def log(self, text: str) -> None:
        """Write a scheduler line; a dead scheduler is noticed elsewhere."""
        with self._lock:
            try:
                self._scheduler.line(text)
            except ChildDied:
                self.crashed.set()

    def beat(self) -> None:
        """The one-token generation behind /health."""
        self._prefill(1, 0)

    def _prefill(self, new: int, cached: int) -> None:
        slots = "mamba usage: 0.01, " if self.loader.geometry.linear_layers else ""
        usage = "full token usage" if self.loader.geometry.linear_layers else "token usage"
        self.log(
            f"Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, {usage}: "
            f"{min(1.0, new / self.loader.pools.tokens):.2f}, {slots}#running-req: {max(0, self.running - 1)}, "
            "#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 24.54"
        )

    def _cached(self, prompt: list[str]) -> int:
        """Tokens of the prompt that an earlier prompt began with; the last one is always computed."""
        if self.args.disable_radix_cache:
            return 0
        best = 0
        for known in self._prefixes:
            same = 0
            for left, right in zip(known, prompt, strict=False):
                if left != right:
                    break
                same += 1
            # A hybrid model can only resume where a state was kept: at the end of an earlier prompt. One token at least
            # is computed, so the same prompt again takes nothing (seen: 0 of 588 tokens; with ten more, 588 of 598).
            if same == len(known) < len(prompt) or not self.loader.geometry.linear_layers:
                best = max(best, same)
        if prompt not in self._prefixes:
            self._prefixes.append(prompt)
        while len(self._prefixes) > 1 and sum(map(len, self._prefixes)) > REMEMBERED_TOKENS:
            self._prefixes.pop(0)
        return min(best, len(prompt) - 1)

    def forget(self) -> None:
        """Empty the prefix cache."""
        with self._lock:
            self._prefixes = []

    def generate(
        self, prompt: str | list[int], params: dict[str, Any], *, chat: bool, thinking: bool = False
    ) -> Result:
        """Answer one prompt; raises Refused for prompts longer than the context."""
        arrived = time.time()
        if isinstance(prompt, list):
            pieces = [f"#{token}" for token in prompt]
            prompt = " ".join(pieces)
        else:
            pieces = answers.tokenize(prompt)
        if not pieces:
            raise Refused(400, "The input is empty.")
        limit = params.get("max_new_tokens")
        limit = 128 if limit is None else int(limit)
        if len(pieces) >= self.loader.context_len:
            most = self.loader.context_len
            raise Refused(
                400, f"The input ({len(pieces)} tokens) is longer than the model's context length ({most} tokens)."
            )
        limit = min(limit, self.loader.context_len - len(pieces))
        if self.settings.get("hang_after_ready") and self.ready:
            time.sleep(3600)
        with self._lock:
            self.running += 1
            running = self.running
            cached = self._cached(pieces)
        try:
            return self._compute(Call(prompt, pieces, cached, limit, params, chat, thinking, arrived), running)
        finally:
            with self._lock:
                self.running -= 1

    def _compute(self, call: Call, running: int) -> Result:
        started = time.time()
        self._prefill(len(call.pieces) - call.cached, call.cached)
        if self._overlapping:
            time.sleep(0.3)
            # A client on a busy machine takes its time to send a burst: wait for all of it, and let all of it be
            # garbage, so that the fault is certain.
            needed = int((self.settings.get("garbage") or {}).get("requests", 0))
            end = time.time() + (30 if self.running >= 8 else 0)
            while self.running < needed and time.time() < end and time.time() - self._crowded > 2:
                time.sleep(0.02)
            if needed and self.running >= needed:
                self._crowded = time.time()
            if self.running >= 8 and time.time() - self._crowded < 2:
                running = max(running, needed)
            running = max(running, self.running)
        self._crash_under_load(running)
        nan = self._nan(len(call.pieces), running)
        reasoning, written, finish = self._say(call, nan, running)
        written, finish = _cut_at_stop(written, finish, call.params.get("stop"))
        count = len(written) + len(reasoning)
        slow = self.settings.get("slow")
        delay = float(slow.get("token_seconds", 0.2)) if slow else float(self.settings.values.get("token_seconds", 0))
        if delay:
            time.sleep(delay * count)
        if count > 8:
            graph = not self.args.disable_cuda_graph
            self.log(
                f"Decode batch, #running-req: {running}, #full token: {len(call.pieces) + count}, full token usage: "
                f"0.00, mamba num: 2, mamba usage: 0.01, cuda graph: {graph}, gen throughput (token/s): 71.40, "
                "#queue-req: 0"
            )
        with self._lock:
            self.totals["prompt"] += len(call.pieces)
            self.totals["cached"] += call.cached
            self.totals["generation"] += count
            self.totals["requests"] += 1
        return Result(written, finish, call, nan, started, reasoning=reasoning)

    def _say(
        self, call: Call, nan: bool, running: int
    ) -> tuple[list[answers.Piece], list[answers.Piece], dict[str, Any]]:
        """Return reasoning, answer and how it ended."""
        finish: dict[str, Any] = {"type": "length", "length": call.limit}
        reasoning: list[answers.Piece] = []
        stopped = False
        if nan:
            written = [answers.Piece("!", 0, float("nan"))] * call.limit
        elif self._is_garbage(len(call.pieces), running):
            written = self._garbage(call)
        else:
            if call.thinking:
                words = answers.tokenize(REASONING)[: call.limit]
                reasoning = [answers.Piece(word, answers.token_id(word), -0.2) for word in words]
            salt = "cached" if call.cached and self.settings.get("bad_cache") else ""
            left = call.limit - len(reasoning)
            endless = bool(call.params.get("ignore_eos"))
            written, stopped = answers.write(call.prompt, left, chat=call.chat, ignore_eos=endless, salt=salt)
            if salt:
                written = [answers.Piece(" nothing", answers.token_id(" nothing"), -4.0), *written][:left]
        if self.settings.get("nan_happened"):
            return reasoning, written[: max(1, call.limit // 2)], {"type": "stop", "matched": "NaN happened"}
        if stopped:
            finish = {"type": "stop", "matched": answers.END_TOKEN}
        return reasoning, written, finish

    def _nan(self, prompt_tokens: int, running: int) -> bool:
        if self.settings.get("nan"):
            return True
        long = self.settings.get("nan_long")
        if long and prompt_tokens >= int(long.get("tokens", 4000)):
            return True
        burst = self.settings.get("nan_burst")
        return bool(burst and running >= int(burst.get("requests", 4)))

    def _is_garbage(self, prompt_tokens: int, running: int) -> bool:
        fault = self.settings.get("garbage")
        if not fault:
            return False
        return prompt_tokens in fault.get("lengths", [prompt_tokens]) and running >= int(fault.get("requests", 0))

    def _garbage(self, call: Call) -> list[answers.Piece]:
        fault = self.settings.get("garbage") or {}
        if fault.get("kind") == "words":
            return answers.write(call.prompt, call.limit, chat=call.chat, ignore_eos=True, salt="garbage")[0]
        text = "\ufffd" if fault.get("kind") == "unicode" else "+"
        return [answers.Piece(text, answers.token_id(text), -0.1)] * call.limit

    def _crash_under_load(self, running: int) -> None:
        fault = self.settings.get("illegal_memory_access")
        if not fault or running < int(fault.get("requests", 4)) or self.crashed.is_set():
            return
        message = fault.get("message", "CUDA error: an illegal memory access was encountered")
        self.log(
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "sglang/srt/managers/scheduler.py", line 4051, in run_scheduler_process\n'
            "    scheduler.event_loop_normal()\n"
            f"torch.AcceleratorError: {message}\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.\n"
        )
        self.crashed.set()
        time.sleep(5)


def _cut_at_stop(
    written: list[answers.Piece], finish: dict[str, Any], stop: str | list[str] | None
) -> tuple[list[answers.Piece], dict[str, Any]]:
    for mark in [stop] if isinstance(stop, str) else stop or []:
        text = ""
        for place, piece in enumerate(written):
            text += piece.text
            if mark and mark in text:
                kept = written[:place]
                rest = text[: text.index(mark)][len("".join(p.text for p in kept)) :]
                if rest:
                    kept = [*kept, answers.Piece(rest, piece.token, piece.logprob)]
                return kept, {"type": "stop", "matched": mark}
    return written, finish

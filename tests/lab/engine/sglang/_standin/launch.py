"""The main process from its first line to its last: children, loading, the port, warm-up, signals, death."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from sglang._standin import gpus, log
from sglang._standin.checkpoint import Checkpoint
from sglang._standin.children import Child, ChildDied
from sglang._standin.complete import complete
from sglang._standin.engine import Engine
from sglang._standin.http import Server
from sglang._standin.loading import Loader, SchedulerFailed
from sglang._standin.squatter import squat
from sglang.srt.server_args import prepare_server_args

WARMUP_POLLS = 120


class Main:
    """The state that signal handlers and threads share."""

    def __init__(self, args: Any, settings: Any) -> None:
        self.args = args
        self.settings = settings
        self.holders = settings.values.get("holders_dir", gpus.HOLDERS)
        self.children: list[Child] = []
        self.serving = False
        self.terminating = False
        self.engine: Engine
        self.server: Server | None = None
        signal.signal(signal.SIGQUIT, self.on_sigquit)

    def sleep(self, seconds: float) -> None:
        """Sleep for a captured time, scaled."""
        time.sleep(seconds * self.settings.time_scale)

    def spawn(self) -> None:
        """Start the schedulers and the detokenizer; no thread may run yet."""
        tp = self.args.tp_size
        deaf = bool(self.settings.get("ignore_sigterm"))
        for rank in range(tp):
            title = "sglang::scheduler" + (f"_TP{rank}" if tp > 1 else "")
            habits = {"ignore_sigterm": deaf, "orphan": bool(self.settings.get("orphan")) and rank == 0}
            self.children.append(Child(f"scheduler_{rank}", title, rank if tp > 1 else None, self.holders, **habits))
        self.children.append(Child("detokenizer", "sglang::detokenizer", None, self.holders, ignore_sigterm=deaf))

    def die(self) -> None:
        """Kill the children, then this process: the real server ends by SIGKILL whatever made it end."""
        for child in self.children:
            if child.name == "scheduler_0" and self.settings.get("orphan"):
                continue
            try:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
            except OSError:
                pass
            gpus.release(self.holders, child.pid)
        os.kill(os.getpid(), signal.SIGKILL)

    def on_sigquit(self, number: int, frame: object) -> None:
        """A child failed; before and after the start the real server words it differently."""
        if self.serving:
            log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        else:
            log.line("Received sigquit from a child process. It usually means the child failed.")
        self.die()

    def on_sigterm(self, number: int, frame: object) -> None:
        """Drain and go, unless told to be deaf."""
        if self.terminating:
            return
        self.terminating = True
        log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")

    def watch(self) -> None:
        """Run until the end: look after the children, the signals and the faults that come late."""
        signal.signal(signal.SIGTERM, self.on_sigterm)
        signal.signal(signal.SIGINT, self.on_sigterm)
        later = self.settings.get("crash_later")
        due = time.monotonic() + float(later.get("seconds", 5)) if later else None
        last_word = 0.0
        while True:
            time.sleep(0.05)
            self._reap()
            if self.engine.crashed.is_set():
                self.on_sigquit(0, None)
            if due and time.monotonic() > due:
                self._scheduler_fails("RuntimeError: CUDA error: unspecified launch failure\n")
                self.on_sigquit(0, None)
            if not self.terminating:
                continue
            deaf = self.settings.get("ignore_sigterm")
            if time.monotonic() - last_word > 5:
                last_word = time.monotonic()
                left = 1 if deaf else self.engine.running
                log.line(
                    f"Gracefully exiting... Remaining number of requests {left}. Remaining requests remaining_rids=[]."
                )
                if left == 0:
                    self._give_up()

    def _give_up(self) -> None:
        # A signal to the whole group has reached the children too; the real watchdog sees that first.
        time.sleep(0.05)
        self._reap()
        self.die()

    def _reap(self) -> None:
        if self.settings.get("ignore_sigterm"):
            return
        for child in self.children:
            try:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
            except OSError:
                continue
            if pid:
                code = os.waitstatus_to_exitcode(status)
                log.line(
                    f"Subprocess {child.name} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT "
                    "for cleanup..."
                )
                self.on_sigquit(0, None)

    def _scheduler_fails(self, text: str) -> None:
        with contextlib.suppress(ChildDied):
            self.children[0].line(f"Scheduler hit an exception: Traceback (most recent call last):\n{text}")


def raise_file_limit() -> None:
    """The real server asks for 65,535 descriptors and says so when it does not get them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 65535:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (65535, hard))
        except ValueError:
            log.line("Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit")


def run(argv: list[str], settings: Any) -> None:
    """Start the server described by `argv` and serve until killed."""
    time.sleep(20 * settings.time_scale)  # the imports
    args = prepare_server_args(argv)
    settings.resolve(args)
    cards = gpus.visible(gpus.snapshot(settings.values))
    checkpoint = complete(args, cards[0].total if cards else gpus.MEMORY_MIB)
    raise_file_limit()
    log.line(f"server_args={args!r}")
    if settings.get("crash_loop"):
        raise ImportError(
            settings.get("crash_loop").get(
                "message",
                "sgl_kernel/sm100/common_ops.abi3.so: undefined symbol: "
                "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
            )
        )
    kind = "openai" if checkpoint.is_multimodal else "string"
    log.line(f"Using default HuggingFace chat template with detected content format: {kind}")
    if settings.get("port_in_use"):
        squat(args.host, args.port)
    main = Main(args, settings)
    main.spawn()
    main.sleep(22)
    loader = _load(main, checkpoint)
    main.engine = Engine(loader, main.children[0], settings)
    _serve(main)


def _load(main: Main, checkpoint: Checkpoint) -> Loader:
    loader = Loader(main.args, checkpoint, main.children[:-1], main.settings)
    try:
        loader.run()
    except SchedulerFailed:
        main.on_sigquit(0, None)
    except ChildDied as died:
        for child in main.children:
            if child.name == str(died):
                status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
                log.line(f"Rank {child.rank or 0} scheduler is dead. Please check if there are relevant logs.")
                log.line(f"Exit code: {status}")
        raise EOFError from died
    return loader


def _serve(main: Main) -> None:
    args = main.args
    log.line(f"INFO:     Started server process [{os.getpid()}]")
    log.line("INFO:     Waiting for application startup.")
    log.line("Using fallback token IDs for yes/no (9693/2152)")
    log.line("INFO:     Application startup complete.")
    warmup = threading.Thread(target=_warm_up, args=(main,), daemon=True)
    try:
        main.server = Server(args.host, args.port, main.engine)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        log.line(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('{args.host}', {args.port}): "
            "address already in use"
        )
        log.line("INFO:     Waiting for application shutdown.")
        warmup.start()
        warmup.join()
        log.line("INFO:     Application shutdown complete.")
        for child in main.children:
            os.kill(child.pid, signal.SIGTERM)
        sys.exit(1)
    threading.Thread(target=main.server.serve_forever, daemon=True).start()
    log.line(f"INFO:     Uvicorn running on http://{args.host}:{args.port} (Press CTRL+C to quit)")
    main.serving = True
    warmup.start()
    main.watch()


def _ask(main: Main, path: str, body: dict[str, Any] | None = None) -> int:
    """Send a warm-up request to whoever answers on our port; return the status, 0 if nobody does."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(main.args.host, main.args.host)
    request = urllib.request.Request(f"http://{host}:{main.args.port}{path}")
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if main.args.api_key:
        request.add_header("Authorization", f"Bearer {main.args.api_key}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=600) as reply:
            reply.read()
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _warm_up(main: Main) -> None:
    if main.args.skip_server_warmup:
        _ready(main)
        return
    for _ in range(WARMUP_POLLS):
        main.sleep(1)
        if _ask(main, "/model_info") == 200:
            break
    else:
        _warm_up_failed(main, "last_traceback: HTTP error while polling /model_info")
        return
    main.sleep(16)
    multimodal = main.engine.loader.checkpoint.is_multimodal
    if multimodal:
        path = "/v1/chat/completions"
        content = [{"type": "text", "text": "Describe the image."}]
        body: dict[str, Any] = {"model": main.args.served_model_name, "max_tokens": 8, "temperature": 0}
        body["messages"] = [{"role": "user", "content": content}]
    else:
        path = "/generate"
        body = {"text": "The capital city of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    status = _ask(main, path, body)
    if status != 200:
        _warm_up_failed(main, f"AssertionError: res.status_code={status}")
        return
    _ready(main)


def _ready(main: Main) -> None:
    log.line("The server is fired up and ready to roll!")
    main.engine.ready = True


def _warm_up_failed(main: Main, why: str) -> None:
    log.line(f"Initialization failed. warmup error: Traceback (most recent call last):\n{why}\n")
    main.die()

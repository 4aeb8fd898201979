"""The HTTP side: routes, API key, streaming, uvicorn's wording."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sglang._standin import answers, log, metrics, shapes
from sglang._standin.engine import Engine, Refused, Result

OPEN_PATHS = ("/health", "/health_generate", "/metrics")
DEPRECATED = {"/get_server_info": "/server_info", "/get_model_info": "/model_info"}


class Server(ThreadingHTTPServer):
    """Binds in the constructor, answers in threads."""

    daemon_threads = True
    request_queue_size = 2048
    allow_reuse_address = True

    def __init__(self, host: str, port: int, engine: Engine) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.engine = engine
        self.seen: Counter[tuple[str, str]] = Counter()
        self.answered: Counter[tuple[str, str, int]] = Counter()
        super().__init__((host, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def version_string(self) -> str:
        """The Server header."""
        return "uvicorn"

    def log_message(self, format: str, *args: Any) -> None:
        """Access lines are written by `_send`."""

    def do_GET(self) -> None:
        """GET."""
        self._route("GET")

    def do_POST(self) -> None:
        """POST."""
        self._route("POST")

    def _route(self, method: str) -> None:
        path = self.path.split("?")[0]
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        self.server.seen[path, method] += 1
        key = self.server.engine.args.api_key
        if key and path not in OPEN_PATHS and self.headers.get("Authorization") != f"Bearer {key}":
            self._send(401, {"error": "Unauthorized"})
            return
        route = ROUTES.get(path)
        if route is None or (path == "/metrics" and not self.server.engine.args.enable_metrics):
            self._send(404, {"detail": "Not Found"})
            return
        if method not in route[0]:
            self._send(405, {"detail": "Method Not Allowed"})
            return
        if path in DEPRECATED:
            log.line(
                f"Endpoint '{path}' is deprecated and will be removed in a future version. Please use "
                f"'{DEPRECATED[path]}' instead."
            )
        try:
            asked = json.loads(body) if body else {}
            if not isinstance(asked, dict):
                raise ValueError("body is not an object")
        except ValueError as error:
            self._openai_error(400, f"JSON decode error: {error}")
            return
        try:
            route[1](self, asked)
        except Refused as refused:
            if path.startswith("/v1/"):
                self._openai_error(refused.status, refused.message)
            else:
                self._send(refused.status, {"error": {"message": refused.message}})

    def _openai_error(self, status: int, message: str) -> None:
        body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}
        self._send(status, body)

    def _note(self, status: int) -> None:
        method, path = self.command, self.path.split("?")[0]
        self.server.answered[path, method, status] += 1
        if not any(path.startswith(prefix) for prefix in self.server.engine.args.uvicorn_access_log_exclude_prefixes):
            log.access(self.client_address, f"{method} {self.path} HTTP/1.1", status, HTTPStatus(status).phrase)

    def _send(self, status: int, body: Any, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else dump(body)
        self.send_response(status)
        if data:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self._note(status)  # uvicorn writes its line when the answer begins, so before the client has it
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self._note(200)
        self.end_headers()
        for event in events:
            data = b"data: " + (event if isinstance(event, bytes) else dump(event)) + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    # Routes ----------------------------------------------------------------------------------------------------------

    def _health(self, asked: dict[str, Any]) -> None:
        engine = self.server.engine
        if not engine.ready:
            self._send(503, b"")
            return
        if engine.settings.get("hang_after_ready"):
            began = time.strftime("%H:%M:%S")
            time.sleep(20 * engine.settings.time_scale)
            log.line(
                "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start "
                f"time: {began}. last_heartbeat time: {began}"
            )
            self._send(503, b"")
            return
        engine.beat()
        self._send(200, b"")

    def _server_info(self, asked: dict[str, Any]) -> None:
        self._send(200, shapes.server_info(self.server.engine))

    def _model_info(self, asked: dict[str, Any]) -> None:
        self._send(200, shapes.model_info(self.server.engine))

    def _models(self, asked: dict[str, Any]) -> None:
        self._send(200, shapes.models(self.server.engine))

    def _flush_cache(self, asked: dict[str, Any]) -> None:
        self.server.engine.forget()
        self._send(200, b"Cache flushed.\nPlease check backend logs for more details.\n", "text/plain; charset=utf-8")

    def _metrics(self, asked: dict[str, Any]) -> None:
        text = metrics.render(self.server.engine, self.server.seen, self.server.answered)
        self._send(200, text.encode(), "text/plain; version=1.0.0; charset=utf-8")

    def _generate(self, asked: dict[str, Any]) -> None:
        engine = self.server.engine
        prompt = asked.get("text", asked.get("input_ids"))
        if prompt is None:
            raise Refused(400, "Either text, input_ids or input_embeds should be provided.")
        many = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
        params = asked.get("sampling_params") or {}
        if many:
            each = params if isinstance(params, list) else [params] * len(prompt)
            done = [engine.generate(one, p, chat=False) for one, p in zip(prompt, each, strict=True)]
            self._send(200, [shapes.generate(engine, result, asked) for result in done])
            return
        result = engine.generate(prompt, params, chat=False)
        if not asked.get("stream"):
            self._send(200, shapes.generate(engine, result, asked))
            return
        steps = [result.pieces[: place + 1] for place in range(len(result.pieces))]
        self._stream([*(shapes.generate(engine, result, asked, step) for step in steps), b"[DONE]"])

    def _chat(self, asked: dict[str, Any]) -> None:
        engine = self.server.engine
        messages = asked.get("messages")
        if not isinstance(messages, list) or not messages:
            self._openai_error(
                400, "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}"
            )
            return
        template = asked.get("chat_template_kwargs") or {}
        thinking = bool(engine.args.reasoning_parser) and template.get("enable_thinking", True) is not False
        limit = asked.get("max_completion_tokens") or asked.get("max_tokens")
        params = {"max_new_tokens": limit or 4096, "stop": asked.get("stop"), "ignore_eos": asked.get("ignore_eos")}
        result = engine.generate(answers.chat_prompt(messages), params, chat=True, thinking=thinking)
        if asked.get("stream"):
            self._stream(self._chat_events(result, asked))
        else:
            self._send(200, shapes.chat(engine, result, asked))

    def _chat_events(self, result: Result, asked: dict[str, Any]) -> Any:
        engine = self.server.engine
        yield shapes.chat_chunk(engine, result, asked, {"role": "assistant", "content": ""}, False)
        for piece in result.reasoning:
            yield shapes.chat_chunk(engine, result, asked, {"reasoning_content": piece.text}, False)
        for piece in result.pieces:
            yield shapes.chat_chunk(engine, result, asked, {"content": piece.text}, False)
        yield shapes.chat_chunk(engine, result, asked, {}, True)
        if (asked.get("stream_options") or {}).get("include_usage"):
            last = shapes.chat_chunk(engine, result, asked, {}, False)
            yield {**last, "choices": [], "usage": shapes.usage(engine, [result])}
        yield b"[DONE]"

    def _completions(self, asked: dict[str, Any]) -> None:
        engine = self.server.engine
        prompt = asked.get("prompt")
        if prompt is None:
            self._openai_error(
                400, "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}"
            )
            return
        prompts = prompt if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else [prompt]
        params = {
            "max_new_tokens": asked.get("max_tokens") or 16,
            "stop": asked.get("stop"),
            "ignore_eos": asked.get("ignore_eos"),
        }
        results = [engine.generate(one, params, chat=False) for one in prompts]
        if not asked.get("stream"):
            self._send(200, shapes.completion(engine, results, asked))
            return
        whole = shapes.completion(engine, results[:1], asked)
        events: list[Any] = []
        for place, piece in enumerate(results[0].pieces, 1):
            ending = place == len(results[0].pieces)
            finish = {} if ending else {"finish_reason": None, "matched_stop": None}
            events.append({**whole, "choices": [{**whole["choices"][0], "text": piece.text, **finish}], "usage": None})
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append({**whole, "choices": []})
        self._stream([*events, b"[DONE]"])


def dump(body: Any) -> bytes:
    """Compact JSON as orjson writes it."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


ROUTES: dict[str, tuple[tuple[str, ...], Any]] = {
    "/health": (("GET",), Handler._health),
    "/health_generate": (("GET",), Handler._health),
    "/server_info": (("GET",), Handler._server_info),
    "/get_server_info": (("GET",), Handler._server_info),
    "/model_info": (("GET",), Handler._model_info),
    "/get_model_info": (("GET",), Handler._model_info),
    "/v1/models": (("GET",), Handler._models),
    "/metrics": (("GET",), Handler._metrics),
    "/flush_cache": (("GET", "POST"), Handler._flush_cache),
    "/generate": (("POST",), Handler._generate),
    "/v1/chat/completions": (("POST",), Handler._chat),
    "/v1/completions": (("POST",), Handler._completions),
}

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exchanges with a real HTTP server on this host."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._http import Client


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body, status = b"{}", 200
        if self.path == "/key":
            body = json.dumps({"key": self.headers.get("Authorization")}).encode()
        elif self.path == "/busy":
            status, body = 503, b"starting"
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/key")
            self.end_headers()
            return
        elif self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            for _rest in range(50):
                self.wfile.write(b" " * 70000)
                time.sleep(0.1)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_rest: t.Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> t.Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_any_status_is_an_answer(url: str) -> None:
    reply = Client(url).get("/busy")
    assert (reply.status, reply.json, reply.text, reply.ok) == (503, None, "starting", False)
    assert Client(url).post("/echo", {"a": [1]}).json == {"a": [1]}


def test_the_key_goes_to_this_server_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Client(url, "secret").get("/key").json == {"key": "Bearer secret"}
    assert Client(url, "secret").get("/moved").status == 302  # not followed
    assert Client(url).get("/key").json == {"key": None}


def test_no_answer_has_a_kind(url: str) -> None:
    with pytest.raises(SglangError) as caught:
        Client("http://127.0.0.1:1").get("/health")
    assert caught.value.kind == "refused" and "http://127.0.0.1:1/health" in str(caught.value)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(SglangError) as caught:
            Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3).get("/health")
    assert caught.value.kind == "timeout"
    begun = time.monotonic()
    with pytest.raises(SglangError) as caught:  # bytes keep coming, but the whole exchange is limited
        Client(url, timeout=0.5).get("/drip")
    assert caught.value.kind == "timeout" and time.monotonic() - begun < 3

"""The lab's HTTP server: a wheel index as static files, git over http, and faults on demand.

Paths: /simple/, /pytorch/nightly/cu130/, /flashinfer/cu130/ (PEP 503 pages, wheels, PEP 658 metadata), /git/*.git.

faults.json in the lab's state folder is read at each request: a list of {"prefix", "kind", "seconds"?, "times"?}.
Kinds: a number (answer with that status), "reset" (close without an answer), "truncate" (half of the body), "slow"
(wait `seconds` first), "corrupt" (flip the last byte, so that a hash no longer fits). With `times`, the fault ends
after so many requests.
"""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import struct
import subprocess
import threading
import time
import urllib.parse
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".metadata": "application/octet-stream",
    ".whl": "application/octet-stream",
}


def serve(address: str, port: int, state: Path) -> None:
    """Serve until killed. `state` holds content.json, faults.json and receives http.log (a JSON object a line)."""
    handler = type("LabHandler", (_Handler,), {"state": state})
    _Server((address, port), handler).serve_forever()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Bind without the name lookup that HTTPServer does for its own address: no name server knows it."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class _Handler(http.server.BaseHTTPRequestHandler):
    state: Path
    protocol_version = "HTTP/1.1"
    server_version = "lab-index"
    counted: dict[str, int] = {}
    lock = threading.Lock()

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests go to http.log instead, by _log."""

    def _answer(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self._body()
        fault = self._fault(path)
        kind = fault.get("kind") if fault else None
        if kind == "slow" and fault:
            time.sleep(float(fault.get("seconds", 5)))
        elif kind == "reset":
            self._log(0)
            # With a linger time of 0 the kernel sends RST instead of FIN, as a crashed server does.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        elif isinstance(kind, int):
            self._plain(kind, HTTPStatus(kind).phrase)
            return
        content = json.loads((self.state / "content.json").read_text())
        if path.startswith("/git/"):
            self._git(content["git"], path.removeprefix("/git"), body)
        else:
            self._file(Path(content["index"]), path, str(kind))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _fault(self, path: str) -> dict[str, Any] | None:
        try:
            rules = json.loads((self.state / "faults.json").read_text())
        except (OSError, ValueError):
            return None
        for rule in rules:
            if path.startswith(rule["prefix"]):
                with self.lock:
                    key = json.dumps(rule, sort_keys=True)
                    self.counted[key] = self.counted.get(key, 0) + 1
                    if self.counted[key] > rule.get("times", float("inf")):
                        continue
                return dict(rule)
        return None

    def _file(self, root: Path, path: str, kind: str) -> None:
        parts = [part for part in path.split("/") if part]
        target = root.joinpath(*parts)
        if ".." in parts or not target.exists():
            self._plain(404, f"not in this index: {path}")
            return
        if target.is_dir():
            if not path.endswith("/"):
                self._send_head(301, {"Location": path + "/", "Content-Length": "0"})
                self._log(301)
                return
            target /= "index.html"
        if not target.is_file():
            self._plain(404, f"not in this index: {path}")
            return
        size = target.stat().st_size
        self._send_head(
            200, {"Content-Type": _TYPES.get(target.suffix, "application/octet-stream"), "Content-Length": str(size)}
        )
        if self.command != "HEAD":
            with target.open("rb") as handle:
                self._send_file(handle, size, kind)
        self._log(200, size)

    def _send_file(self, handle: BinaryIO, size: int, kind: str) -> None:
        if kind == "corrupt":
            data = bytearray(handle.read())
            data[-1] ^= 0xFF
            self.wfile.write(data)
        elif kind == "truncate":
            self.wfile.write(handle.read(size // 2))
            self.close_connection = True
        else:
            self.wfile.flush()
            self.connection.sendfile(handle)

    def _git(self, repositories: str, path: str, body: bytes) -> None:
        """Hand the request to git's own server side, as a CGI program (git-http-backend(1))."""
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": repositories,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": urllib.parse.urlsplit(self.path).query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": self.client_address[0],
        }
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            input=body,
            env=environment,
            capture_output=True,
            check=False,
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        status = int(fields.pop("Status", "200").split()[0]) if done.returncode == 0 else 500
        self._send_head(status, {**fields, "Content-Length": str(len(data))})
        if self.command != "HEAD":
            self.wfile.write(data)
        self._log(status, len(data))

    def _plain(self, status: int, text: str) -> None:
        data = (text + "\n").encode()
        self._send_head(status, {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(data))})
        if self.command != "HEAD":
            self.wfile.write(data)
        self._log(status, len(data))

    def _send_head(self, status: int, fields: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in fields.items():
            self.send_header(key, value)
        self.end_headers()

    def _log(self, status: int, size: int = 0) -> None:
        line = {
            "time": round(time.time(), 3),
            "client": self.client_address[0],
            "method": self.command,
            "path": self.path,
            "status": status,
            "bytes": size,
            "agent": self.headers.get("User-Agent", ""),
        }
        with self.lock, (self.state / "http.log").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

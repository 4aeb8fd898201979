"""Another server on our port, for the fault `port_in_use`: it answers everything with 200, as a model server would."""

from __future__ import annotations

import ctypes
import os
import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sglang._standin.children import PR_SET_PDEATHSIG, set_title


class _Yes(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        body = b'{"model_path":"/models/another","text":" is"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Another server's access log is not ours."""


def squat(host: str, port: int) -> None:
    """Fork a process that takes the port and dies with the engine."""
    server = ThreadingHTTPServer((host, port), _Yes)
    if os.fork():
        server.socket.close()
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    set_title("another-server")
    try:
        server.serve_forever()
    finally:
        os._exit(0)

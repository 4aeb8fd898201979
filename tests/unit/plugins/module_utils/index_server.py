"""A wheel index on the loopback device: pages, JSON, redirects, passwords, and the web pages of other people."""

from __future__ import annotations

import base64
import dataclasses
import http.server
import threading
import typing as t

GITHUB_PAGES = (
    "<!DOCTYPE html><html><head><title>Site not found &middot; GitHub Pages</title></head><body>"
    '<h1>404</h1><p><strong>There isn\'t a GitHub Pages site here.</strong></p><a href="https://help.example/pages/">'
    "the documentation</a></body></html>"
)
JSON = "application/vnd.pypi.simple.v1+json"


@dataclasses.dataclass
class Reply:
    """What a path answers."""

    body: str = ""
    status: int = 200
    kind: str = "text/html"
    location: str | None = None
    cut: bool = False


class IndexServer:
    """Serves ``routes``; ``requests`` are the (path, Authorization) that came. With ``login`` all else is 401."""

    def __init__(self, login: str | None = None) -> None:
        self.routes: dict[str, Reply] = {}
        self.requests: list[tuple[str, str | None]] = []
        expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Authorization")))
                reply = outer.routes.get(self.path, Reply("<h1>Not Found</h1>", 404))
                if expected and self.headers.get("Authorization") != expected:
                    reply = Reply("who are you?", 401)
                body = reply.body.encode()
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(body) + (100 if reply.cut else 0)))
                if reply.location:
                    self.send_header("Location", reply.location)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: t.Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def login(self, user: str) -> str:
        """The URL with credentials in it."""
        return f"http://{user}@127.0.0.1:{self.server.server_port}"

    def page(self, path: str, *anchors: str, head: str = "", **more: t.Any) -> None:
        """A page with these anchors."""
        body = f"<!DOCTYPE html><html><head>{head}</head><body>{''.join(anchors)}</body></html>"
        self.routes[path] = Reply(body, **more)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

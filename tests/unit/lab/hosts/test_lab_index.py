"""The wheel index is one that pip's rules accept: PEP 503 pages with hashes, PEP 658 metadata."""

from __future__ import annotations

import hashlib
import html.parser
import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from labkit import http, index

METADATA = "Metadata-Version: 2.1\nName: Lab_Thing\nVersion: 1.0+cu130\nRequires-Python: >=3.10,<3.14\n"
WHEEL = "lab_thing-1.0+cu130-py3-none-any.whl"
Get = Callable[..., bytes]


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def links(page: bytes) -> list[dict[str, str | None]]:
    parser = _Links()
    parser.feed(page.decode())
    return parser.found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Index of one wheel, and a server's state folder beside it."""
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.writestr("lab_thing/__init__.py", "")
        archive.writestr("lab_thing-1.0+cu130.dist-info/METADATA", METADATA)
    index.write_pages(tmp_path / "tree/simple", [tmp_path / WHEEL])
    (tmp_path / "content.json").write_text(json.dumps({"index": str(tmp_path / "tree"), "git": str(tmp_path)}))
    return tmp_path


@pytest.fixture
def get(state: Path) -> Iterator[Get]:
    """Fetch a path from a running server."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    threading.Thread(target=http.serve, args=("127.0.0.1", port, state), daemon=True).start()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.02)

    def fetch(path: str, **kwargs: Any) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10, **kwargs) as reply:
            return bytes(reply.read())

    yield fetch


def test_pages_hashes_and_metadata(get: Get, state: Path) -> None:
    assert [link["href"] for link in links(get("/simple/"))] == ["lab-thing/"]
    (link,) = links(get("/simple/lab-thing/"))
    address, _rest, fragment = str(link["href"]).partition("#")
    wheel = get("/simple/lab-thing/" + address)
    assert wheel == (state / WHEEL).read_bytes()
    assert fragment == f"sha256={hashlib.sha256(wheel).hexdigest()}"
    assert link["data-requires-python"] == ">=3.10,<3.14"
    metadata = get(f"/simple/lab-thing/{address}.metadata")
    assert metadata.decode() == METADATA
    assert link["data-core-metadata"] == f"sha256={hashlib.sha256(metadata).hexdigest()}"


def test_what_is_not_there_is_404(get: Get) -> None:
    for path in ("/simple/nothing/", "/simple/../../content.json", "/else/"):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(path)
        assert error.value.code == 404


def test_faults_begin_and_end(get: Get, state: Path) -> None:
    address = "/simple/lab-thing/" + urllib.parse.quote(WHEEL)
    good = get(address)
    (state / "faults.json").write_text(json.dumps([{"prefix": "/simple/lab-thing/lab", "kind": 503, "times": 1}]))
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address)
    assert error.value.code == 503
    assert get(address) == good
    (state / "faults.json").write_text(json.dumps([{"prefix": address.replace("%2B", "+"), "kind": "corrupt"}]))
    assert get(address) != good
    (state / "faults.json").write_text(json.dumps([{"prefix": "/simple/", "kind": "reset"}]))
    with pytest.raises((ConnectionError, urllib.error.URLError)):
        get(address)
    (state / "faults.json").write_text("[]")
    assert get(address) == good
    deadline = time.monotonic() + 5  # the last line is written after its answer was read here
    while len(lines := (state / "http.log").read_text().splitlines()) < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    # Each line is written by the thread of its request, after the answer.
    assert sorted(json.loads(line)["status"] for line in lines) == [0, 200, 200, 200, 200, 503]

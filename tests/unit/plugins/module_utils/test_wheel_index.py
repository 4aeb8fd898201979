"""Reading a real HTTP server as a wheel index: what is there, what is not, and what only looks like one."""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from ansible_collections.blackwell.sglang.plugins.module_utils import _wheel_index
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from index_server import GITHUB_PAGES, JSON, IndexServer, Reply

DECLARED = '<meta name="pypi:repository-version" content="1.1">'


@pytest.fixture
def server() -> t.Iterator[IndexServer]:
    running = IndexServer()
    yield running
    running.close()


def test_a_page_gives_hashes_yanked_interpreter_and_metadata(server: IndexServer) -> None:
    server.page(
        "/simple/a-b/",
        '<a href="../../files/a_b-1.0-py3-none-any.whl#sha256=00ff" data-requires-python="&gt;=3.10"'
        ' data-dist-info-metadata="sha256=beef">a_b-1.0</a>',
        '<a href="/files/a_b-0.9-py3-none-any.whl" data-yanked="broken on SM120">old</a>',
        '<a href="/files/a_b-0.8-py3-none-any.whl" data-yanked data-core-metadata="true">older</a>',
        '<a href="https://elsewhere.example/docs">documentation</a>',
    )
    found = _wheel_index.read_project(f"{server.url}/simple", "A.B")
    assert (found.status, found.format) == ("found", "html")
    newest, old, older = found.files
    assert newest.url == f"{server.url}/files/a_b-1.0-py3-none-any.whl"
    assert (newest.hashes, newest.requires_python) == ({"sha256": "00ff"}, ">=3.10")
    assert (newest.metadata, newest.metadata_hashes, newest.yanked) == (True, {"sha256": "beef"}, None)
    assert (old.yanked, old.metadata) == ("broken on SM120", False)
    assert (older.yanked, older.metadata, older.metadata_hashes) == ("no reason given", True, {})


def test_json_gives_the_same(server: IndexServer) -> None:
    files = [
        {"filename": "a-1-py3-none-any.whl", "url": "../f/a-1-py3-none-any.whl", "hashes": {"sha256": "00"}, "size": 7,
         "requires-python": ">=3.9", "yanked": False, "core-metadata": {"sha256": "11"}},
        {"filename": "a-0-py3-none-any.whl", "url": "/f/a-0-py3-none-any.whl", "hashes": {}, "yanked": "bad",
         "dist-info-metadata": True},
    ]  # fmt: skip
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "a", "files": files})
    server.routes["/simple/a/"] = Reply(body, kind=JSON)
    found = _wheel_index.read_project(f"{server.url}/simple/", "a")
    assert (found.status, found.format) == ("found", "json")
    first, second = found.files
    assert first.url == f"{server.url}/simple/f/a-1-py3-none-any.whl"
    assert (first.hashes, first.size, first.metadata_hashes) == ({"sha256": "00"}, 7, {"sha256": "11"})
    assert (second.yanked, second.metadata) == ("bad", True)


def test_links_are_relative_to_where_a_redirect_ends(server: IndexServer) -> None:
    server.routes["/simple/a/"] = Reply("", 301, location="/mirror/deep/a/")
    server.page("/mirror/deep/a/", '<a href="a-1-py3-none-any.whl">a</a>')
    (entry,) = _wheel_index.read_project(f"{server.url}/simple", "a").files
    assert entry.url == f"{server.url}/mirror/deep/a/a-1-py3-none-any.whl"


def test_links_are_relative_to_the_base_that_a_page_names(server: IndexServer) -> None:
    server.page("/simple/a/", '<a href="a-1-py3-none-any.whl">a</a>', head='<base href="/store/">')
    (entry,) = _wheel_index.read_project(f"{server.url}/simple", "a").files
    assert entry.url == f"{server.url}/store/a-1-py3-none-any.whl"


def test_a_version_with_a_build_tag_is_quoted_in_its_url_and_plain_in_its_name(server: IndexServer) -> None:
    server.page("/simple/torch/", '<a href="torch-2.12.0%2Bcu130-cp312-cp312-linux_x86_64.whl">x</a>')
    (entry,) = _wheel_index.read_project(f"{server.url}/simple", "torch").files
    assert entry.name == "torch-2.12.0+cu130-cp312-cp312-linux_x86_64.whl"


def test_absent_is_told_from_no_index(server: IndexServer) -> None:
    server.page("/simple/", '<a href="/simple/torch/">torch</a>')
    absent = _wheel_index.read_project(f"{server.url}/simple", "flashinfer-jit-cache")
    assert absent.status == "absent"
    nothing = _wheel_index.read_project(f"{server.url}/whl", "torch")
    assert nothing.status == "not_index"
    assert "404" in nothing.why


@pytest.mark.parametrize("status", [404, 200])
def test_the_404_page_of_a_web_host_is_no_index(server: IndexServer, status: int) -> None:
    for path in ("/whl/cu130/", "/whl/cu130/flashinfer-jit-cache/"):
        server.routes[path] = Reply(GITHUB_PAGES, status)
    found = _wheel_index.read_project(f"{server.url}/whl/cu130", "flashinfer-jit-cache")
    assert found.status == "not_index"
    assert "GitHub Pages" in found.why


def test_an_empty_page_of_an_index_is_a_project_without_files(server: IndexServer) -> None:
    server.page("/simple/a/", head=DECLARED)
    server.page("/simple/b/", head="<title>Links for b</title>")
    for name in "ab":
        found = _wheel_index.read_project(f"{server.url}/simple", name)
        assert (found.status, found.files) == ("found", [])


@pytest.mark.parametrize("body", ['{"detail": "not found"}', "[]", "{"])
def test_json_that_is_no_index(server: IndexServer, body: str) -> None:
    server.routes["/simple/a/"] = Reply(body, kind="application/json")
    assert _wheel_index.read_project(f"{server.url}/simple", "a").status == "not_index"


def test_credentials_reach_their_host_and_nothing_else() -> None:
    secret = "p%40ss-w0rd"
    home, away = IndexServer(login="ann:p@ss-w0rd"), IndexServer()
    try:
        home.routes["/simple/a/"] = Reply("", 302, location=f"{away.url}/a/")
        away.page("/a/", '<a href="a-1-py3-none-any.whl">a</a>')
        index = f"{home.login(f'ann:{secret}')}/simple"
        found = _wheel_index.read_project(index, "a")
        assert found.status == "found"
        assert away.requests == [("/a/", None)]
        assert "p@ss" not in repr(found)
        assert secret not in repr(found)
        assert _wheel_index.with_credentials(f"{away.url}/x.metadata", index) == f"{away.url}/x.metadata"
        assert secret in _wheel_index.with_credentials(f"{home.url}/x.metadata", index)
        assert _wheel_index.read_project(f"{home.url}/simple", "a").status == "forbidden"
    finally:
        home.close()
        away.close()


def test_a_dead_server_and_a_cut_answer_are_unreachable(server: IndexServer) -> None:
    server.page("/simple/a/", '<a href="a-1-py3-none-any.whl">a</a>', cut=True)
    cut = _wheel_index.read_project(f"{server.url}/simple", "a", timeout=2)
    assert cut.status == "unreachable"
    gone = IndexServer()
    gone.close()
    dead = _wheel_index.read_project(gone.login("ann:secret-word"), "a", timeout=2)
    assert dead.status == "unreachable"
    assert "secret-word" not in repr(dead)


def test_metadata_is_read_and_held_against_its_hash(server: IndexServer) -> None:
    text = "Metadata-Version: 2.1\nName: flashinfer-python\nRequires-Dist: torch\nRequires-Dist: numpy\n\nBody: no\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    server.routes["/f/a-1-py3-none-any.whl.metadata"] = Reply(text)
    entry = _wheel_index.IndexFile(
        "a-1-py3-none-any.whl",
        f"{server.url}/f/a-1-py3-none-any.whl",
        metadata=True,
        metadata_hashes={"sha256": digest},
    )
    found = _wheel_index.metadata(entry, server.url)
    assert found is not None
    assert found["Requires-Dist"] == ["torch", "numpy"]
    assert "Body" not in found
    entry.metadata_hashes = {"sha256": "00" * 32}
    with pytest.raises(SglangError, match="does not have the hash"):
        _wheel_index.metadata(entry, server.url)
    entry.metadata = False
    assert _wheel_index.metadata(entry, server.url) is None


def test_a_weak_hash_proves_nothing() -> None:
    assert _wheel_index.check_hash(b"", {"md5": "d41d8cd98f00b204e9800998ecf8427e"}) is None
    assert _wheel_index.check_hash(b"", {"sha256": hashlib.sha256(b"").hexdigest()}) is True
    assert _wheel_index.check_hash(b"x", {"sha256": hashlib.sha256(b"").hexdigest()}) is False


def test_a_folder_of_wheels_is_an_index(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch-2.12.0.dev20260307+cu130-cp312-cp312-linux_x86_64.whl").write_bytes(b"12345")
    for index in (str(tmp_path), tmp_path.as_uri()):
        found = _wheel_index.read_project(index, "torch")
        assert [(entry.name[:5], entry.size) for entry in found.files] == [("torch", 5)]
        assert _wheel_index.read_project(index, "triton").status == "absent"
    assert _wheel_index.read_project(str(tmp_path / "none"), "torch").status == "unreachable"

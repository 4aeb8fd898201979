# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a simple index, as pages or as JSON, over HTTP or from a folder (private to the collection).

Sources: PEP 503 (the pages), PEP 592 (yanked), PEP 629 (version of the interface), PEP 658 and 714 (metadata beside the
file), PEP 691 (JSON), PEP 700 (size and versions).
"""

from __future__ import annotations

import dataclasses
import hashlib
import html.parser
import json
import pathlib
import re
import typing as t
import urllib.parse

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_plan import normalize
from ansible_collections.blackwell.sglang.plugins.module_utils._stack_uv import hide_credentials

try:
    import requests

    REQUESTS_IMPORT_ERROR: str | None = None
except ImportError as exc:  # a bare host in check mode; gpu_host installs it
    REQUESTS_IMPORT_ERROR = str(exc)

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1, */*;q=0.01"
# The page of torch nightlies is some 3 MB, PyPI's largest about 30; beyond this it is not a page of an index.
MAX_BYTES = 64 * 2**20
ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz")
# Algorithms that prove something (PEP 503 names no other; md5 and sha1 are read, never compared).
STRONG = ("sha256", "sha384", "sha512", "blake2b")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@dataclasses.dataclass
class IndexFile:
    """One file of a project; ``metadata``: whether its METADATA lies beside it; ``yanked``: why it was withdrawn."""

    name: str
    url: str
    hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    yanked: str | None = None
    requires_python: str | None = None
    metadata: bool = False
    metadata_hashes: dict[str, str] = dataclasses.field(default_factory=dict)
    size: int | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """The fields, for a module's result; the URL carries no credentials."""
        return dict(dataclasses.asdict(self), url=hide_credentials(self.url))


@dataclasses.dataclass
class Project:
    """What an index says about one project.

    ``status`` is ``found``, ``absent`` (the index is one and does not have the project), ``not_index`` (something
    answers there that is no index), ``forbidden`` or ``unreachable``; ``why`` says it in words.
    """

    name: str
    url: str
    status: str
    why: str = ""
    format: str = ""
    files: list[IndexFile] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Page:
    """An answer over HTTP: ``url`` is where it came from after redirects, without credentials."""

    status: int
    kind: str
    body: bytes
    url: str


class _Links(html.parser.HTMLParser):
    """Collects the anchors of a page, its base and whether it calls itself a simple index."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: list[tuple[dict[str, str | None], str]] = []
        self.base: str | None = None
        self.declared = False
        self._open: dict[str, str | None] | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and self.base is None:
            self.base = values.get("href")
        elif tag == "meta" and values.get("name") == "pypi:repository-version":
            self.declared = True
        elif tag == "a":
            self._open, self._text = values, ""

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._open is not None:
            self.anchors.append((self._open, self._text.strip()))
            self._open = None


def secrets(url: str) -> list[str]:
    """What of a URL must never be shown: its password, or its user where that is the token."""
    parts = urllib.parse.urlsplit(url)
    found = [parts.password or parts.username or ""]
    return [text for raw in found if raw for text in sorted({raw, urllib.parse.unquote(raw)})]


def fetch(url: str, timeout: float = 30.0, accept: str = ACCEPT) -> Page:
    """GET a URL, redirects followed; credentials in it go to its own host alone.

    Raises:
        SglangError: no answer (``unreachable``), too long (``too_large``), or no library to ask with (``no_requests``).
    """
    shown = hide_credentials(url)
    if REQUESTS_IMPORT_ERROR is not None:
        raise SglangError(
            f"the Python library requests is missing ({REQUESTS_IMPORT_ERROR})",
            where=shown,
            fix="run the role gpu_host, which installs python3-requests",
            kind="no_requests",
        )
    parts = urllib.parse.urlsplit(url)
    bare = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    auth = None
    if parts.username:
        auth = (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
    body = b""
    try:
        with requests.get(bare, auth=auth, headers={"Accept": accept}, timeout=timeout, stream=True) as answer:
            for part in answer.iter_content(65536):
                body += part
                if len(body) > MAX_BYTES:
                    raise SglangError(f"the answer is longer than {MAX_BYTES} bytes", where=shown, kind="too_large")
            kind = answer.headers.get("Content-Type", "").split(";")[0].strip().lower()
            return Page(int(answer.status_code), kind, body, hide_credentials(str(answer.url)))
    except (requests.exceptions.RequestException, ValueError) as error:
        reason = hide_credentials(" ".join(str(error).split()))[-300:]
        raise SglangError(f"no answer: {reason}", where=shown, kind="unreachable") from error


def read_project(index: str, name: str, timeout: float = 30.0) -> Project:
    """Ask an index (URL, ``file:`` URL or folder) for the files of a project; what went wrong is in ``status``."""
    if not index.startswith(("http://", "https://")):
        return _read_folder(index, name)
    url = f"{index.rstrip('/')}/{normalize(name)}/"
    shown = hide_credentials(url)
    try:
        page = fetch(url, timeout)
        if page.status in (401, 403):
            return Project(name, shown, "forbidden", f"the index refuses access with status {page.status}")
        if page.status == 404:
            return _absent(index, name, shown, timeout)
        if page.status != 200:
            return Project(name, shown, "unreachable", f"the index answers with status {page.status}")
    except SglangError as error:
        return Project(name, shown, "unreachable", error.what)
    try:
        files, kind = parse(page)
    except SglangError as error:
        return Project(name, shown, "not_index", error.what)
    return Project(name, shown, "found", "", kind, files)


def parse(page: Page) -> tuple[list[IndexFile], str]:
    """Files of a project's page and its format, ``json`` or ``html``.

    Raises:
        SglangError: the page is none of an index (kind ``not_index``).
    """
    if page.kind.endswith("json"):
        return _parse_json(page), "json"
    text = page.body.decode("utf-8", "replace")
    links = _Links()
    links.feed(text)
    base = urllib.parse.urljoin(page.url, links.base) if links.base else page.url
    files = [entry for attributes, label in links.anchors if (entry := _anchor(attributes, label, base)) is not None]
    title = _TITLE.search(text)
    heading = " ".join(title.group(1).split()) if title else ""
    # A project without files is an empty page, as is one whose page calls itself an index.
    if not files and not links.declared and not heading.lower().startswith("links for"):
        what = f"a page called {heading!r}" if heading else f"{len(page.body)} bytes of {page.kind or 'unknown type'}"
        raise SglangError(f"{what} answers there, which lists no files", where=page.url, kind="not_index")
    return files, "html"


def check_hash(data: bytes, hashes: t.Mapping[str, str]) -> bool | None:
    """Whether data has one of the strong hashes; None where there is none to compare with."""
    for algorithm, wanted in hashes.items():
        if algorithm in STRONG:
            return hashlib.new(algorithm, data).hexdigest() == wanted.lower()
    return None


def metadata(entry: IndexFile, index: str, timeout: float = 30.0) -> dict[str, list[str]] | None:
    """The METADATA that lies beside a file (PEP 658), header to values; None where there is none.

    Raises:
        SglangError: no answer, or one without the hash that the index gives for it (kind ``hash``).
    """
    if not entry.metadata:
        return None
    page = fetch(with_credentials(f"{entry.url}.metadata", index), timeout, accept="*/*")
    if page.status != 200:
        return None
    if check_hash(page.body, entry.metadata_hashes) is False:
        raise SglangError(
            f"the metadata of {entry.name} does not have the hash that the index gives",
            where=page.url,
            fix="ask whoever runs the index; a proxy between may have changed it",
            kind="hash",
        )
    found: dict[str, list[str]] = {}
    for line in page.body.decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        key, _colon, value = line.partition(": ")
        if value and not line.startswith((" ", "\t")):
            found.setdefault(key, []).append(value)
    return found


def with_credentials(url: str, index: str) -> str:
    """A URL with the credentials of the index if it leads to the same host; unchanged otherwise."""
    there, here = urllib.parse.urlsplit(url), urllib.parse.urlsplit(index)
    if "@" not in here.netloc or (there.scheme, there.netloc) != (here.scheme, here.netloc.rpartition("@")[2]):
        return url
    return urllib.parse.urlunsplit(there._replace(netloc=here.netloc))


def _absent(index: str, name: str, shown: str, timeout: float) -> Project:
    """404 for a project: of an index that does not have it, or of a server that is no index at all."""
    try:
        root = fetch(f"{index.rstrip('/')}/", timeout)
    except SglangError as error:
        return Project(name, shown, "unreachable", error.what)
    listing = root.kind.endswith("json") and b'"projects"' in root.body
    if root.status == 200 and not listing:
        links = _Links()
        links.feed(root.body.decode("utf-8", "replace"))
        listing = links.declared or any(_is_project(values.get("href")) for values, _label in links.anchors)
    if listing:
        return Project(name, shown, "absent", f"the index does not have {normalize(name)}")
    # Some hosts (PyTorch's among them) have pages for projects and none for the index itself.
    title = _TITLE.search(root.body.decode("utf-8", "replace"))
    called = f" ({' '.join(title.group(1).split())})" if title else ""
    return Project(
        name, shown, "not_index", f"404 for the project, and {root.status} without a list of projects above it{called}"
    )


def _is_project(href: str | None) -> bool:
    # Links of an index are the names of folders, absolute or not; those of a web page lead elsewhere.
    if not href or urllib.parse.urlsplit(href).query or href.startswith(("#", "mailto:")):
        return False
    path = urllib.parse.urlsplit(href)
    return (not path.netloc and path.path.rstrip("/") not in ("", "..", ".")) or path.path.startswith("/simple/")


def _anchor(attributes: t.Mapping[str, str | None], label: str, base: str) -> IndexFile | None:
    href = attributes.get("href")
    if not href:
        return None
    url, _hash, fragment = urllib.parse.urljoin(base, href.strip()).partition("#")
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2]) or label
    if not name.endswith(ARCHIVES):
        return None
    # PEP 714 renamed the attribute; indexes of either age are read.
    beside = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata", "false"))
    yanked = attributes["data-yanked"] or "no reason given" if "data-yanked" in attributes else None
    requires = attributes.get("data-requires-python")
    hashes = _hash_of(fragment)
    return IndexFile(name, url, hashes, yanked, requires, beside != "false", _hash_of(beside or ""))


def _hash_of(text: str) -> dict[str, str]:
    algorithm, equals, value = text.partition("=")
    return {algorithm.lower(): value} if equals and re.fullmatch(r"[0-9A-Fa-f]+", value) else {}


def _parse_json(page: Page) -> list[IndexFile]:
    try:
        value = json.loads(page.body)
        files = value["files"]
        version = str((value.get("meta") or {}).get("api-version", "1.0"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SglangError("JSON answers there that is no simple index", where=page.url, kind="not_index") from error
    if not version.startswith("1."):
        raise SglangError(f"the index speaks version {version} of its interface, 1.x is known", where=page.url)
    found = []
    for entry in files:
        beside = entry.get("core-metadata", entry.get("dist-info-metadata", False))
        yanked = entry.get("yanked", False)
        found.append(
            IndexFile(
                name=str(entry["filename"]),
                url=urllib.parse.urljoin(page.url, str(entry["url"])),
                hashes=dict(entry.get("hashes") or {}),
                yanked=(yanked if isinstance(yanked, str) and yanked else "no reason given") if yanked else None,
                requires_python=entry.get("requires-python"),
                metadata=bool(beside),
                metadata_hashes=dict(beside) if isinstance(beside, dict) else {},
                size=entry.get("size"),
            )
        )
    return found


def _read_folder(index: str, name: str) -> Project:
    """Files of a project in a folder of wheels, flat or with a folder a project."""
    split = urllib.parse.urlsplit(index)
    folder = pathlib.Path(urllib.parse.unquote(split.path)) if split.scheme == "file" else pathlib.Path(index)
    if not folder.is_dir():
        return Project(name, index, "unreachable", "there is no such folder")
    wanted = normalize(name)
    files = []
    for path in sorted({*folder.glob("*"), *folder.glob("*/*")}):
        if path.name.endswith(ARCHIVES) and normalize(path.name.split("-")[0]) == wanted:
            files.append(IndexFile(path.name, path.as_uri(), size=path.stat().st_size))
    if not files:
        return Project(name, index, "absent", f"the folder holds no file of {wanted}")
    return Project(name, index, "found", "", "folder", files)

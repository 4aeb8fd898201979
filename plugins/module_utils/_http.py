# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP to a running engine: bounded in time and size, and quiet about the key (private to the collection)."""

from __future__ import annotations

import dataclasses
import json as _json
import time
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

try:
    import requests

    REQUESTS_IMPORT_ERROR: str | None = None
except ImportError as exc:  # a bare host in check mode; gpu_host installs it
    REQUESTS_IMPORT_ERROR = str(exc)

# A /server_info of a 128-rank server is some 4 MB; anything beyond this is not the engine.
MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer, whatever its status.

    ``json`` is None when the body is no JSON; ``text`` is the body, ``seconds`` the time from the call to the last
    byte.
    """

    status: int
    json: t.Any
    text: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Client:
    """Talks to one engine.

    Args:
        base_url: for instance ``http://127.0.0.1:30000``.
        api_key: sent as a bearer token to this server alone: redirects are not followed, and proxies and netrc of the
            environment are ignored.
        timeout: seconds for a whole exchange, not only between two bytes.

    A call returns a :class:`Reply` for any HTTP status. It raises :class:`SglangError` when there is none, with
    ``kind`` one of ``refused``, ``timeout``, ``unreachable``, ``too_large`` or ``no_requests``.
    """

    def __init__(self, base_url: str, api_key: str | None = None, timeout: float = 5.0) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self._api_key = api_key

    def get(self, path: str, timeout: float | None = None) -> Reply:
        """GET ``path`` (with its leading slash)."""
        return self._exchange("GET", path, None, timeout)

    def post(self, path: str, body: t.Any, timeout: float | None = None) -> Reply:
        """POST ``body`` as JSON to ``path``."""
        return self._exchange("POST", path, body, timeout)

    def _exchange(self, method: str, path: str, body: t.Any, timeout: float | None) -> Reply:
        url = self.base_url + path
        if REQUESTS_IMPORT_ERROR is not None:
            raise SglangError(
                f"the Python library requests is missing ({REQUESTS_IMPORT_ERROR})",
                where=url,
                fix="run the role gpu_host, which installs python3-requests",
                kind="no_requests",
            )
        limit = self.timeout if timeout is None else timeout
        begun = time.monotonic()
        headers = {"Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        try:
            # A session of its own per call, since a gate asks from several threads and requests promises no thread
            # safety.
            with requests.Session() as session:
                session.trust_env = False
                with session.request(
                    method, url, json=body, headers=headers, timeout=limit, allow_redirects=False, stream=True
                ) as response:
                    text = _read(response, url, begun + limit, limit)
                    status = int(response.status_code)
        except requests.exceptions.Timeout as exc:
            raise _no_answer(url, "timeout", f"no answer within {limit:g} s") from exc
        except requests.exceptions.ConnectionError as exc:
            kind = "refused" if "refused" in str(exc).lower() else "unreachable"
            what = "nothing listens there" if kind == "refused" else f"no connection: {_cause(exc)}"
            raise _no_answer(url, kind, what) from exc
        except requests.exceptions.RequestException as exc:
            raise _no_answer(url, "unreachable", f"no usable answer: {_cause(exc)}") from exc
        return Reply(status, _as_json(text), text, time.monotonic() - begun)


def _read(response: requests.Response, url: str, deadline: float, limit: float) -> str:
    parts: list[bytes] = []
    size = 0
    for part in response.iter_content(chunk_size=65536):
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise SglangError(f"the answer is longer than {MAX_BODY_BYTES} bytes", where=url, kind="too_large")
        if time.monotonic() > deadline:
            raise _no_answer(url, "timeout", f"the answer did not end within {limit:g} s")
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _no_answer(url: str, kind: str, what: str) -> SglangError:
    return SglangError(what, where=url, expected="an answer of the engine over HTTP", kind=kind)


def _cause(exc: BaseException) -> str:
    """The innermost reason, without the object addresses that requests puts around it."""
    text = str(exc)
    for mark in ("Caused by ", "ConnectionPool"):
        if mark in text:
            text = text.rsplit(mark, 1)[-1]
    return text.strip("() ")[:300]


def _as_json(text: str) -> t.Any:
    try:
        return _json.loads(text)
    except ValueError:
        return None

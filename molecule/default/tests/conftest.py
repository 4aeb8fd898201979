from __future__ import annotations

import json
import typing as t

import pytest


@pytest.fixture
def proof(host: t.Any) -> dict[str, t.Any]:
    """The proof of the current start of sglang-qwen.service, as the host keeps it."""
    loaded: dict[str, t.Any] = json.loads(host.file("/var/lib/sglang/qwen/proof.json").content_string)
    return loaded

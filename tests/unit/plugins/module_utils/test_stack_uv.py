"""What uv prints becomes one message that names the index, the variable and what to do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.blackwell.sglang.plugins.module_utils import _stack_uv

STACK: dict[str, t.Any] = {
    "indexes": {"default": "http://a.example:8080/simple/", "pytorch": "http://ann:secret@b.example/cu130/"},
    "requirements": {"torch": {"index": "pytorch"}},
}
# As uv 0.13 prints them.
CASES = [
    (
        "error: No solution found when resolving dependencies\n  cause: Because torch was not found in the package "
        "registry and sglang-stack depends on torch, we can conclude that your requirements are unsatisfiable.",
        "not_found",
        "sglang_indexes.pytorch",
    ),
    (
        "error: Request failed after 3 retries in 8.7s\n  cause: Failed to fetch: `http://a.example:8080/simple/sglang/`\n"
        "  cause: tcp connect error: Connection refused (os error 111)",
        "unreachable",
        "sglang_indexes.default",
    ),
    (
        "error: Failed to download `torch==2.9.1`\n  cause: HTTP status client error (404 Not Found) for url "
        "(http://ann:secret@b.example/cu130/torch/torch-2.9.1.whl)",
        "not_found",
        "sglang_indexes.pytorch",
    ),
    ("error: Hash mismatch for `torch==2.9.1`\nExpected:\n  sha256:aa\nComputed:\n  sha256:bb", "hash", "of the lock"),
    ("error: Failed to extract archive\n  cause: No space left on device (os error 28)", "disk", "free space"),
    (
        "error: No solution found when resolving dependencies\n  cause: Because only torch<=2.11.0 is available and "
        "sglang-stack depends on torch>=2.12, we can conclude that your requirements are unsatisfiable.",
        "conflict",
        "only torch<=2.11.0 is available",
    ),
    ("error: something new", "uv", "something new"),
]


@pytest.mark.parametrize(("text", "kind", "says"), CASES)
def test_errors_are_explained(text: str, kind: str, says: str) -> None:
    error = _stack_uv.explain(text, STACK, "nightly")
    assert error.kind == kind
    assert says in str(error)
    assert "secret" not in str(error)


def test_credentials_are_hidden_and_nothing_else() -> None:
    assert _stack_uv.hide_credentials("get https://u:p@h.example/x@y") == "get https://***@h.example/x@y"
    assert _stack_uv.hide_credentials("http://h.example/a@b") == "http://h.example/a@b"

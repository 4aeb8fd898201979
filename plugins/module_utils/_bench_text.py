# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real text for benchmark prompts, without a download (private to the collection).

Random tokens make speculative decoding look useless, since no draft can foresee noise. Python itself brings some 450 kB
of English prose, the language's help topics (``pydoc_data.topics``), on every host; it is the same for everybody with
the same Python version, and its digest is part of the result.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

try:
    from pydoc_data import topics

    TOPICS_ERROR = ""
except ImportError as exc:  # a Python cut down by its packager
    TOPICS_ERROR = str(exc)

# Characters of English prose per token for vocabularies of 100,000 to 250,000 entries: 4.0 to 4.7. More is asked for,
# so that the client cuts a passage to length rather than repeats it.
CHARS_PER_TOKEN = 6


def corpus() -> str:
    """All help topics of this Python as one text.

    Raises:
        SglangError: this Python was packaged without them.
    """
    if TOPICS_ERROR:
        raise SglangError(
            f"this Python has no help topics ({TOPICS_ERROR})",
            where="prompts of the benchmark",
            expected="the module pydoc_data of the standard library",
            fix="install libpython3-stdlib, or give sglang_benchmark_text, a file of your own prose",
            kind="no_text",
        )
    return "\n\n".join(topics.topics[name] for name in sorted(topics.topics))


def read(path: str) -> str:
    """The text to cut prompts from: a file's, or :func:`corpus` where none is named.

    Raises:
        SglangError: the file cannot be read or is too short to be cut.
    """
    if not path:
        return corpus()
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        raise SglangError(f"cannot be read: {exc.strerror or exc}", where=path, kind="no_text") from exc
    if len(text) < 10000:
        raise SglangError(
            f"holds {len(text)} characters", where=path, expected="at least 10,000 of prose", kind="no_text"
        )
    return text


def passages(text: str, count: int, tokens: int) -> t.Iterator[str]:
    """Cut ``count`` passages of more than ``tokens`` tokens each, no two of which begin alike.

    The starting points are spread over the text and begin at words. Passages may overlap further in, which no prefix
    cache can use: a prefix counts from the first token.
    """
    size = tokens * CHARS_PER_TOKEN
    whole = text if len(text) >= size else text * (size // max(1, len(text)) + 1)
    step = max(1.0, len(text) / max(1, count))
    for number in range(count):
        start = int(number * step) % len(text)
        space = text.find(" ", start)
        start = space + 1 if 0 <= space < start + 40 else start
        part = whole[start : start + size]
        yield f"{number}. " + part + (whole[: size - len(part)] if len(part) < size else "")


def write_dataset(path: pathlib.Path, text: str, count: int, tokens: int) -> str:
    """Write the passages in the conversation format that the client reads; the digest of the text they came from.

    The client drops conversations of fewer than two turns, hence the second, which it does not use.
    """
    rows = [
        {"conversations": [{"from": "human", "value": passage}, {"from": "gpt", "value": "."}]}
        for passage in passages(text, count, tokens)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()[:12]

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine that is starting does now, read from its log (private to the collection).

The lines are those of the captured servers (0.5.12.post1, 0.5.16) and of the published log vocabulary. A line that no
row knows leaves the phase as it was, so an unknown version shows less, never something wrong.
"""

from __future__ import annotations

import dataclasses
import re

# (pattern, words for the screen); \g<n> inserts what the pattern caught. The last line that matches a row wins.
_ROWS: tuple[tuple[str, str], ...] = (
    (r"server_args=ServerArgs\(", "arguments accepted"),
    (r"Init torch distributed begin", "connecting the ranks"),
    (r"Init torch distributed ends", "ranks connected"),
    (r"Load weight begin\. avail mem=([\d.]+) GB", r"loading weights (\g<1> GB free before)"),
    (r"Loading safetensors checkpoint shards:\s*(\d+)% Completed \| (\d+)/(\d+)", r"loading shard \g<2> of \g<3>"),
    (r"Multi-thread loading shards:\s*(\d+)% Completed \| (\d+)/(\d+)", r"loading shard \g<2> of \g<3>"),
    (r"Load weight end\. elapsed=([\d.]+) s", r"weights loaded in \g<1> s"),
    (r"KV Cache is allocated\..*?#tokens: (\d+)", r"KV cache allocated, \g<1> tokens"),
    (r"Memory pool end", "memory pools allocated"),
    (r"Capture cuda graph begin", "capturing CUDA graphs"),
    (r"Capture target (\w+) CUDA graph begin", r"capturing \g<1> CUDA graphs"),
    (r"Capturing (?:batches|num tokens) \(\w+=(\d+).*?\|\s*(\d+)/(\d+)", r"capturing CUDA graph \g<2> of \g<3>"),
    (r"Capture cuda graph end|Capture target \w+ CUDA graph end", "CUDA graphs captured"),
    (r"Autotun\w+.*?(\d+)%", r"tuning kernels, \g<1> %"),
    (r"Application startup complete", "HTTP server up, warming up"),
    (r"Uvicorn running on", "warming up (the first request compiles what is left)"),
    (r"The server is fired up and ready to roll!", "the engine says that it is ready"),
    (r"SIGTERM received", "stopping"),
)
_PATTERNS = tuple((re.compile(pattern), words) for pattern, words in _ROWS)
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]+\d+)*\] ?")


# Before the first line that is known.
STARTING = "starting Python and importing the engine"


@dataclasses.dataclass(frozen=True)
class Phase:
    """``words`` for the screen, ``line`` the log line it was read from, ``index`` where it stands among the lines.

    Words are empty where an engine speaks and none of its lines is known.
    """

    words: str
    line: str
    index: int


def phase(lines: list[str]) -> Phase:
    """The newest phase that the lines speak of."""
    for index in range(len(lines) - 1, -1, -1):
        for pattern, words in _PATTERNS:
            match = pattern.search(lines[index])
            if match:
                return Phase(match.expand(words), _STAMP.sub("", lines[index])[:200], index)
    speaks = any(_STAMP.match(line) for line in lines)
    return Phase("" if speaks else STARTING, "", -1)

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that answers every benchmark request at once: how fast is the client itself (private to the collection).

No load generator and no engine: it streams as many events as tokens were asked for, as the engine does (one event a
token, the text so far in each), without computing anything. What the client reaches against it is the client's ceiling
on this host; a level near that ceiling says nothing about the engine. Standard library only, since it is copied beside
a benchmark job and run by the release's Python: ``python instant.py PORT_FILE``.
"""

from __future__ import annotations

import asyncio
import functools
import json
import pathlib
import sys

# Longest request body read, bytes: 128k token ids in JSON are below 1 MB.
LARGEST_BODY = 16 * 1024 * 1024


@functools.lru_cache(maxsize=8)
def answer(tokens: int) -> bytes:
    """The whole streamed answer of ``tokens`` tokens, in HTTP chunks."""
    parts = []
    text = ""
    for number in range(1, tokens + 1):
        text += " word"
        event = {"text": text, "meta_info": {"completion_tokens": number, "finish_reason": None}}
        parts.append(chunk(b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"))
    parts.append(chunk(b"data: [DONE]\n\n"))
    return b"".join(parts) + b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection: requests until the client hangs up."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = 0
            for line in head.split("\r\n")[1:]:
                name, _sep, value = line.partition(":")
                if name.lower() == "content-length":
                    length = min(int(value), LARGEST_BODY)
            body = await reader.readexactly(length) if length else b""
            if head.split(" ", 2)[1].startswith("/generate"):
                params = json.loads(body).get("sampling_params") or {}
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + answer(int(params.get("max_new_tokens") or 16))
                )
            else:
                reply = b'{"data":[{"id":"instant"}],"internal_states":[{}]}'
                head_line = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                writer.write(head_line % len(reply) + reply)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def run(port_file: pathlib.Path) -> None:
    """Serve on a free loopback port, whose number is written to ``port_file``, until ended from outside."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048, limit=LARGEST_BODY)
    fresh = port_file.with_suffix(".new")
    fresh.write_text(str(server.sockets[0].getsockname()[1]), encoding="ascii")
    fresh.replace(port_file)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(run(pathlib.Path(sys.argv[1])))

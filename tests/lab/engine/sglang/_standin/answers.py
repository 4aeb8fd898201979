"""What the stand-in says: deterministic, sensible where a probe would look, and the same for the same prompt.

A question about a capital, a sum, a count or a fact that stands in the prompt is answered; anything else is continued
with words chosen by a hash of the prompt. Tokens are words and marks; their ids are hashes within the vocabulary.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass

CAPITALS = {
    "france": "Paris", "germany": "Berlin", "italy": "Rome", "spain": "Madrid", "portugal": "Lisbon", "japan": "Tokyo",
    "austria": "Vienna", "poland": "Warsaw", "norway": "Oslo", "sweden": "Stockholm", "finland": "Helsinki",
    "greece": "Athens", "canada": "Ottawa", "egypt": "Cairo", "china": "Beijing", "the united kingdom": "London",
}  # fmt: skip
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SENTENCE = """
the river runs along quiet hills where small towns keep old bridges and every spring people repair walls plant trees
open markets read letters count boats follow roads build ovens bake bread share news watch clouds cross fields carry
water mend nets name stars learn songs draw maps light lamps close doors while rain falls over green valleys far
from noise with care for what lasts longer than one season
"""
WORDS = re.findall(r"\w+", SENTENCE)
END_TOKEN = 248046
TOKEN = re.compile(r" ?[^\W\d_]+| ?\d{1,3}|\s+|[^\w\s]|_", re.UNICODE)


@dataclass(frozen=True)
class Piece:
    """One token of an answer."""

    text: str
    token: int
    logprob: float


def tokenize(text: str) -> list[str]:
    """Split text into pieces that join to the text again; long words count several tokens, as with real tokenizers."""
    pieces = []
    for word in TOKEN.findall(text):
        pieces += [word[i : i + 12] for i in range(0, len(word), 12)]
    return pieces


def token_id(piece: str, vocab: int = 248000) -> int:
    """A stable id of a piece within the vocabulary; 0 (`!` in real vocabularies, the NaN sign) is never used."""
    return 1 + zlib.crc32(piece.encode()) % (vocab - 1)


def chat_prompt(messages: list[dict[str, object]]) -> str:
    """Join messages as the template does; the marks count as tokens like the real ones."""
    text = ""
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        text += f"<|im_start|>{message.get('role', 'user')}\n{content}<|im_end|>\n"
    return text + "<|im_start|>assistant\n"


def answer(prompt: str) -> str | None:
    """Return what a sensible model would answer to the last question of the prompt, or None."""
    tail = prompt[-2000:]
    found = re.findall(r"capital(?: city)? of (the united kingdom|[A-Za-z]+)", tail, re.IGNORECASE)
    if found and found[-1].lower() in CAPITALS:
        return CAPITALS[found[-1].lower()]
    sums = re.findall(r"(\d+)\s*(\+|plus|-|minus|\*|x|times)\s*(\d+)", tail)
    if sums:
        left, sign, right = sums[-1]
        a, b = int(left), int(right)
        return str(a + b if sign in ("+", "plus") else a - b if sign in ("-", "minus") else a * b)
    words = re.findall(r"\b(\w+) plus (\w+)\b", tail.lower())
    if words and words[-1][0] in NUMBERS and words[-1][1] in NUMBERS:
        total = NUMBERS.index(words[-1][0]) + NUMBERS.index(words[-1][1])
        return NUMBERS[total] if total < len(NUMBERS) else str(total)
    count = re.findall(r"count (?:from 1 )?to (\d+)", tail, re.IGNORECASE)
    if count:
        return ", ".join(str(n) for n in range(1, min(int(count[-1]), 500) + 1))
    said = re.findall(
        r"(?:repeat|say|reply with|answer with)(?: exactly)?(?: the word)?[: ]+[\"'`]?([\w-]+)", tail, re.IGNORECASE
    )
    asked = re.findall(r"what (?:is|was) (the [\w -]{3,60}?)\s*\?", tail, re.IGNORECASE)
    if asked:
        facts = re.findall(re.escape(asked[-1]) + r" (?:is|was)[: ]+[\"'`]?([\w-]+)", prompt, re.IGNORECASE)
        if facts:
            return str(facts[0])
    return str(said[-1]) if said else None


def _seeded(prompt: str, salt: str, position: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{salt}/{position}/{prompt}".encode()).digest()[:4], "big")


def write(prompt: str, limit: int, *, chat: bool, ignore_eos: bool = False, salt: str = "") -> tuple[list[Piece], bool]:
    """Return at most `limit` tokens of an answer, and whether the model stopped by itself."""
    known = answer(prompt)
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    if known is not None:
        text = known + "." if chat else f" {known}."
        pieces = tokenize(text)
    else:
        pieces = []
    stops = len(pieces) if known is not None else 24 + _seeded(digest, salt, -1) % 200 if chat else limit + 1
    previous = ""
    while len(pieces) < min(limit, stops) or (ignore_eos and len(pieces) < limit):
        word = WORDS[_seeded(digest, salt, len(pieces)) % len(WORDS)]
        if word == previous:
            word = WORDS[(WORDS.index(word) + 1) % len(WORDS)]
        previous = word
        pieces.append(word.capitalize() if not pieces and chat else " " + word)
    stopped = not ignore_eos and len(pieces) <= limit and stops <= limit
    pieces = pieces[:limit]
    out = []
    for place, piece in enumerate(pieces):
        certainty = 0.02 if known is not None else 1.1
        noise = _seeded(digest, "logprob", place) / 2**32
        out.append(Piece(piece, token_id(piece), -round(certainty * (0.2 + noise), 6)))
    return out, stopped

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets and personal paths out of a report, so that it can be sent to a vendor (private to the collection)."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "REDACTED"

# Names whose values are secrets, whatever is in them. `token` alone would also catch max_total_tokens.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:api[_-]?key|apikey|password|passwd|passphrase|secret|credential|authorization|"
    r"(?:access|auth|bearer|hf|hub|api|session|refresh)[_-]?token|private[_-]?key)(?:s)?$",
    re.IGNORECASE,
)
_EXACT = ("token", "hf_token", "huggingface_token", "pass", "pwd")
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@ or token@ of a URL
    (re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.\-]*://)[^/\s@'\"]+@", re.IGNORECASE), r"\g<scheme>" + HIDDEN + "@"),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{6,}", re.IGNORECASE), r"\1 " + HIDDEN),
    (
        re.compile(r"\b(?:hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_\-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|glpat-[\w\-]{10,})"),
        HIDDEN,
    ),
    (
        re.compile(
            r"(?P<flag>--?(?:[a-z]+[_-])*(?:api-key|api_key|token|password|secret))(?P<sep>[= ]\s*)[^\s'\"]+",
            re.IGNORECASE,
        ),
        r"\g<flag>\g<sep>" + HIDDEN,
    ),
    (re.compile(r"(?P<name>\b\w*(?:API_KEY|TOKEN|PASSWORD|SECRET)\w*)=(?P<value>[^\s'\",;]+)"), r"\g<name>=" + HIDDEN),
    (
        re.compile(
            # but for the name of a variable, as in what is to be written into an inventory
            r"(?P<name>['\"]?\b(?:api_key|apikey|password|secret|authorization)['\"]?\s*:\s*)"
            r"(?!['\"]?\{\{ *\w+ *\}\})(?P<value>['\"]?[^\s'\",}]+)",
            re.IGNORECASE,
        ),
        r"\g<name>" + HIDDEN,
    ),
    (
        re.compile(r"(?P<name>[?&](?:token|key|api_key|signature|sig|access_token)=)[^&\s'\"]+", re.IGNORECASE),
        r"\g<name>" + HIDDEN,
    ),
    # a private key in one piece
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
)
_HOMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/(?:home|Users)/[^/\s:'\"]+"), "~"),
    (re.compile(r"(?<![\w.])/root(?=/|\b)"), "~"),
)
# Options whose next word is a secret when a command is a list.
_SECRET_FLAG = re.compile(r"^--?(?:[a-z]+[_-])*(?:api[_-]key|token|password|secret)$", re.IGNORECASE)
# Names that look secret and are not.
_HARMLESS = ("api_key_set",)


class Redactor:
    """Cleans values of any shape.

    Args:
        secrets: values known to be secret (an instance's api_key); each is replaced wherever it appears. Shorter ones
            than four characters are only replaced where a name gives them away, since they appear everywhere.
        folders: folders of the controller whose names are nobody's business, replaced by ``.``.
    """

    def __init__(self, secrets: t.Iterable[str] = (), folders: t.Iterable[str] = ()) -> None:
        self._secrets = sorted({str(secret) for secret in secrets if len(str(secret)) >= 4}, key=len, reverse=True)
        self._folders = sorted({folder.rstrip("/") for folder in folders if len(folder) > 1}, key=len, reverse=True)

    def text(self, value: str) -> str:
        """One string, cleaned."""
        for secret in self._secrets:
            value = value.replace(secret, HIDDEN)
        for pattern, replacement in _PATTERNS:
            value = pattern.sub(replacement, value)
        for folder in self._folders:
            value = re.sub(re.escape(folder) + r"(?=/|\b|$)", ".", value)
        for pattern, replacement in _HOMES:
            value = pattern.sub(replacement, value)
        return value

    def clean(self, value: t.Any, name: str = "") -> t.Any:
        """A value of any shape: dictionaries, lists and strings, plain types in and out."""
        if name and secret_name(name) and value not in (None, "", True, False):
            return HIDDEN
        if isinstance(value, str):
            return self.text(str(value))
        if isinstance(value, t.Mapping):
            return {self.text(str(key)): self.clean(entry, str(key)) for key, entry in value.items()}
        if isinstance(value, (list, tuple)):
            cleaned = []
            hide = False
            for entry in value:
                cleaned.append(HIDDEN if hide else self.clean(entry))
                hide = isinstance(entry, str) and bool(_SECRET_FLAG.match(entry))
            return cleaned
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        return self.text(str(value))


def secret_name(name: str) -> bool:
    """Whether a key of that name holds a secret."""
    return name not in _HARMLESS and (name.lower() in _EXACT or bool(_SECRET_NAME.search(name)))

# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch the published engines of requirements/engines.txt, by hash, into a folder: `engine_packages.py FOLDER`.

What is there with the right digest is not fetched again, and then no network is needed.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

import engine_options

LOCK = pathlib.Path(__file__).parent.parent / "requirements/engines.txt"


def locked() -> dict[str, str]:
    """Version to SHA-256, in the order of the lock."""
    return dict(re.findall(r"^sglang==(\S+) --hash=sha256:([0-9a-f]{64})$", LOCK.read_text(encoding="utf-8"), re.M))


def there(version: str, digest: str, folder: pathlib.Path) -> bool:
    """Whether a folder holds the locked package of a version, whole."""
    found = folder.glob(f"sglang-{version}-*.whl")
    return any(hashlib.sha256(path.read_bytes()).hexdigest() == digest for path in found)


def fetch(version: str, digest: str, folder: pathlib.Path) -> None:
    """Download one version with pip; SystemExit where it cannot, or where the bytes are others than locked."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lock:
        lock.write(f"sglang=={version} --hash=sha256:{digest}\n")
        lock.flush()
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        words += [*engine_options.WHEEL, "--require-hashes", "--dest", str(folder), "--requirement", lock.name]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"sglang {version} of {LOCK.name} could not be fetched:\n{done.stderr.strip()}")


def main(folder: pathlib.Path) -> None:
    """Fetch what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for version, digest in locked().items():
        if not there(version, digest, folder):
            fetch(version, digest, folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

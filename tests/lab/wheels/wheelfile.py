"""Write wheels: valid (PEP 427), the same bytes for the same input, with the PEP 658 metadata file beside them."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# Zip files cannot say anything earlier.
EPOCH = (1980, 1, 1, 0, 0, 0)


def normalized(name: str) -> str:
    """PEP 503: the name of a project in a URL."""
    return re.sub(r"[-_.]+", "-", name).lower()


def file_name(name: str, version: str, tag: str) -> str:
    """The name of the wheel, with the distribution escaped as it is in real ones."""
    return f"{re.sub(r'[-_.]+', '_', name)}-{version}-{tag}.whl"


def metadata(name: str, version: str, requires: Sequence[str], requires_python: str) -> str:
    """METADATA; says in its summary that the wheel is a stand-in."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines.append("Summary: Stand-in for tests, carries the name and the requirements of the real package")
    lines.append(f"Requires-Python: {requires_python}")
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    return "\n".join(lines) + "\n"


def write(
    folder: Path,
    *,
    name: str,
    version: str,
    tag: str,
    files: Mapping[str, bytes],
    requires: Sequence[str] = (),
    requires_python: str = ">=3.10",
    entry_points: str = "",
    with_metadata: bool = True,
) -> Path:
    """Write one wheel into `folder` and return its path; `files` maps paths inside the wheel to contents."""
    stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
    about = metadata(name, version, requires, requires_python)
    pure = tag.endswith("-none-any")
    tags = _expanded(tag)
    wheel = "Wheel-Version: 1.0\nGenerator: lab\n" + f"Root-Is-Purelib: {'true' if pure else 'false'}\n"
    wheel += "".join(f"Tag: {one}\n" for one in tags)
    whole = dict(files)
    whole[f"{stem}.dist-info/METADATA"] = about.encode()
    whole[f"{stem}.dist-info/WHEEL"] = wheel.encode()
    if entry_points:
        whole[f"{stem}.dist-info/entry_points.txt"] = entry_points.encode()
    record = f"{stem}.dist-info/RECORD"
    rows = [f"{path},sha256={_digest(whole[path])},{len(whole[path])}" for path in sorted(whole)]
    whole[record] = ("\n".join([*rows, f"{record},,"]) + "\n").encode()
    target = folder / file_name(name, version, tag)
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path in sorted(whole, key=lambda one: (".dist-info/" in one, one)):
            entry = zipfile.ZipInfo(path, EPOCH)
            entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            archive.writestr(entry, whole[path])
    part.replace(target)
    if with_metadata:
        Path(f"{target}.metadata").write_text(about, encoding="utf-8")
    return target


def _expanded(tag: str) -> list[str]:
    python, abi, platforms = tag.split("-")
    return [f"{one}-{abi}-{platform}" for one in python.split(".") for platform in platforms.split(".")]


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

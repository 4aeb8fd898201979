"""Root filesystems, built once into the cache as layers that overlayfs stacks.

base      a minimal Debian, as a fresh host has it
archives  on top: package lists and the .deb files that roles install, so that apt has nothing to download
prepared  on top of base: the same packages installed, for tests that are not about installing them
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .names import cache_root
from .shell import LabError, contained, locked, run, say

BASE_PACKAGES = (
    "systemd",
    "systemd-sysv",
    "systemd-container",
    "dbus",
    "python3",
    "python3-apt",
    "openssh-server",
    "iproute2",
    "ca-certificates",
    "procps",
    "kmod",
)
# What the roles install on a GPU host.
HOST_PACKAGES = (
    "python3-requests",
    "python3-jmespath",
    "python3-packaging",
    "python3-venv",
    "libpython3-dev",
    "python3-pip",
    "gcc",
    "g++",
    "make",
    "ninja-build",
    "git",
    "curl",
    "ca-certificates",
    "libnuma1",
    "libnuma-dev",
    "pciutils",
    "patch",
    "pkg-config",
    "numactl",
)
LAYOUT = 2  # raise it when the way of building changes

# Debian's man pages and translations are of no use in the lab and cost half of the unpacking.
_EXCLUDES = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class Layers:
    """Folders of the layers. `bare` and `prepared` are stacks for overlayfs, topmost first."""

    base: Path
    archives: Path
    prepared_layer: Path

    def stack(self, prepared: bool) -> list[Path]:
        return [self.prepared_layer, self.base] if prepared else [self.archives, self.base]


def build(suite: str, prepared: bool) -> Layers:
    """Return the layers of a Debian suite, building those that are missing (about a minute each)."""
    digest = hashlib.sha256(json.dumps([suite, BASE_PACKAGES, HOST_PACKAGES, LAYOUT]).encode()).hexdigest()[:8]
    root = cache_root() / "rootfs" / f"{suite}-{digest}"
    layers = Layers(root / "base", root / "archives", root / "prepared")
    wanted = [layers.base, layers.prepared_layer if prepared else layers.archives]
    if all(path.is_dir() for path in wanted):
        return layers
    with locked(cache_root() / "locks" / f"rootfs-{root.name}"):
        root.mkdir(parents=True, exist_ok=True)
        for stale in root.glob("*.tmp"):
            shutil.rmtree(stale)
        if not layers.base.is_dir():
            say(f"building the root filesystem of Debian {suite} (about a minute, once)")
            _build_base(suite, layers.base)
        if not prepared and not layers.archives.is_dir():
            say("downloading the packages of a GPU host (once)")
            _build_layer(layers.base, layers.archives, ["--download-only"], keep_archives=True)
        if prepared and not layers.prepared_layer.is_dir():
            say("installing the packages of a GPU host into a layer (about a minute, once)")
            _build_layer(layers.base, layers.prepared_layer, [], keep_archives=False)
    return layers


def _build_base(suite: str, target: Path) -> None:
    if not Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists():
        raise LabError("Debian's signing keys are not here: install debian-archive-keyring")
    tmp = target.with_name(target.name + ".tmp")
    mirror = os.environ.get("SGLANG_LAB_MIRROR", "")
    argv = [
        "--variant=minbase",
        '--aptopt=Acquire::Languages "none"',
        "--dpkgopt=force-unsafe-io",
        *[f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDES],
        f"--include={','.join(BASE_PACKAGES)}",
        *_apt_proxy(),
        suite,
        str(tmp),
        *([mirror] if mirror else []),
    ]
    log = target.parent / "base.log"
    contained('exec mmdebstrap "$@"', *argv, log=log)
    for name in ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id"):
        (tmp / name).unlink(missing_ok=True)
    os.sync()
    tmp.rename(target)


def _apt_proxy() -> list[str]:
    """The machine's own apt proxy, if it has one, serves the build too."""
    done = run(["apt-config", "dump", "Acquire::http::Proxy", "Acquire::https::Proxy"], check=False)
    return [
        f"--aptopt={line.rstrip(';')}" for line in done.stdout.splitlines() if line.endswith('";') and '""' not in line
    ]


def _build_layer(base: Path, target: Path, apt_options: list[str], keep_archives: bool) -> None:
    if not shutil.which("chroot"):
        raise LabError("chroot is not installed (package coreutils)")
    tmp, work = target.with_name(target.name + ".tmp"), target.with_name(target.name + ".work.tmp")
    merged = target.with_name(target.name + ".merged.tmp")
    for folder in (tmp, work, merged):
        folder.mkdir()
    tmp.chmod(0o755)
    script = """
        base=$1 upper=$2 work=$3 merged=$4; shift 4
        mount -t overlay overlay -o "lowerdir=$base,upperdir=$upper,workdir=$work" "$merged"
        mount -t proc proc "$merged/proc"
        mount --rbind /dev "$merged/dev"
        cp -L /etc/resolv.conf "$merged/etc/resolv.conf"
        printf '#!/bin/sh\\nexit 101\\n' > "$merged/usr/sbin/policy-rc.d"; chmod 755 "$merged/usr/sbin/policy-rc.d"
        export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
        chroot "$merged" apt-get -q -o Acquire::Retries=3 update
        chroot "$merged" apt-get -q -y -o Acquire::Retries=3 --no-install-recommends "$@"
        rm -f "$merged/usr/sbin/policy-rc.d" "$merged/etc/resolv.conf"
        rm -rf "$merged/tmp/"*
    """
    log = target.parent / f"{target.name}.log"
    contained(script, base, tmp, work, merged, *apt_options, "install", *HOST_PACKAGES, log=log)
    if not keep_archives:
        shutil.rmtree(tmp / "var/cache/apt", ignore_errors=True)
    for whiteout in ("usr/sbin/policy-rc.d", "etc/resolv.conf"):
        (tmp / whiteout).unlink(missing_ok=True)
    shutil.rmtree(work)
    shutil.rmtree(merged)
    os.sync()
    tmp.rename(target)

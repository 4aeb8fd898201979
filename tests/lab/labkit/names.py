"""Names, addresses and paths of a lab: all follow from its name, so that `down` needs no record to find it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

# Labs that files of the repository name (inventories, molecule scenarios) keep a fixed network.
FIXED_NETS = {
    "demo": 1,
    "default": 2,
    "nightly_stack": 3,
    "sgl_kernel": 4,
    "sglang_service": 5,
    "proxmox": 6,
    "interrupted": 7,
    "dev_lab": 100,
}
FIRST_FREE_NET, LAST_NET = 120, 250

STATE_ROOT = Path("/run/blackwell-sglang-lab")
INDEX_PORT = 8080
HYPERVISOR = "pve1"
# vmid and last byte of the address of each guest.
GUESTS = {"sglang1": (101, 11), "sglang2": (102, 12)}
HOSTS = (HYPERVISOR, *GUESTS)


def cache_root() -> Path:
    """Folder that survives labs and clones: root filesystems, packages, wheels, keys."""
    own = os.environ.get("SGLANG_LAB_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "blackwell-sglang-lab"


def repository() -> Path:
    """Root of the checkout that this file lies in."""
    return Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Lab:
    """One lab. `net` is the third byte of its network 10.213.net.0/24."""

    name: str
    net: int

    @property
    def id(self) -> str:
        """Short name for links, namespaces, tables and machines; Linux allows 15 bytes for a link."""
        return f"sglab{self.net}"

    @property
    def state(self) -> Path:
        return STATE_ROOT / self.name

    @property
    def disks(self) -> Path:
        """Writable layers of the lab's hosts. On disk and not under /run, which is memory on most machines."""
        return cache_root() / "labs" / self.name

    @property
    def gateway(self) -> str:
        return f"10.213.{self.net}.1"

    @property
    def subnet(self) -> str:
        return f"10.213.{self.net}.0/24"

    def address(self, host: str) -> str:
        """IPv4 address of a host of this lab."""
        return f"10.213.{self.net}.{2 if host == HYPERVISOR else GUESTS[host][1]}"

    @property
    def hypervisor_machine(self) -> str:
        return f"{self.id}-{HYPERVISOR}"

    @property
    def index_url(self) -> str:
        return f"http://{self.gateway}:{INDEX_PORT}"


def lab(name: str) -> Lab:
    """The lab of that name; raises ValueError for a name that could not be a folder or a file name.

    A name without a fixed network gets one by its hash, or the next that no other lab has claimed.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        raise ValueError(f"lab name {name!r}: expected 1 to 40 of a-z, 0-9, _ and -, beginning with a letter or digit")
    claims = _claims()
    for net, owner in claims.items():
        if owner == name:
            return Lab(name, net)
    if name in FIXED_NETS:
        return Lab(name, FIXED_NETS[name])
    span = LAST_NET - FIRST_FREE_NET + 1
    first = int(hashlib.sha256(name.encode()).hexdigest(), 16) % span
    for step in range(span):
        net = FIRST_FREE_NET + (first + step) % span
        if net not in claims:
            return Lab(name, net)
    raise ValueError(f"no network is left for lab {name!r}: {span} labs are up; take some down")


def _claims() -> dict[int, str]:
    folder = STATE_ROOT / "nets"
    if not folder.is_dir():
        return {}
    return {
        int(path.name): path.read_text(encoding="utf-8").strip() for path in folder.iterdir() if path.name.isdigit()
    }


def claim(lab: Lab) -> bool:
    """Reserve the lab's network; false when another lab was faster."""
    path = STATE_ROOT / "nets" / str(lab.net)
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f"{lab.net}.{os.getpid()}")
    mine.write_text(lab.name, encoding="utf-8")
    try:
        os.link(mine, path)  # unlike open(O_EXCL) it appears with its content
    except FileExistsError:
        return path.read_text(encoding="utf-8") == lab.name
    finally:
        mine.unlink()
    return True


def release(lab: Lab) -> None:
    """Give the network back."""
    (STATE_ROOT / "nets" / str(lab.net)).unlink(missing_ok=True)

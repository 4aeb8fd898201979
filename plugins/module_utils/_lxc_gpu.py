# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ``dev[n]`` entries a container shall have for its GPUs, and what must change for that (private).

Only entries of /dev/nvidia* are ours. What Proxmox VE does with a change (pve-container, vmconfig_hotplug_pending): a
new ``dev[n]`` reaches a running container at once; a changed or removed one waits for its next start. Lines ``lxc.*``
can be changed in the file alone, and are read at the start.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.blackwell.sglang.plugins.module_utils import _gpu_proxmox as pve
from ansible_collections.blackwell.sglang.plugins.module_utils._errors import SglangError

OURS = re.compile(r"^/dev/nvidia(?:\d+|ctl|-[\w-]+(?:/[\w-]+)?)$")
CAPS = ("/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2")
# Majors that Linux gives to drivers that ask for none (Documentation/admin-guide/devices.txt).
_DYNAMIC = (range(234, 255), range(384, 512))
_ALLOW = ("lxc.cgroup2.devices.allow", "lxc.cgroup.devices.allow")


@dataclasses.dataclass(frozen=True)
class Want:
    """What a container shall have: nodes of the cards, and how the nodes shall be inside."""

    cards: tuple[str, ...]
    control: bool = True
    caps: bool = False
    mode: str = "0666"
    uid: int | None = None
    gid: int | None = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What to change.

    ``put`` and ``drop`` are ``dev[n]`` keys for ``pct set``; ``lines`` are the ``lxc.*`` lines to take out of the file.
    ``hot`` are the keys that a running container gets at once; ``waiting`` says why it must start anew, or is empty.
    """

    put: dict[str, str]
    drop: tuple[str, ...]
    lines: tuple[str, ...]
    hot: tuple[str, ...]
    waiting: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the configuration differs from what is wanted."""
        return bool(self.put or self.drop or self.lines)


def cards(asked: t.Sequence[str], nodes: t.Iterable[str], known: t.Sequence[t.Mapping[str, str]]) -> list[str]:
    """Nodes of the cards that an operator names by number, node, UUID or PCI address; ``all`` is every one.

    Args:
        asked: names.
        nodes: nodes that the hypervisor has.
        known: ``{address, node, uuid}`` of every card that the driver holds.

    Raises:
        SglangError: a name fits no card.
    """
    there = pve.gpu_nodes(nodes)
    found: list[str] = []
    for name in asked:
        word = str(name).strip()
        if word == "all":
            hits = there
        elif word.isdigit() or word.startswith("/dev/"):
            path = f"/dev/nvidia{word}" if word.isdigit() else word
            hits = [path] if path in there else []
        else:
            hits = [card["node"] for card in known if word.lower() in (card["uuid"].lower(), card["address"])]
            hits = hits or [card["node"] for card in known if pve.pci(word) == card["address"]]
        if not hits:
            have = "; ".join(f"{card['node']} {card['uuid']} {card['address']}" for card in known) or ", ".join(there)
            raise SglangError(
                f"no GPU {word} on the hypervisor",
                expected=have or "a GPU held by the NVIDIA driver",
                fix="name a GPU by its number N of /dev/nvidiaN, its UUID or its PCI address",
                kind="unknown_gpu",
            )
        found += [hit for hit in hits if hit not in found]
    return found


def wanted(want: Want, nodes: t.Collection[str]) -> dict[str, str]:
    """Path to the value of its ``dev[n]``: cards, control nodes (also those missing here, which are needed), caps.

    Without cards nothing is wanted: control nodes alone would let a container use nothing.
    """
    paths = list(want.cards)
    if paths and want.control:
        paths += [*pve.CONTROL, *(path for path in pve.OPTIONAL if path in nodes)]
    options = {"gid": want.gid, "mode": want.mode, "uid": want.uid}
    words = "".join(f",{key}={value}" for key, value in sorted(options.items()) if value is not None)
    values = {path: path + words for path in paths}
    if paths and want.caps:
        # Reading is all that a capability needs; the driver makes them so.
        values.update({path: re.sub(r"mode=\d+", "mode=0444", path + words) for path in CAPS if path in nodes})
    return values


def plan(
    text: str, want: Want, nodes: t.Mapping[str, tuple[int, int]], majors: t.Mapping[int, str], running: bool
) -> Plan:
    """Compare a configuration with what is wanted.

    Args:
        text: content of /etc/pve/lxc/VMID.conf, or the same settings one a line.
        want: what the container shall have.
        nodes: /dev/nvidia* of the hypervisor with their numbers.
        majors: character majors in use now by driver name, of /proc/devices; a rule for another driver's is foreign.
        running: whether the container runs.
    """
    current, pending = pve.config(text)
    gone = [name for key, value in pending if key == "delete" for name in re.split(r"[,; ]+", value)]
    after = {key: value for key, value in current if re.fullmatch(r"dev\d+", key) and key not in gone}
    after.update({key: value for key, value in pending if re.fullmatch(r"dev\d+", key)})
    now = {key: value for key, value in current if key in after or key in gone}
    target = wanted(want, nodes)
    put: dict[str, str] = {}
    drop: list[str] = []
    have: dict[str, str] = {}
    for key in sorted(after, key=lambda name: int(name[3:])):
        path = _path(after[key])
        if not OURS.match(path):
            continue
        if path not in target or path in have:
            drop.append(key)
            continue
        have[path] = key
        if not _same(after[key], target[path]):
            put[key] = target[path]
    # A key that goes only at the next start is not free before that.
    free = pve.free_keys([*current, *pending, *((key, "") for key in put)])
    new = {next(free): value for path, value in target.items() if path not in have}
    lines, foreign = old_style(current, nodes, majors)
    mounted = {path for line in lines if (path := _mounted(line))}
    hot = [key for key, value in new.items() if _path(value) not in mounted]
    waiting = []
    if running:
        if put or drop:
            waiting.append(f"{', '.join([*put, *drop])} change or go with the next start")
        if lines:
            waiting.append("lxc lines are read at the start")
        elif len(hot) < len(new):
            waiting.append("nodes that are mounted in the old way are replaced at the start")
        late = [key for key in {**dict(pending), **dict.fromkeys(gone, "")} if _ours(key, now, dict(pending))]
        if late and not (put or drop):
            waiting.append(f"{', '.join(sorted(late))} of an earlier change still wait for a start")
    at_once = tuple(hot) if running and not lines else ()
    return Plan({**put, **new}, tuple(drop), tuple(lines), at_once, tuple(waiting), tuple(foreign))


def old_style(
    settings: t.Iterable[tuple[str, str]], nodes: t.Mapping[str, tuple[int, int]], majors: t.Mapping[int, str]
) -> tuple[list[str], list[str]]:
    """Lines of the old style that are ours, and device rules that are left alone because they may be another's.

    A rule is ours when its major is the NVIDIA driver's now, or is a dynamic one that no driver of this kernel has and
    a node of NVIDIA is mounted beside it: then it is the number that nvidia-uvm had before a kernel update.
    """
    rows = list(settings)
    mounts = [value for key, value in rows if key == "lxc.mount.entry" and _mounted(f"{key}: {value}")]
    ours = {195, *(number for number, _minor in nodes.values())}
    ours |= {number for number, name in majors.items() if name.startswith("nvidia")}
    lines, foreign = [f"lxc.mount.entry: {value}" for value in mounts], []
    for key, value in rows:
        hit = re.match(r"c\s+(\d+):", value) if key in _ALLOW else None
        if not hit:
            continue
        major = int(hit.group(1))
        stale = mounts and major not in majors and any(major in numbers for numbers in _DYNAMIC)
        if major in ours or stale:
            lines.append(f"{key}: {value}")
        else:
            foreign.append(f"{key}: {value}")
    return lines, foreign


def rewrite(text: str, change: Plan) -> str:
    """The configuration with the plan's ``lxc.*`` lines taken out and its ``dev[n]`` entries in, in one text.

    Everything else, notes, pending changes and snapshots among it, stays as it is, byte for byte.
    """
    hit = re.search(r"^\[", text, re.MULTILINE)
    head, tail = (text[: hit.start()], text[hit.start() :]) if hit else (text, "")
    kept = []
    for line in head.splitlines(keepends=True):
        found = re.match(r"([\w.\-]+)\s*[:=]\s*(.*?)\s*$", line)
        key, value = (found.group(1), found.group(2)) if found else ("", "")
        if f"{key}: {value}" in change.lines or key in change.drop or key in change.put:
            continue
        kept.append(line if line.endswith("\n") else line + "\n")
    place = next((number for number, line in enumerate(kept) if not line.startswith("#")), len(kept))
    while place < len(kept) and kept[place].partition(":")[0] < "dev":
        place += 1
    kept[place:place] = [f"{key}: {value}\n" for key, value in change.put.items()]
    return "".join(kept) + tail


def devices(text: str) -> dict[str, str]:
    """GPU entries of a configuration by key, old lines as ``lxc.mount.entry`` numbered; for a diff."""
    current, pending = pve.config(text)
    found = {key: value for key, value in current if re.fullmatch(r"dev\d+", key) and OURS.match(_path(value))}
    raw = [f"{key}: {value}" for key, value in current if _mounted(f"{key}: {value}") or key in _ALLOW]
    found.update({f"line {number}": line for number, line in enumerate(raw)})
    found.update({f"pending {key}": value for key, value in pending if key.startswith(("dev", "delete"))})
    return found


def commands(vmid: int, change: Plan) -> list[list[str]]:
    """``pct`` command lines of a plan without ``lxc.*`` lines."""
    words = [part for key, value in change.put.items() for part in (f"--{key}", value)]
    found = [["set", str(vmid), *words]] if words else []
    if change.drop:
        found.append(["set", str(vmid), "--delete", ",".join(change.drop)])
    return found


def _path(value: str) -> str:
    first = value.split(",", maxsplit=1)[0]
    words = dict(word.partition("=")[::2] for word in value.split(",") if "=" in word)
    return words.get("path") or first


def _same(left: str, right: str) -> bool:
    return _options(left) == _options(right)


def _options(value: str) -> dict[str, str]:
    """Options of an entry with pct's defaults filled in and modes as numbers."""
    words = dict(word.partition("=")[::2] for word in value.split(",") if "=" in word)
    found = {"mode": "0660", "uid": "0", "gid": "0", "deny-write": "0", **words, "path": _path(value)}
    found["mode"] = found["mode"].lstrip("0") or "0"
    return found


def _mounted(line: str) -> str:
    """The node that a mount line gives, when it is ours; '' otherwise."""
    key, _colon, value = line.partition(":")
    source = value.split()[0] if value.split() else ""
    if key != "lxc.mount.entry":
        return ""
    return source if OURS.match(source) or source == "/dev/nvidia-caps" else ""


def _ours(key: str, now: t.Mapping[str, str], pending: t.Mapping[str, str]) -> bool:
    value = pending.get(key) or now.get(key, "")
    return bool(re.fullmatch(r"dev\d+", key)) and bool(OURS.match(_path(value)))

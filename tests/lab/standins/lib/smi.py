"""nvidia-smi of the lab: -L, --query-gpu, --query-compute-apps, topo -m, -q, --gpu-reset and the table.

Imitates nvidia-smi of driver 580. Drawn from the capture nvidia_smi (query_gpu.csv: header, separators, units; q.txt;
topo_m.txt) and from nvidia_smi_compute_apps.csv of the server captures; the numbers are those of eight RTX PRO 6000
Blackwell Server Edition on two sockets without NVLink.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gpus
import smi_fields
import smi_views
from smi_fields import Unit

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
CONTROL = Path("/dev/nvidiactl")
_SHORT = {
    "-L": "list-gpus",
    "-q": "query",
    "-r": "gpu-reset",
    "-m": "matrix",
    "-i": "id",
    "-d": "display",
    "-pm": "persistence-mode",
    "-pl": "power-limit",
}
_VALUED = ("id", "persistence-mode", "display", "power-limit", "format", "query-gpu", "query-compute-apps")


class Refusal(Exception):
    """nvidia-smi ends with this text and status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def parse(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the other words."""
    options: dict[str, str] = {}
    words, rest = [], list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name.lstrip("-"))
        if name not in (*_VALUED, *_SHORT.values()):
            raise Refusal(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n", 2)
        if name in _VALUED and not equals:
            value = rest.pop(0) if rest else ""
        options[name] = value
    return options, words


def select(cards: list[gpus.Gpu], wanted: str | None) -> list[gpus.Gpu]:
    """Cards named by index, UUID or bus id; all of them without a name."""
    if wanted is None:
        return cards
    chosen = []
    for word in wanted.split(","):
        bus = word.lower().removeprefix("00000000:").removeprefix("0000:")
        found = [gpu for gpu in cards if word in (str(gpu.index), gpu.uuid) or bus == gpu.bus_id[9:].lower()]
        if not found:
            raise Refusal("No devices were found", 6)
        chosen += found
    return chosen


def csv(
    fields: list[str], rows: list[dict[str, smi_fields.Value]], known: dict[str, smi_fields.Value], form: str
) -> None:
    """Print rows: a comma and a blank between cells, units in brackets in the header."""
    words = [word.strip() for word in form.split(",")]
    if words[:1] != ["csv"]:
        raise Refusal(f'Format "{form}" is not valid. Only "csv" is.', 2)
    for field in fields:
        if field not in known:
            raise Refusal(f'Field "{field}" is not a valid field to query.\n', 2)
    if "noheader" not in words:
        units = {field: known[field] for field in fields}
        print(", ".join(f"{field} [{unit.unit}]" if isinstance(unit, Unit) else field for field, unit in units.items()))
    for row in rows:
        print(", ".join(_cell(row[field], "nounits" not in words) for field in fields))


def _cell(value: smi_fields.Value, units: bool) -> str:
    if isinstance(value, Unit):
        return f"{value.value} {value.unit}" if units else str(value.value)
    return str(value)


def query_gpu(fields: list[str], cards: list[gpus.Gpu], form: str) -> None:
    """--query-gpu."""
    used = gpus.state()["used"]
    rows = [smi_fields.of_gpu(gpu, used[gpu.index]) for gpu in cards]
    csv(fields, rows, smi_fields.of_gpu(gpus.GPUS[0], 0), form)


def query_apps(fields: list[str], cards: list[gpus.Gpu], form: str) -> None:
    """--query-compute-apps: a line per process and card, by card."""
    processes = gpus.state()["processes"]
    rows = [
        smi_fields.of_process(process["pid"], process["name"], process["gpus"][gpu.index], gpu)
        for gpu in cards
        for process in processes
        if process["gpus"].get(gpu.index)
    ]
    csv(fields, rows, smi_fields.of_process(0, "", 0, gpus.GPUS[0]), form)


def reset(cards: list[gpus.Gpu]) -> None:
    """Give stuck memory back; refuse in a container, without root, and while a process holds a card."""
    if not gpus.euid_is_root() or not gpus.is_hypervisor():
        raise Refusal("Unable to reset this GPU because of insufficient permissions.", 4)
    processes, left = gpus.state()["processes"], gpus.stuck()
    for gpu in cards:
        if any(process["gpus"].get(gpu.index) for process in processes):
            text = f"GPU {gpu.bus_id} is currently in use by one or more processes. Please end them before the reset.\n"
            raise Refusal(text, 3)
        left.pop(gpu.index, None)
        print(f"GPU {gpu.bus_id} was successfully reset.")
    gpus.STUCK.write_text(json.dumps(left), encoding="utf-8")
    print("All done.")


def run(argv: list[str]) -> None:
    """Do what the command line says."""
    if not gpus.loaded():
        raise Refusal(NO_DRIVER, 9)
    if not CONTROL.exists():
        raise Refusal("Failed to initialize NVML: Unknown Error", 255)
    options, words = parse(argv)
    cards = select(gpus.visible(), options.get("id"))
    if not cards:
        raise Refusal("No devices were found", 6)
    form = options.get("format", "")
    if "query-gpu" in options:
        query_gpu([field.strip() for field in options["query-gpu"].split(",")], cards, form)
    elif "query-compute-apps" in options:
        query_apps([field.strip() for field in options["query-compute-apps"].split(",")], cards, form)
    elif words[:1] == ["topo"]:
        smi_views.topology(cards)
    elif "gpu-reset" in options:
        reset(cards)
    elif "list-gpus" in options:
        for gpu in cards:
            print(f"GPU {gpu.index}: {gpus.NAME} (UUID: {gpu.uuid})")
    elif "persistence-mode" in options:
        for gpu in cards:
            print(f"Persistence mode is already Enabled for GPU {gpu.bus_id}.")
        print("All done.")
    elif "query" in options:
        smi_views.full(cards)
    else:
        smi_views.table(cards)


def main(argv: list[str]) -> int:
    """Run nvidia-smi; returns its exit status."""
    try:
        run(argv)
    except Refusal as refusal:
        print(refusal)
        return refusal.status
    except BrokenPipeError:
        sys.stdout = None  # the reader has seen enough
    return 0

"""nvidia-smi of the lab: -L, --query-gpu, --query-compute-apps, topo -m, -q, --gpu-reset and the table.

Imitates nvidia-smi of driver 580. Drawn from the capture nvidia_smi (query_gpu.csv: header, separators, units; q.txt;
topo_m.txt) and from nvidia_smi_compute_apps.csv of the server captures; the numbers are those of eight RTX PRO 6000
Blackwell Server Edition on two sockets without NVLink.
"""

from __future__ import annotations

import datetime
import json
import os
import sys

import gpus

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)


def _row(gpu, used):
    """Values of a card by query field; a tuple is (number, unit)."""
    busy = used > 0
    return {
        "index": gpu.index,
        "name": gpus.NAME,
        "gpu_name": gpus.NAME,
        "uuid": gpu.uuid,
        "gpu_uuid": gpu.uuid,
        "serial": "179442500%04d" % gpu.index,
        "count": len(gpus.visible()),
        "timestamp": _now("%Y/%m/%d %H:%M:%S.%f")[:-3],
        "pci.bus_id": gpu.bus_id,
        "gpu_bus_id": gpu.bus_id,
        "pci.domain": "0x0000",
        "pci.bus": f"0x{gpu.bus:02X}",
        "pci.device": "0x00",
        "pci.device_id": "0x2BB510DE",
        "pci.sub_device_id": "0x204E10DE",
        "memory.total": (gpus.MEMORY_MIB, "MiB"),
        "memory.reserved": (gpus.RESERVED_MIB, "MiB"),
        "memory.used": (used, "MiB"),
        "memory.free": (max(gpus.MEMORY_MIB - gpus.RESERVED_MIB - used, 0), "MiB"),
        "utilization.gpu": (0, "%"),
        "utilization.memory": (0, "%"),
        "temperature.gpu": 38 if busy else 29,
        "temperature.memory": "N/A",
        "fan.speed": "[N/A]",
        "power.draw": ("%.2f" % (82.4 if busy else 31.87), "W"),
        "power.draw.average": (f"{31.87:.2f}", "W"),
        "power.draw.instant": (f"{31.92:.2f}", "W"),
        "power.limit": (f"{gpus.POWER_LIMIT_W:.2f}", "W"),
        "enforced.power.limit": (f"{gpus.POWER_LIMIT_W:.2f}", "W"),
        "power.default_limit": (f"{600.0:.2f}", "W"),
        "power.max_limit": (f"{600.0:.2f}", "W"),
        "power.min_limit": (f"{300.0:.2f}", "W"),
        "power.management": "Enabled",
        "compute_cap": gpus.COMPUTE_CAP,
        "driver_version": gpus.DRIVER,
        "vbios_version": "98.02.8D.00.03",
        "pcie.link.gen.current": 5 if busy else 1,
        "pcie.link.gen.max": 5,
        "pcie.link.gen.gpucurrent": 5 if busy else 1,
        "pcie.link.gen.gpumax": 5,
        "pcie.link.gen.hostmax": 5,
        "pcie.link.width.current": 16,
        "pcie.link.width.max": 16,
        "persistence_mode": "Enabled",
        "compute_mode": "Default",
        "mig.mode.current": "Disabled",
        "mig.mode.pending": "Disabled",
        "display_active": "Disabled",
        "display_mode": "Disabled",
        "display_attached": "No",
        "addressing_mode": "HMM",
        "ecc.mode.current": "Enabled",
        "ecc.mode.pending": "Enabled",
        "pstate": "P0" if busy else "P8",
        "ecc.errors.uncorrected.volatile.total": 0,
        "ecc.errors.corrected.volatile.total": 0,
        "ecc.errors.uncorrected.aggregate.total": 0,
        "ecc.errors.corrected.aggregate.total": 0,
        "retired_pages.pending": "[N/A]",
        "gpu_recovery_action": "None",
        "gpu_operation_mode.current": "[N/A]",
        "clocks.current.sm": (2430 if busy else 180, "MHz"),
        "clocks.sm": (2430 if busy else 180, "MHz"),
        "clocks.current.graphics": (2430 if busy else 180, "MHz"),
        "clocks.gr": (2430 if busy else 180, "MHz"),
        "clocks.current.memory": (12481 if busy else 405, "MHz"),
        "clocks.mem": (12481 if busy else 405, "MHz"),
        "clocks.max.sm": (2430, "MHz"),
        "clocks.max.graphics": (2430, "MHz"),
        "clocks.max.memory": (12481, "MHz"),
        "clocks_throttle_reasons.active": "0x0000000000000001",
        "clocks_event_reasons.active": "0x0000000000000001",
        "accounting.mode": "Disabled",
        "inforom.img": "G153.0200.00.05",
    }


def _now(form):
    return datetime.datetime.now(datetime.timezone.utc).strftime(form)


def _cell(value, units):
    if isinstance(value, tuple):
        return "{} {}".format(*value) if units else str(value[0])
    return str(value)


def _csv(fields, rows, form):
    """Print rows as nvidia-smi's CSV: a comma and a blank between cells, units in brackets in the header."""
    words = [word.strip() for word in form.split(",")]
    if not words or words[0] != "csv":
        print(f'Format "{form}" is not valid. Only "csv" is.')
        return 2
    sample = rows[0] if rows else {}
    if "noheader" not in words:
        print(", ".join(_title(field, sample) for field in fields))
    for row in rows:
        print(", ".join(_cell(row[field], "nounits" not in words) for field in fields))
    return 0


_APP_UNITS = {"used_gpu_memory": "MiB", "used_memory": "MiB"}


def _title(field, sample):
    value = sample.get(field)
    unit = value[1] if isinstance(value, tuple) else _APP_UNITS.get(field)
    return f"{field} [{unit}]" if unit else field


def _select(cards, wanted):
    if wanted is None:
        return cards
    chosen = []
    for word in wanted.split(","):
        match = [
            gpu
            for gpu in cards
            if word in (str(gpu.index), gpu.uuid) or word.lower() in gpu.bus_id.lower().split("00000000:")
        ]
        match = match or [
            gpu for gpu in cards if word.lower().removeprefix("0000:") == gpu.bus_id.lower().removeprefix("00000000:")
        ]
        if not match:
            print("No devices were found")
            raise SystemExit(6)
        chosen += match
    return chosen


def _query_gpu(fields, cards, form):
    state = gpus.state()
    rows = [_row(gpu, state["used"][gpu.index]) for gpu in cards]
    for field in fields:
        if field not in _row(gpus.GPUS[0], 0):
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    return _csv(fields, rows, form)


def _query_apps(fields, cards, form):
    rows = []
    for process in gpus.state()["processes"]:
        for gpu in cards:
            mib = process["gpus"].get(gpu.index)
            if mib:
                rows.append(
                    {
                        "pid": process["pid"],
                        "process_name": process["name"],
                        "name": process["name"],
                        "used_gpu_memory": (mib, "MiB"),
                        "used_memory": (mib, "MiB"),
                        "gpu_uuid": gpu.uuid,
                        "gpu_name": gpus.NAME,
                        "gpu_bus_id": gpu.bus_id,
                        "timestamp": _now("%Y/%m/%d %H:%M:%S.%f")[:-3],
                        "gpu_serial": "179442500%04d" % gpu.index,
                    }
                )
    known = (
        "pid",
        "process_name",
        "name",
        "used_gpu_memory",
        "used_memory",
        "gpu_uuid",
        "gpu_name",
        "gpu_bus_id",
        "timestamp",
        "gpu_serial",
    )
    for field in fields:
        if field not in known:
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    rows.sort(key=lambda row: (row["gpu_bus_id"], row["pid"]))
    return _csv(fields, rows, form)


def _topology(cards):
    head = ["\t\x1b[4mGPU%d" % cards[0].index] + ["GPU%d" % gpu.index for gpu in cards[1:]]
    print("\t".join([*head, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"]))
    for row in cards:
        cells = [" X " if row is column else "NODE" if row.numa == column.numa else "SYS" for column in cards]
        print(
            "\t".join(
                ["GPU%d" % row.index, *cells, "%d-%d" % (row.numa * 64, row.numa * 64 + 63), "%d\t" % row.numa, "N/A"]
            )
        )
    print("""
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
""")
    return 0


def _full(cards):
    state = gpus.state()
    print("\n==============NVSMI LOG==============\n")

    def line(depth, key, value=None):
        print(" " * (4 * depth) + (key if value is None else "%-*s : %s" % (51 - 4 * depth - 1, key, value)))

    line(0, "Timestamp", _now("%a %b %e %H:%M:%S %Y"))
    line(0, "Driver Version", gpus.DRIVER)
    line(0, "CUDA Version", gpus.CUDA)
    print()
    line(0, "Attached GPUs", len(cards))
    for gpu in cards:
        used = state["used"][gpu.index]
        row = _row(gpu, used)
        print(f"GPU {gpu.bus_id}")
        for key, value in _sections(gpu, row, used):
            line(1 + key.count("/"), key.rpartition("/")[2], value)
        holders = [process for process in state["processes"] if process["gpus"].get(gpu.index)]
        line(1, "Processes", None if holders else "None")
        for process in holders:
            for key, value in (
                ("GPU instance ID", "N/A"),
                ("Compute instance ID", "N/A"),
                ("Process ID", process["pid"]),
            ):
                line(2 if key != "Process ID" else 2, key, value)
            line(3, "Type", "C")
            line(3, "Name", process["name"])
            line(3, "Used GPU Memory", "%d MiB" % process["gpus"][gpu.index])
        line(1, "Capabilities")
        line(2, "EGM", "disabled")
        print()
    return 0


def _sections(gpu, row, used):
    """The lines of -q that readers look for, in the capture's order; `/` in a key is one step of indentation."""
    mib = "%d MiB"
    return [
        ("Product Name", gpus.NAME),
        ("Product Brand", "NVIDIA RTX"),
        ("Product Architecture", "Blackwell"),
        ("Display Mode", "Requested functionality has been deprecated"),
        ("Display Attached", "No"),
        ("Display Active", "Disabled"),
        ("Persistence Mode", "Enabled"),
        ("Addressing Mode", "HMM"),
        ("MIG Mode", None),
        ("/Current", "Disabled"),
        ("/Pending", "Disabled"),
        ("Accounting Mode", "Disabled"),
        ("Accounting Mode Buffer Size", 4000),
        ("Driver Model", None),
        ("/Current", "N/A"),
        ("/Pending", "N/A"),
        ("Serial Number", row["serial"]),
        ("GPU UUID", gpu.uuid),
        ("Minor Number", gpu.index),
        ("VBIOS Version", row["vbios_version"]),
        ("MultiGPU Board", "No"),
        ("Board ID", "0x%x" % (gpu.bus << 8)),
        ("Board Part Number", "900-2G153-0000-000"),
        ("GPU Part Number", "2BB5-895-A1"),
        ("GPU Virtualization Mode", None),
        ("/Virtualization Mode", "None"),
        ("/Host VGPU Mode", "N/A"),
        ("GPU Recovery Action", "None"),
        ("GSP Firmware Version", gpus.DRIVER),
        ("PCI", None),
        ("/Bus", f"0x{gpu.bus:02X}"),
        ("/Device", "0x00"),
        ("/Domain", "0x0000"),
        ("/Device Id", "0x2BB510DE"),
        ("/Bus Id", gpu.bus_id),
        ("/Sub System Id", "0x204E10DE"),
        ("/GPU Link Info", None),
        ("//PCIe Generation", None),
        ("///Max", 5),
        ("///Current", row["pcie.link.gen.current"]),
        ("///Device Current", row["pcie.link.gen.current"]),
        ("///Device Max", 5),
        ("///Host Max", 5),
        ("//Link Width", None),
        ("///Max", "16x"),
        ("///Current", "16x"),
        ("/Replays Since Reset", 0),
        ("/Replay Number Rollovers", 0),
        ("Fan Speed", "N/A"),
        ("Performance State", row["pstate"]),
        ("Clocks Event Reasons", None),
        ("/Idle", "Not Active" if used else "Active"),
        ("/SW Power Cap", "Not Active"),
        ("/HW Slowdown", "Not Active"),
        ("//HW Thermal Slowdown", "Not Active"),
        ("//HW Power Brake Slowdown", "Not Active"),
        ("FB Memory Usage", None),
        ("/Total", mib % gpus.MEMORY_MIB),
        ("/Reserved", mib % gpus.RESERVED_MIB),
        ("/Used", mib % used),
        ("/Free", mib % row["memory.free"][0]),
        ("BAR1 Memory Usage", None),
        ("/Total", mib % 131072),
        ("/Used", mib % 1),
        ("/Free", mib % 131071),
        ("Compute Mode", "Default"),
        ("Utilization", None),
        ("/GPU", "0 %"),
        ("/Memory", "0 %"),
        ("/Encoder", "0 %"),
        ("/Decoder", "0 %"),
        ("ECC Mode", None),
        ("/Current", "Enabled"),
        ("/Pending", "Enabled"),
        ("ECC Errors", None),
        ("/Volatile", None),
        ("//SRAM Correctable", 0),
        ("//SRAM Uncorrectable Parity", 0),
        ("//SRAM Uncorrectable SEC-DED", 0),
        ("//DRAM Correctable", 0),
        ("//DRAM Uncorrectable", 0),
        ("/Channel Repair Pending", "No"),
        ("/TPC Repair Pending", "No"),
        ("Remapped Rows", None),
        ("/Correctable Error", 0),
        ("/Uncorrectable Error", 0),
        ("/Pending", "No"),
        ("/Remapping Failure Occurred", "No"),
        ("Temperature", None),
        ("/GPU Current Temp", "%d C" % row["temperature.gpu"]),
        ("/GPU T.Limit Temp", "60 C"),
        ("GPU Power Readings", None),
        ("/Average Power Draw", "{} W".format(row["power.draw"][0])),
        ("/Current Power Limit", "600.00 W"),
        ("/Requested Power Limit", "600.00 W"),
        ("/Default Power Limit", "600.00 W"),
        ("/Min Power Limit", "300.00 W"),
        ("/Max Power Limit", "600.00 W"),
        ("Clocks", None),
        ("/Graphics", "%d MHz" % row["clocks.gr"][0]),
        ("/SM", "%d MHz" % row["clocks.sm"][0]),
        ("/Memory", "%d MHz" % row["clocks.mem"][0]),
        ("Max Clocks", None),
        ("/Graphics", "2430 MHz"),
        ("/SM", "2430 MHz"),
        ("/Memory", "12481 MHz"),
    ]


def _reset(cards):
    """Give stuck memory back; refuse, as the driver does, in a container, without root and while a process holds the card."""
    if os.geteuid() != 0 or not gpus.is_hypervisor():
        print(
            "Unable to reset GPUs because one of them is in use or you lack the permission.\nInsufficient permissions"
        )
        return 4
    state, left = gpus.state(), gpus.stuck()
    for gpu in cards:
        if any(process["gpus"].get(gpu.index) for process in state["processes"]):
            print(
                f"GPU {gpu.bus_id} is currently in use by one or more processes. Please end them before the reset.\n"
            )
            return 3
        left.pop(gpu.index, None)
        print(f"GPU {gpu.bus_id} was successfully reset.")
    with open(gpus.STUCK, "w", encoding="utf-8") as handle:
        json.dump(left, handle)
    print("All done.")
    return 0


def _table(cards):
    state = gpus.state()
    rule = "+-----------------------------------------+------------------------+----------------------+"
    print(_now("%a %b %e %H:%M:%S %Y"))
    print("+-----------------------------------------------------------------------------------------+")
    print("| NVIDIA-SMI %-23s Driver Version: %-14s CUDA Version: %-9s |" % (gpus.DRIVER, gpus.DRIVER, gpus.CUDA))
    print(rule)
    print("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |")
    print("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |")
    print("|                                         |                        |               MIG M. |")
    print("|=========================================+========================+======================|")
    for gpu in cards:
        row = _row(gpu, state["used"][gpu.index])
        print(
            "| %3d  %-28s  On  |   %16s Off |                    0 |" % (gpu.index, gpus.NAME[:26] + "...", gpu.bus_id)
        )
        watts = "{:3.0f}W /  {:3.0f}W".format(float(row["power.draw"][0]), gpus.POWER_LIMIT_W)
        print(
            "| N/A  %3dC    %s    %22s | %6dMiB /  %6dMiB |      0%%      Default |"
            % (row["temperature.gpu"], row["pstate"], watts, row["memory.used"][0], gpus.MEMORY_MIB)
        )
        print("|                                         |                        |             Disabled |")
        print(rule)
    print("\n+-----------------------------------------------------------------------------------------+")
    print("| Processes:                                                                              |")
    print("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |")
    print("|        ID   ID                                                               Usage      |")
    print("|=========================================================================================|")
    lines = [(index, process, mib) for process in state["processes"] for index, mib in sorted(process["gpus"].items())]
    for index, process, mib in sorted(lines, key=lambda item: (item[0], item[1]["pid"])):
        print(
            "| %4d   N/A  N/A     %12d      C   %-30s   %8dMiB |" % (index, process["pid"], process["name"][:30], mib)
        )
    if not lines:
        print("|  No running processes found                                                             |")
    print("+-----------------------------------------------------------------------------------------+")
    return 0


def main(argv):
    """Run nvidia-smi; returns its exit status."""
    if not gpus.loaded():
        sys.stdout.write(NO_DRIVER)
        return 9
    if not os.path.exists("/dev/nvidiactl"):
        print("Failed to initialize NVML: Unknown Error")
        return 255
    options, words = _parse(argv)
    cards = _select(gpus.visible(), options.get("id"))
    if not cards:
        print("No devices were found")
        return 6
    form = options.get("format", "")
    if "query-gpu" in options:
        return _query_gpu([field.strip() for field in options["query-gpu"].split(",")], cards, form)
    if "query-compute-apps" in options:
        return _query_apps([field.strip() for field in options["query-compute-apps"].split(",")], cards, form)
    if words[:1] == ["topo"]:
        return _topology(cards)
    if "gpu-reset" in options:
        return _reset(cards)
    if "list-gpus" in options:
        for gpu in cards:
            print("GPU %d: %s (UUID: %s)" % (gpu.index, gpus.NAME, gpu.uuid))
        return 0
    if "query" in options:
        return _full(cards)
    return _table(cards)


_SHORT = {
    "-L": "list-gpus",
    "-q": "query",
    "-r": "gpu-reset",
    "-m": "matrix",
    "-i": "id",
    "-pm": "persistence-mode",
    "-d": "display",
    "-pl": "power-limit",
}
_VALUED = ("id", "persistence-mode", "display", "power-limit", "format", "query-gpu", "query-compute-apps")


def _parse(argv):
    options, words, rest = {}, [], list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name.lstrip("-"))
        if name not in (*_VALUED, *_SHORT.values()):
            print(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n")
            raise SystemExit(2)
        if name in _VALUED and not equals:
            value = rest.pop(0) if rest else ""
        options[name] = value
    return options, words

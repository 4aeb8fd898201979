"""What nvidia-smi prints for people: topo -m, -q and the table. Forms of the captures q.txt and topo_m.txt."""

from __future__ import annotations

from typing import Any

import gpus
import smi_fields

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""

# Lines of -q in the capture's order; a dot in front is one step of indentation, a name in braces a value of the card.
# Sections that nothing reads (encoders, fabric, module power, retired pages, smoothing) are left out.
FULL = """
Product Name = {name}
Product Brand = NVIDIA RTX
Product Architecture = Blackwell
Display Mode = Requested functionality has been deprecated
Display Attached = No
Display Active = Disabled
Persistence Mode = Enabled
Addressing Mode = HMM
MIG Mode
.Current = Disabled
.Pending = Disabled
Accounting Mode = Disabled
Accounting Mode Buffer Size = 4000
Driver Model
.Current = N/A
.Pending = N/A
Serial Number = {serial}
GPU UUID = {uuid}
GPU PDI = 0x0000000000000000
Minor Number = {index}
VBIOS Version = 98.02.8D.00.03
MultiGPU Board = No
Board ID = {board}
Board Part Number = 900-2G153-0000-000
GPU Part Number = 2BB5-895-A1
GPU Virtualization Mode
.Virtualization Mode = None
.Host VGPU Mode = N/A
GPU Recovery Action = None
GSP Firmware Version = {driver}
PCI
.Bus = {bus}
.Device = 0x00
.Domain = 0x0000
.Device Id = 0x2BB510DE
.Bus Id = {bus_id}
.Sub System Id = 0x204E10DE
.GPU Link Info
..PCIe Generation
...Max = 5
...Current = {generation}
...Device Current = {generation}
...Device Max = 5
...Host Max = 5
..Link Width
...Max = 16x
...Current = 16x
.Replays Since Reset = 0
.Replay Number Rollovers = 0
Fan Speed = N/A
Performance State = {pstate}
Clocks Event Reasons
.Idle = {idle}
.SW Power Cap = Not Active
.HW Slowdown = Not Active
..HW Thermal Slowdown = Not Active
..HW Power Brake Slowdown = Not Active
FB Memory Usage
.Total = {total} MiB
.Reserved = {reserved} MiB
.Used = {used} MiB
.Free = {free} MiB
BAR1 Memory Usage
.Total = 131072 MiB
.Used = 1 MiB
.Free = 131071 MiB
Compute Mode = Default
Utilization
.GPU = 0 %
.Memory = 0 %
ECC Mode
.Current = Enabled
.Pending = Enabled
ECC Errors
.Volatile
..SRAM Correctable = 0
..SRAM Uncorrectable Parity = 0
..SRAM Uncorrectable SEC-DED = 0
..DRAM Correctable = 0
..DRAM Uncorrectable = 0
.Channel Repair Pending = No
.TPC Repair Pending = No
.Unrepairable Memory = No
Remapped Rows
.Correctable Error = 0
.Uncorrectable Error = 0
.Pending = No
.Remapping Failure Occurred = No
Temperature
.GPU Current Temp = {temperature} C
.GPU T.Limit Temp = 60 C
GPU Power Readings
.Average Power Draw = {power} W
.Current Power Limit = 600.00 W
.Requested Power Limit = 600.00 W
.Default Power Limit = 600.00 W
.Min Power Limit = 300.00 W
.Max Power Limit = 600.00 W
Clocks
.Graphics = {sm} MHz
.SM = {sm} MHz
.Memory = {memory} MHz
Max Clocks
.Graphics = 2430 MHz
.SM = 2430 MHz
.Memory = 12481 MHz
"""


def topology(cards: list[gpus.Gpu]) -> None:
    """topo -m; the header is underlined by escapes even when nobody looks, as the real one does."""
    names = [f"GPU{gpu.index}" for gpu in cards]
    print("\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m")
    for row in cards:
        cells = [" X " if row is card else "NODE" if row.numa == card.numa else "SYS" for card in cards]
        cores = f"{row.numa * 64}-{row.numa * 64 + 63}"
        print("\t".join([f"GPU{row.index}", *cells, cores, str(row.numa), "", "N/A"]))
    print(LEGEND, end="")


def _line(depth: int, key: str, value: Any = None) -> None:
    print(" " * (4 * depth) + (key if value is None else f"{key:<{55 - 4 * depth}}: {value}"))


def full(cards: list[gpus.Gpu]) -> None:
    """-q."""
    state = gpus.state()
    print("\n==============NVSMI LOG==============\n")
    _line(0, "Timestamp", smi_fields.now("%a %b %e %H:%M:%S %Y"))
    _line(0, "Driver Version", gpus.DRIVER)
    _line(0, "CUDA Version", gpus.CUDA)
    print()
    _line(0, "Attached GPUs", len(cards))
    for gpu in cards:
        print(f"GPU {gpu.bus_id}")
        for entry in FULL.format_map(_values(gpu, state["used"][gpu.index])).strip().splitlines():
            key, equals, value = entry.partition(" = ")
            _line(1 + len(key) - len(key.lstrip(".")), key.lstrip("."), value if equals else None)
        _processes(gpu, state["processes"])
        _line(1, "Capabilities")
        _line(2, "EGM", "disabled")
        print()


def _values(gpu: gpus.Gpu, used: int) -> dict[str, Any]:
    fields = {key: value.value if isinstance(value, smi_fields.Unit) else value
              for key, value in smi_fields.of_gpu(gpu, used).items()}  # fmt: skip
    return {
        **{key: fields[key] for key in ("name", "serial", "uuid", "index", "pstate")},
        "board": f"0x{gpu.bus << 8:x}",
        "driver": gpus.DRIVER,
        "bus": f"0x{gpu.bus:02X}",
        "bus_id": gpu.bus_id,
        "generation": fields["pcie.link.gen.current"],
        "idle": "Not Active" if used else "Active",
        "total": gpus.MEMORY_MIB,
        "reserved": gpus.RESERVED_MIB,
        "used": used,
        "free": fields["memory.free"],
        "temperature": fields["temperature.gpu"],
        "power": fields["power.draw"],
        "sm": fields["clocks.sm"],
        "memory": fields["clocks.mem"],
    }


def _processes(gpu: gpus.Gpu, processes: list[dict[str, Any]]) -> None:
    holders = [process for process in processes if process["gpus"].get(gpu.index)]
    _line(1, "Processes", None if holders else "None")
    for process in holders:
        _line(2, "GPU instance ID", "N/A")
        _line(2, "Compute instance ID", "N/A")
        _line(2, "Process ID", process["pid"])
        _line(3, "Type", "C")
        _line(3, "Name", process["name"])
        _line(3, "Used GPU Memory", f"{process['gpus'][gpu.index]} MiB")


def _row(left: str, middle: str = "", right: str = "") -> None:
    print(f"| {left:<39} | {middle:>22} | {right:>20} |")


def table(cards: list[gpus.Gpu]) -> None:
    """The table that nvidia-smi prints without options."""
    state = gpus.state()
    wide = "+" + "-" * 89 + "+"
    rule = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    print(smi_fields.now("%a %b %e %H:%M:%S %Y"))
    print(wide)
    print(f"| {f'NVIDIA-SMI {gpus.DRIVER:<23} Driver Version: {gpus.DRIVER:<14} CUDA Version: {gpus.CUDA}':<87} |")
    print(rule)
    _row("GPU  Name                 Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC")
    _row("Fan  Temp   Perf          Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M.")
    _row("", "", "MIG M.")
    print("|" + rule[1:-1].replace("-", "=") + "|")
    for gpu in cards:
        used = state["used"][gpu.index]
        fields = _values(gpu, used)
        _row(f"{gpu.index:>3}  {gpus.NAME[:27] + '...':<30} On", f"{gpu.bus_id} Off", "0")
        power = f"{float(fields['power']):>14.0f}W / {gpus.POWER_LIMIT_W:>4.0f}W"
        left = f"N/A  {fields['temperature']:>3}C    {fields['pstate']:<2}"
        _row(f"{left}{power}", f"{used:>7}MiB / {gpus.MEMORY_MIB:>6}MiB", "0%      Default")
        _row("", "", "Disabled")
        print(rule)
    print(f"\n{wide}")
    print(f"| {'Processes:':<87} |")
    print(f"| {' GPU   GI   CI              PID   Type   Process name                        GPU Memory':<87} |")
    print(f"| {'       ID   ID                                                               Usage':<87} |")
    print("|" + "=" * 89 + "|")
    rows = [(index, process, mib) for process in state["processes"] for index, mib in process["gpus"].items()]
    for index, process, mib in sorted(rows, key=lambda row: (row[0], row[1]["pid"])):
        line = f"{index:>4}   N/A  N/A   {process['pid']:>14}      C   {process['name'][:32]:<32} {mib:>8}MiB"
        print(f"| {line:<87} |")
    if not rows:
        print(f"| {' No running processes found':<87} |")
    print(wide)

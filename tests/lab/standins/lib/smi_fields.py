"""Values that nvidia-smi's query interface knows of a card of the lab (`nvidia-smi --help-query-gpu`)."""

from __future__ import annotations

import datetime
from typing import NamedTuple

import gpus


class Unit(NamedTuple):
    """A value that is printed with a unit, unless the format says nounits."""

    value: object
    unit: str


Value = object


def now(form: str) -> str:
    """The present time."""
    return datetime.datetime.now(datetime.timezone.utc).strftime(form)


def of_gpu(gpu: gpus.Gpu, used: int) -> dict[str, Value]:
    """Fields of a card of which `used` MiB are held."""
    busy = used > 0
    free = max(gpus.MEMORY_MIB - gpus.RESERVED_MIB - used, 0)
    sm, memory = Unit(2430 if busy else 180, "MHz"), Unit(12481 if busy else 405, "MHz")
    generation, limit, none = 5 if busy else 1, Unit("600.00", "W"), "[N/A]"
    return {
        "index": gpu.index,
        "name": gpus.NAME,
        "gpu_name": gpus.NAME,
        "uuid": gpu.uuid,
        "gpu_uuid": gpu.uuid,
        "serial": gpu.serial,
        "gpu_serial": gpu.serial,
        "count": len(gpus.visible()),
        "timestamp": now("%Y/%m/%d %H:%M:%S.%f")[:-3],
        "pci.bus_id": gpu.bus_id,
        "gpu_bus_id": gpu.bus_id,
        "pci.domain": "0x0000",
        "pci.bus": f"0x{gpu.bus:02X}",
        "pci.device": "0x00",
        "pci.device_id": "0x2BB510DE",
        "pci.sub_device_id": "0x204E10DE",
        "memory.total": Unit(gpus.MEMORY_MIB, "MiB"),
        "memory.reserved": Unit(gpus.RESERVED_MIB, "MiB"),
        "memory.used": Unit(used, "MiB"),
        "memory.free": Unit(free, "MiB"),
        "utilization.gpu": Unit(0, "%"),
        "utilization.memory": Unit(0, "%"),
        "temperature.gpu": 38 if busy else 29,
        "temperature.memory": "N/A",
        "fan.speed": none,
        "power.draw": Unit("82.40" if busy else "31.87", "W"),
        "power.draw.average": Unit("82.40" if busy else "31.87", "W"),
        "power.draw.instant": Unit("82.52" if busy else "31.92", "W"),
        "power.limit": limit,
        "enforced.power.limit": limit,
        "power.default_limit": limit,
        "power.max_limit": limit,
        "power.min_limit": Unit("300.00", "W"),
        "power.management": "Enabled",
        "compute_cap": gpus.COMPUTE_CAP,
        "driver_version": gpus.DRIVER,
        "vbios_version": "98.02.8D.00.03",
        "pcie.link.gen.current": generation,
        "pcie.link.gen.gpucurrent": generation,
        "pcie.link.gen.max": 5,
        "pcie.link.gen.gpumax": 5,
        "pcie.link.gen.hostmax": 5,
        "pcie.link.width.current": 16,
        "pcie.link.width.max": 16,
        "persistence_mode": "Enabled",
        "accounting.mode": "Disabled",
        "compute_mode": "Default",
        "mig.mode.current": "Disabled",
        "mig.mode.pending": "Disabled",
        "display_active": "Disabled",
        "display_mode": "Disabled",
        "display_attached": "No",
        "addressing_mode": "HMM",
        "ecc.mode.current": "Enabled",
        "ecc.mode.pending": "Enabled",
        "ecc.errors.uncorrected.volatile.total": 0,
        "ecc.errors.corrected.volatile.total": 0,
        "ecc.errors.uncorrected.aggregate.total": 0,
        "ecc.errors.corrected.aggregate.total": 0,
        "retired_pages.pending": none,
        "gpu_recovery_action": "None",
        "gpu_operation_mode.current": none,
        "pstate": "P0" if busy else "P8",
        "clocks.sm": sm,
        "clocks.current.sm": sm,
        "clocks.gr": sm,
        "clocks.current.graphics": sm,
        "clocks.mem": memory,
        "clocks.current.memory": memory,
        "clocks.max.sm": Unit(2430, "MHz"),
        "clocks.max.graphics": Unit(2430, "MHz"),
        "clocks.max.memory": Unit(12481, "MHz"),
        "clocks_throttle_reasons.active": "0x0000000000000001",
        "clocks_event_reasons.active": "0x0000000000000001",
    }


def of_process(pid: int, name: str, mib: int, gpu: gpus.Gpu) -> dict[str, Value]:
    """Fields of a process on a card (`nvidia-smi --help-query-compute-apps`)."""
    return {
        "timestamp": now("%Y/%m/%d %H:%M:%S.%f")[:-3],
        "gpu_name": gpus.NAME,
        "gpu_bus_id": gpu.bus_id,
        "gpu_serial": gpu.serial,
        "gpu_uuid": gpu.uuid,
        "pid": pid,
        "process_name": name,
        "name": name,
        "used_gpu_memory": Unit(mib, "MiB"),
        "used_memory": Unit(mib, "MiB"),
    }

"""Load or unload the stand-in for the NVIDIA kernel module, and answer guests (`serve`).

Imitates /proc/driver/nvidia/{version,params,gpus/*/information} (form of the capture nvidia_smi; the information files
follow NVIDIA's open kernel module, nv-procfs.c) and the device nodes with the driver's major number 195.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import gpus

PROC = gpus.ROOT / "proc-driver"
VERSION = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {gpus.DRIVER}  Release Build  "
    "(dvs-builder@U22-I3-B10-03-4)  Wed Jan 14 21:33:58 UTC 2026\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n"
)
PARAMS = """ResmanDebugLevel: 4294967295
RmLogonRC: 1
ModifyDeviceFiles: 1
DeviceFileUID: 0
DeviceFileGID: 0
DeviceFileMode: 438
InitializeSystemMemoryAllocations: 1
UsePageAttributeTable: 4294967295
EnableMSI: 1
EnablePCIeGen3: 0
MemoryPoolSize: 0
EnableStreamMemOPs: 0
EnableUserNUMAManagement: 1
NvLinkDisable: 0
RmProfilingAdminOnly: 1
PreserveVideoMemoryAllocations: 0
DynamicPowerManagement: 3
DynamicPowerManagementVideoMemoryThreshold: 200
RegisterPCIDriver: 1
EnablePCIERelaxedOrderingMode: 0
EnableResizableBar: 0
EnableGpuFirmware: 18
EnableGpuFirmwareLogs: 2
EnableDbgBreakpoint: 0
OpenRmEnableUnsupportedGpus: 1
DmaRemapPeerMmio: 1
GrdmaPciTopoCheckOverride: 0
CoherentGPUMemoryMode: ""
RegistryDwords: ""
RegistryDwordsPerDevice: ""
RmMsg: ""
GpuBlacklist: ""
TemporaryFilePath: ""
ExcludedGpus: ""
"""


def write(path: Path, text: str) -> None:
    """A file of /proc."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o444)


def information(gpu: gpus.Gpu) -> str:
    """What the driver tells of a card."""
    lines = (
        f"Model: \t\t {gpus.NAME}",
        f"IRQ:   \t\t {120 + gpu.index}",
        f"GPU UUID: \t {gpu.uuid}",
        "Video BIOS: \t 98.02.8d.00.03",
        "Bus Type: \t PCIe",
        "DMA Size: \t 52 bits",
        "DMA Mask: \t 0xfffffffffffff",
        f"Bus Location: \t 0000:{gpu.bus:02x}:00.0",
        f"Device Minor: \t {gpu.index}",
        f"GPU Firmware: \t {gpus.DRIVER}",
        "GPU Excluded:\t No",
    )
    return "\n".join(lines) + "\n"


def _nodes() -> dict[Path, int]:
    """Device nodes by path: 195 is the driver's registered major number, uvm takes the first free one."""
    nodes = {gpu.node: os.makedev(195, gpu.index) for gpu in gpus.GPUS}
    nodes[Path("/dev/nvidiactl")] = os.makedev(195, 255)
    nodes[Path("/dev/nvidia-uvm")] = os.makedev(511, 0)
    nodes[Path("/dev/nvidia-uvm-tools")] = os.makedev(511, 1)
    return nodes


def load() -> None:
    """Make the files and, where the driver itself is, the device nodes."""
    gpus.HOLDERS.mkdir(parents=True, exist_ok=True)
    gpus.HOLDERS.chmod(0o1777)
    write(PROC / "nvidia/version", VERSION)
    write(PROC / "nvidia/params", PARAMS)
    for gpu in gpus.GPUS:
        write(PROC / f"nvidia/gpus/0000:{gpu.bus:02x}:00.0/information", information(gpu))
    if not gpus.loaded():
        subprocess.run(["mount", "--bind", PROC, "/proc/driver"], check=True)
    if gpus.is_hypervisor():
        for path, device in _nodes().items():
            if not path.exists():
                os.mknod(path, 0o666 | stat.S_IFCHR, device)
                path.chmod(0o666)


def unload() -> None:
    """Take /proc/driver/nvidia and the nodes away."""
    if gpus.loaded():
        subprocess.run(["umount", "/proc/driver"], check=True)
    if gpus.is_hypervisor():
        for path in _nodes():
            path.unlink(missing_ok=True)


def serve() -> None:
    """Answer every connection of a guest with all holders of the machine."""
    gpus.SOCKET.parent.mkdir(parents=True, exist_ok=True)
    gpus.SOCKET.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(gpus.SOCKET))
    gpus.SOCKET.chmod(0o666)
    listener.listen(64)
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(json.dumps({"processes": gpus.local_holders(), "stuck": gpus.stuck()}).encode())
            except OSError:
                continue  # the guest went away; the next one is served all the same


if __name__ == "__main__":
    {"load": load, "unload": unload, "serve": serve}[sys.argv[1]]()

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

import gpus

PROC = gpus.ROOT + "/proc-driver"
VERSION = """NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U22-I3-B10-03-4)  %s
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)
"""
BUILT = "Wed Jan 14 21:33:58 UTC 2026"
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
# node: (major, minor); 195 is registered for the driver, uvm takes the first free one.
NODES = {"nvidiactl": (195, 255), "nvidia-uvm": (511, 0), "nvidia-uvm-tools": (511, 1)}


def _write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
    os.chmod(path, 0o444)


def load():
    """Make the files and, where the driver itself is, the device nodes."""
    os.makedirs(gpus.HOLDERS, exist_ok=True)
    os.chmod(gpus.HOLDERS, 0o1777)
    _write(PROC + "/nvidia/version", VERSION % (gpus.DRIVER, BUILT))
    _write(PROC + "/nvidia/params", PARAMS)
    for gpu in gpus.GPUS:
        lines = (
            f"Model: \t\t {gpus.NAME}",
            "IRQ:   \t\t %d" % (120 + gpu.index),
            f"GPU UUID: \t {gpu.uuid}",
            "Video BIOS: \t 98.02.8d.00.03",
            "Bus Type: \t PCIe",
            "DMA Size: \t 52 bits",
            "DMA Mask: \t 0xfffffffffffff",
            f"Bus Location: \t 0000:{gpu.bus:02x}:00.0",
            "Device Minor: \t %d" % gpu.index,
            f"GPU Firmware: \t {gpus.DRIVER}",
            "GPU Excluded:\t No",
            "",
        )
        _write(PROC + f"/nvidia/gpus/0000:{gpu.bus:02x}:00.0/information", "\n".join(lines))
    if not gpus.loaded():
        subprocess.run(["mount", "--bind", PROC, "/proc/driver"], check=True)
    if gpus.is_hypervisor():
        nodes = dict(NODES, **{"nvidia%d" % gpu.index: (195, gpu.index) for gpu in gpus.GPUS})
        for name, (major, minor) in nodes.items():
            path = "/dev/" + name
            if not os.path.exists(path):
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
                os.chmod(path, 0o666)


def unload():
    """Take /proc/driver/nvidia and the nodes away."""
    if gpus.loaded():
        subprocess.run(["umount", "/proc/driver"], check=True)
    if gpus.is_hypervisor():
        for name in [*NODES, *("nvidia%d" % gpu.index for gpu in gpus.GPUS)]:
            if os.path.exists("/dev/" + name):
                os.unlink("/dev/" + name)


def serve():
    """Answer every connection of a guest with all holders of the machine."""
    os.makedirs(os.path.dirname(gpus.SOCKET), exist_ok=True)
    if os.path.exists(gpus.SOCKET):
        os.unlink(gpus.SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(gpus.SOCKET)
    os.chmod(gpus.SOCKET, 0o666)
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

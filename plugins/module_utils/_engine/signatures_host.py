# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known failures of the host around the engine: driver, NCCL, memory, systemd (private to the collection).

Lines that begin with ``systemd:`` are made by the diagnosis from the state of the unit; what systemd itself writes into
the journal of a unit says the same with the step's name.
"""

from __future__ import annotations

from ansible_collections.blackwell.sglang.plugins.module_utils._engine.signature import Signature

HOST: tuple[Signature, ...] = (
    Signature(
        id="driver_mismatch",
        pattern=r"Driver/library version mismatch|API mismatch: the client has the version (?P<client>[\d.]+), but",
        what="The driver's libraries and its kernel module are of different versions",
        why=(
            "In a container the libraries were updated apart from the hypervisor's module; they must agree "
            "in all three numbers."
        ),
        fix="Install the libraries of exactly the version in /proc/driver/nvidia/version and pin them on both sides.",
        source="field reports B100 and B106",
        example="Failed to initialize NVML: Driver/library version mismatch",
    ),
    Signature(
        id="no_gpu",
        pattern=(
            r"No CUDA GPUs are available|no CUDA-capable device is detected|RuntimeError: Found no NVIDIA"
            r" driver on your system"
        ),
        what="The engine sees no GPU",
        why=(
            "Device nodes are missing in the guest, CUDA_VISIBLE_DEVICES names none that exists, or the "
            "unit may not open them."
        ),
        fix="nvidia-smi as the service user; proxmox_gpu checks the guest's device entries.",
        source="field report B097",
        example="RuntimeError: No CUDA GPUs are available",
    ),
    Signature(
        id="cuda_init_unknown",
        pattern=(
            r"CUDA unknown error|CUDA initialization: (?:Unexpected error|CUDA unknown error)|cuda"
            r"(?:Error)?InitializationError"
        ),
        what="CUDA could not be initialised",
        why="Usually /dev/nvidia-uvm is missing in the guest, or its major number changed after a kernel update.",
        fix=(
            "On the hypervisor: nvidia-modprobe -u -c 0, then restart the guest; use dev[n] entries, which "
            "follow the number."
        ),
        source="field reports B097 and B098",
        example="RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
    ),
    Signature(
        id="invalid_device_ordinal",
        pattern=r"CUDA error: invalid device ordinal",
        what="The engine wants a GPU that does not exist",
        why="tp_size is larger than the number of GPUs that the instance may use.",
        fix="Make tp_size times pp_size at most the number of gpus.",
        source="torch",
        example="torch.AcceleratorError: CUDA error: invalid device ordinal",
    ),
    Signature(
        id="nccl_calloc",
        pattern=r"NCCL error.*Failed to CUDA (?:calloc|malloc) (?P<bytes>\d+) bytes",
        what="NCCL had no GPU memory left for its buffers ({bytes} bytes)",
        why="mem_fraction_static takes nearly all; a graph file or more channels need more buffers.",
        fix="Lower args.mem_fraction_static by 0.02.",
        source="field report B076",
        example="NCCL error: Failed to CUDA calloc 10485760 bytes",
    ),
    Signature(
        id="nccl_system_error",
        pattern=r"(?:ncclSystemError|unhandled system error|NCCL error.*unhandled)",
        what="NCCL met an error of the system",
        why="Too little /dev/shm, a missing network interface, or peer access that the topology refuses.",
        fix="env.NCCL_DEBUG: INFO for the cause; give the guest 8 GiB or more of /dev/shm.",
        source="sm120 facts A.4",
        example=(
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, unhandled system "
            "error (run with NCCL_DEBUG=INFO)"
        ),
    ),
    Signature(
        id="nccl_cumem",
        pattern=r"cuMem host allocations do not appear to be working",
        what="NCCL fell back to /dev/shm",
        why="The container has no NUMA system calls; with a small /dev/shm it fails later.",
        fix="env.NCCL_CUMEM_HOST_ENABLE: '0' and a /dev/shm of 8 GiB or more.",
        source="field report B083",
        level="degraded",
        example=(
            "NCCL WARN cuMem host allocations do not appear to be working; falling back to a /dev/shm/ "
            "based implementation"
        ),
    ),
    Signature(
        id="nccl_timeout",
        pattern=r"Watchdog caught collective operation timeout|ProcessGroupNCCL.*[Tt]imeout",
        what="A collective operation between the ranks never ended",
        why="Peer access over a path that the IOMMU or ACS breaks, or one rank died.",
        fix="env.NCCL_P2P_DISABLE: '1' to confirm; then IOMMU passthrough and ACS as the GPU runbook says.",
        source="field reports B070, B071 and B074",
        example=(
            "[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE) "
            "ran for 600000 milliseconds"
        ),
    ),
    Signature(
        id="dist_port_in_use",
        pattern=r"(?:EADDRINUSE|The server socket has failed to (?:listen|bind).*address already in use)",
        what="The port over which the ranks find each other is taken",
        why="Another engine on this host uses the same one.",
        fix="Give the instances different args.nccl_port, or stop the other engine.",
        source="torch.distributed",
        example=(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
            "network address. port: 29500, EADDRINUSE"
        ),
    ),
    Signature(
        id="xid_off_bus",
        pattern=r"Xid \(PCI:(?P<bdf>[\w:.]+)\): 79|GPU has fallen off the bus",
        what="A GPU fell off the bus",
        why="Power, PCIe signal or firmware; the card does not come back by itself.",
        fix="Reboot the hypervisor (cold, if a warm one does not help); check power limits and pcie_aspm.",
        source="field report B088",
        example="NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    ),
    Signature(
        id="xid_gsp",
        pattern=r"Xid \(PCI:(?P<bdf>[\w:.]+)\): (?:119|120|154)",
        what="The firmware of a GPU stopped answering (GSP)",
        why="A firmware halt; after a warm reboot the card may stay unusable.",
        fix="Power the host off and on; another driver branch.",
        source="field reports B086 and B089",
        example=(
            "NVRM: Xid (PCI:0000:41:00): 119, pid=1234, name=python, Timeout after 45s of waiting for RPC "
            "response from GPU1 GSP!"
        ),
    ),
    Signature(
        id="xid_locked",
        pattern=r"RC watchdog: GPU is probably locked|Xid \(PCI:(?P<bdf>[\w:.]+)\): 8,",
        what="A GPU is locked up",
        why="A kernel that never ends, or a firmware halt.",
        fix="Stop the engine; if the memory stays held, reset the GPU on the hypervisor or reboot.",
        source="field report B085",
        example="NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7",
    ),
    Signature(
        id="out_of_host_memory",
        pattern=r"oom-kill|Out of memory: Killed process \d+ \((?P<name>[^)]*)\)|systemd: result oom-kill",
        what="The kernel killed a process because the host's memory was full",
        why="Page cache of the model, pinned memory and compilers exceed the guest's limit.",
        fix="Give the guest more memory; set env.MAX_JOBS: '2' while kernels compile.",
        source="field reports B040 and B041",
        example="Out of memory: Killed process 1234 (python) total-vm:123456kB",
    ),
    Signature(
        id="no_space",
        pattern=r"No space left on device",
        what="A file system is full",
        why="JIT caches, logs or /dev/shm.",
        fix="df -h; caches of old releases under /var/cache/sglang can go.",
        source="errno 28",
        example="OSError: [Errno 28] No space left on device",
    ),
    Signature(
        id="memlock",
        pattern=r"cudaHostAlloc.*(?:fail|error)|CUDA error: OS call failed|RLIMIT_MEMLOCK",
        what="Memory could not be pinned",
        why="The limit on locked memory is too low in the guest.",
        fix=(
            "LimitMEMLOCK=infinity in the unit (the role sets it) and lxc.prlimit.memlock: unlimited for the container."
        ),
        source="sm120 facts C.1",
        example="RuntimeError: CUDA error: OS call failed or operation not supported on this OS (RLIMIT_MEMLOCK)",
    ),
    Signature(
        id="nofile",
        pattern=r"Too many open files",
        what="The process ran out of file descriptors",
        why="Many connections or shards with a low limit.",
        fix="LimitNOFILE in the unit (the role sets 1048576); see sglang_service_unit_options.",
        source="errno 24",
        example="OSError: [Errno 24] Too many open files",
    ),
    Signature(
        id="permission",
        pattern=r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^']+)'",
        what="The service user may not use {path}",
        why="Owner or mode, or the unit's protection of the file system.",
        fix=(
            "Make it readable for the service user; a path to write to goes into ReadWritePaths of "
            "sglang_service_unit_options."
        ),
        source="errno 13",
        example="PermissionError: [Errno 13] Permission denied: '/models/qwen/config.json'",
    ),
    Signature(
        id="read_only",
        pattern=r"OSError: \[Errno 30\] Read-only file system: '(?P<path>[^']+)'",
        what="The unit's protection keeps the engine from writing to {path}",
        why="ProtectSystem=strict leaves only the instance's cache writable.",
        fix=(
            "Add the folder to ReadWritePaths of sglang_service_unit_options, or point the engine into its "
            "cache by env."
        ),
        source="errno 30",
        example="OSError: [Errno 30] Read-only file system: '/home/x/.cache'",
    ),
    Signature(
        id="unit_exec",
        pattern=r"systemd: status 203\b|status=203/EXEC|Failed at step EXEC spawning",
        what="systemd could not execute the launcher",
        why="The program of ExecStart is missing or not executable.",
        fix="Run site.yml, which installs it again.",
        source="systemd.exec(5), EXIT_EXEC",
        example="systemd: status 203, result exit-code",
    ),
    Signature(
        id="unit_namespace",
        pattern=r"systemd: status 226\b|status=226/NAMESPACE|Failed at step NAMESPACE spawning",
        what="systemd could not set up the unit's view of the file system",
        why="A folder in ReadWritePaths does not exist, or the container may not make mount namespaces (nesting=1).",
        fix="Create the folder; features: nesting=1 for the container.",
        source="systemd.exec(5), EXIT_NAMESPACE",
        example="systemd: status 226, result exit-code",
    ),
    Signature(
        id="unit_user",
        pattern=r"systemd: status 21[67]\b|status=21[67]/(?:USER|GROUP)|Failed at step (?:USER|GROUP) spawning",
        what="The unit's user or group does not exist",
        why="It was removed after the unit was written, or a further group of the unit was never there.",
        fix="Run site.yml, which creates the user. A group of sglang_service_extra_groups must be there already.",
        source="systemd.exec(5), EXIT_USER and EXIT_GROUP",
        example="systemd: status 217, result exit-code",
    ),
    Signature(
        id="unit_credentials",
        pattern=r"systemd: status 243\b|status=243/CREDENTIALS|Failed at step CREDENTIALS spawning",
        what="systemd could not hand the API key to the unit",
        why="The key's file under /etc/sglang is missing or unreadable.",
        fix="Run site.yml, which writes it.",
        source="systemd.exec(5), EXIT_CREDENTIALS",
        example="systemd: status 243, result exit-code",
    ),
    Signature(
        id="unit_directories",
        pattern=(
            r"systemd: status (?:200|238|239)\b|status=(?:200/CHDIR|238/STATE_DIRECTORY|239/CACHE_DIRECTORY)"
            r"|Failed at step (?:CHDIR|STATE_DIRECTORY|CACHE_DIRECTORY) spawning"
        ),
        what="systemd could not make or enter the instance's folder under /var/cache/sglang",
        why="The file system is full or read-only, or a file or a link to nowhere lies in its place.",
        fix="ls -ld /var/cache/sglang /var/cache/sglang/NAME and df -h /var/cache; then site.yml.",
        source="systemd.exec(5), EXIT_CHDIR and EXIT_CACHE_DIRECTORY",
        example="sglang-qwen.service: Main process exited, code=exited, status=239/CACHE_DIRECTORY",
    ),
    Signature(
        id="unit_environment",
        pattern=r"Failed to load environment files|systemd: .*result resources",
        what="systemd could not read what the unit needs before it starts anything",
        why="The environment file /etc/sglang/NAME.env is missing or unreadable, or a resource of the host is used up.",
        fix="Run site.yml, which writes the file.",
        source="systemd.exec(5), EnvironmentFile; systemd.service(5), result resources",
        example="sglang-qwen.service: Failed to load environment files: No such file or directory",
    ),
    Signature(
        id="unit_dependency",
        pattern=r"Dependency failed for (?P<unit>.+?)\.?$|/start failed with result 'dependency'",
        what="systemd did not start the unit, since something that it requires failed",
        why="As a rule the file system of model_path or of the releases is not mounted (RequiresMountsFor).",
        fix="systemctl --failed names the mount, findmnt --verify checks /etc/fstab; mount it, then run site.yml.",
        source="systemd.unit(5), RequiresMountsFor and job result dependency",
        example="Dependency failed for SGLang, instance qwen.",
    ),
    Signature(
        id="unit_setup",
        pattern=(
            r"systemd: status (?P<status>2[0-4]\d)\b|Failed at step (?P<step>[A-Z_]+) spawning"
            r"|status=2[0-4]\d/(?P<name>[A-Z_]+)"
        ),
        what="systemd could not prepare the process of the unit ({step}{status}{name})",
        why="An option of [Service] asks for what this host or container does not allow.",
        fix="systemd.exec(5), Process Exit Codes, says which; null in sglang_service_unit_options leaves one out.",
        source="systemd.exec(5), Process Exit Codes",
        level="generic",
        example="sglang-qwen.service: Failed at step SECCOMP spawning /usr/bin/python3: Operation not permitted",
    ),
    Signature(
        id="unit_start_limit",
        pattern=r"systemd: .*result start-limit-hit|[Ss]tart request repeated too quickly",
        what="The unit failed too often in a row, so systemd gave up",
        why="A crash loop; the reason is in the log of the first of these starts.",
        fix="Cure the reason, then run site.yml (it resets the counter).",
        source="systemd.unit(5), StartLimitBurst",
        level="generic",
        example="systemd: status 1, result start-limit-hit",
    ),
    Signature(
        id="release_incomplete",
        pattern=r"sglang-launch: (?P<path>\S+) is missing: the release is not complete|systemd: status 78",
        what="The release that the instance uses has no interpreter",
        why="It was removed or damaged by hand.",
        fix="Run site.yml, which builds a release again, or roll back.",
        source="the launcher of this collection",
        example="sglang-launch: /opt/sglang/releases/X/venv/bin/python is missing: the release is not complete",
    ),
    Signature(
        id="engine_not_installed",
        pattern=r"No module named '?sglang'?|Error while finding module specification for 'sglang\.launch_server'",
        what="The release holds no engine",
        why="The installation was interrupted or packages were removed by hand.",
        fix="Run site.yml: a release whose imports fail is not verified and is built anew.",
        source="Python",
        example="ModuleNotFoundError: No module named 'sglang'",
    ),
    Signature(
        id="module_missing",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>[\w.]+)'",
        what="The Python module {module} is missing in the release",
        why="A requirement was left out when the release was built without the engine's own pins.",
        fix="Add it to requirements of the stack.",
        source="Python",
        level="generic",
        example="ModuleNotFoundError: No module named 'pybase64'",
    ),
    Signature(
        id="unit_killed",
        pattern=r"sglang-launch: the engine ended by itself with -9",
        what="The engine was killed (SIGKILL) by something that is not systemd",
        why="The kernel's out-of-memory killer, an operator, or the engine's own watchdog.",
        fix="Look for oom-kill in the kernel's log; if there is none, ask who sent it.",
        source="the launcher of this collection, field report B110",
        level="generic",
        example="sglang-launch: the engine ended by itself with -9",
    ),
    Signature(
        id="child_failed",
        pattern=(
            r"Received sigquit from a child process|SIGQUIT received\. .*one child failed|Subprocess \S+"
            r" \(pid=\d+\) crashed with exit code"
        ),
        what="A process of the engine failed and took the others with it",
        why="The first exception above this line says why.",
        fix="Read that exception.",
        source="captures",
        level="generic",
        example="[2026-11-29 17:59:58] Received sigquit from a child process. It usually means the child failed.",
    ),
)

#!/usr/bin/env bash
# Copyright (c) 2026, blackwell.sglang contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Start a systemd of its own on a host whose process 1 is something else, so that real units can be tested there.
#
# usage: boot_systemd.sh STATE_FOLDER [UPPER_FOLDER]
#
# It is process 1 of a PID namespace over the same root and the same devices; its cgroups hang below the host's unified
# hierarchy. Then:  nsenter --target "$(cat STATE_FOLDER/pid)" --mount --pid --ipc --cgroup COMMAND
# With UPPER_FOLDER (on a tmpfs) the root is an overlay, and what is written is gone with it.
set -euo pipefail
state=$1
upper=${2:-}
units=$state/units
mkdir -p "$units"

# What belongs to the host outside, or wants hardware.
for unit in systemd-{udevd,udev-trigger,udev-settle,networkd,resolved,timesyncd,logind,sysctl,modules-load}.service \
    systemd-{tmpfiles-setup,tmpfiles-setup-dev,tmpfiles-setup-dev-early,random-seed,remount-fs,hwdb-update}.service \
    systemd-{sysusers,update-done,update-utmp,binfmt,firstboot,machine-id-commit,journal-flush,pstore}.service \
    systemd-udevd-{control,kernel}.socket systemd-networkd.socket systemd-tmpfiles-clean.timer \
    proc-sys-fs-binfmt_misc.automount sys-kernel-{debug,tracing}.mount dev-{hugepages,mqueue}.mount \
    kmod-static-nodes.service ldconfig.service apparmor.service swap.target local-fs.target; do
    ln -sfn /dev/null "$units/$unit"
done
cat >"$units/gpu-check.target" <<'UNIT'
[Unit]
Description=Checks on a GPU
Wants=systemd-journald.service
After=systemd-journald.service
UNIT

cat >"$state/init.sh" <<INIT
#!/bin/bash
set -eu
mount --make-rprivate /
if [ -n "$upper" ]; then
    mkdir -p "$upper"/{upper,work,root}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$upper/upper,workdir=$upper/work" "$upper/root"
    for folder in dev sys tmp; do mount --rbind "/\$folder" "$upper/root/\$folder"; done
    mount -t proc proc "$upper/root/proc"
    cd "$upper/root"
    mkdir -p .outside
    pivot_root . .outside
    umount -l /.outside
else
    mount -t proc proc /proc
fi
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/system /run/lock
cp -a "$units/." /run/systemd/system/
exec env -i container=gpu-check PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=gpu-check.target --log-target=console --show-status=no
INIT
chmod +x "$state/init.sh"

group=/sys/fs/cgroup
[ -e $group/cgroup.controllers ] || group=/sys/fs/cgroup/unified
if [ ! -e $group/cgroup.controllers ]; then
    mkdir -p "$state/cgroup"
    mount -t cgroup2 none "$state/cgroup"
    group=$state/cgroup
fi
mkdir -p "$group/gpu-check"
setsid bash -c "echo \$\$ >'$group/gpu-check/cgroup.procs'
    exec unshare --mount --pid --ipc --fork --cgroup --kill-child '$state/init.sh'" \
    >"$state/console" 2>&1 </dev/null &
outer=$!
for _ in $(seq 100); do
    pid=$(pgrep -P "$outer" | head -1 || true)
    if [ -n "$pid" ]; then
        echo "$pid" >"$state/pid"
        if nsenter --target "$pid" --mount --pid --ipc --cgroup systemctl is-system-running 2>/dev/null \
            | grep -qE 'running|degraded'; then
            echo "systemd is process $pid"
            exit 0
        fi
    fi
    sleep 0.1
done
echo "systemd did not come up:" >&2
tail -20 "$state/console" >&2
exit 1

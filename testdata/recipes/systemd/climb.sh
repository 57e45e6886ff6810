#!/usr/bin/env bash
# Starts lightmetal.service and its drop-in reboot.conf under systemd, with an lmrun that fails, and
# compares the steps of lminit with the expected ones. systemd is PID 1 of new namespaces. It sees a
# copy of this machine's file system, and a directory in the place of /sys/bus/pci.
#
#   climb.sh LMINIT DIR
#
# Exit status 97: this machine does not allow that. The reason is printed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR
source "$here/namespace.sh"
steps="restarting
reset function of pci:0000:01:00.0
reset bus of pci:0000:01:00.0
rescan of pci:0000:01:00.0
power-cycle of pci:0000:01:00.0"

# make_bus DIR makes the files of /sys/bus/pci that the steps write.
make_bus() {
	local bridge=$1/tree/0000:00:01.0
	local function=$bridge/0000:01:00.0
	mkdir -p "$function" "$1/devices" "$1/slots/1"
	: | tee "$function/reset" "$function/remove" "$bridge/reset_subordinate" "$1/rescan" \
		"$1/slots/1/power"
	echo 0000:01:00 >"$1/slots/1/address"
	ln -s ../tree/0000:00:01.0/0000:01:00.0 "$1/devices"
}

# install_files ROOT EXIT installs the unit, the drop-in, and an lmrun whose exit status is EXIT
# unless it only checks.
install_files() {
	local unit=$1/etc/systemd/system/lightmetal.service
	mkdir -p "$1/etc/lightmetal" "$unit.d"
	install "$lminit" "$1/usr/bin/lminit"
	printf '%s\n' '#!/bin/sh' 'case $* in *-check) exit 0 ;; esac' "exit $2" >"$1/usr/bin/lmrun"
	chmod +x "$1/usr/bin/lmrun"
	printf '%s\n' "on-failure restart 1 wait 1ms, reset function 1 wait 1ms, reset bus 1 wait 1ms, \
rescan 1 wait 1ms, power-cycle 1 wait 1ms, halt" 'image model.lmb' 'device pci:0000:01:00.0' \
		>"$1/etc/lightmetal/lmrun.conf"
	cp "$here/lightmetal.service" "$unit"
	cp "$here/reboot.conf" "$unit.d"
	printf '%s\n' [Unit] DefaultDependencies=no OnFailure=end.service [Service] \
		StandardError=append:/result/log >"$unit.d/test.conf"
	printf '%s\n' [Unit] DefaultDependencies=no Wants=lightmetal.service \
		>"${unit%/*}/test.target"
	# systemd 252 starts this unit after each failure, also before a restart or a reboot. It ends
	# the test only if lightmetal.service has failed and was never restarted.
	printf '%s\n' [Unit] DefaultDependencies=no [Service] Type=oneshot \
		"ExecStart=/bin/sh -c 'systemctl show lightmetal -p ActiveState -p NRestarts | \
grep -c -e =failed -e =0 | grep 2 && systemctl poweroff -ff'" >"${unit%/*}/end.service"
}

# run_systemd EXIT replaces this process, which is PID 1 of new namespaces, by systemd.
run_systemd() {
	local root=$dir/mount/root
	mount --make-rprivate /
	mount -t tmpfs none "$dir/mount"
	mkdir "$dir"/mount/{root,upper,work}
	mount -t overlay none "$root" \
		-o "lowerdir=/,upperdir=$dir/mount/upper,workdir=$dir/mount/work"
	mount_root "$root" "$dir/bus" "$dir/result"
	install_files "$root" "$1"
	exec_systemd "$root" test.target
}

# boot EXIT runs systemd until the unit has failed for good (exit status 130) or the machine is to
# be rebooted (129). The files of DIR/bus and DIR/result remain.
boot() {
	rm -rf "$dir/bus" "$dir/result"
	mkdir -p "$dir/bus" "$dir/result" "$dir/mount"
	make_bus "$dir/bus"
	boot_in_group 60 "${BASH_SOURCE[0]}" "$lminit" "$dir" "$1"
}

# expect EXIT STATUS LOG FILES boots with an lmrun that ends with EXIT. STATUS is the expected
# status of boot, LOG is what lminit prints about steps, and FILES is the number of files that the
# steps write.
expect() {
	local status=0 log files
	boot "$1" || status=$?
	[[ -e $dir/result/log ]] || { echo "no systemd: $(cat "$dir/result/boot")"; exit 97; }
	log=$(sed -n 's/^lminit: \(.*\) after exit status '"$1"'$/\1/p' "$dir/result/log")
	files=$( (grep -r -l '^[01]$' "$dir/bus" || true) | wc -l)
	[[ $status == "$2" && $log == "$3" && $files == "$4" ]] && return
	{
		echo "exit $1: boot ended with $status, want $2; $files files written, want $4; log:"
		cat "$dir/result/log" "$dir/result/boot"
	} >&2
	exit 1
}

lminit=$1 dir=$2
[[ -z ${3:-} ]] || run_systemd "$3"
[[ -x /lib/systemd/systemd ]] || { echo "needs systemd"; exit 97; }
prepare_group
for exit in 64 65 77; do expect $exit 130 "" 0; done
for exit in 71 75; do expect $exit 129 "$steps"$'\n'"$steps" 5; done

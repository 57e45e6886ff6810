# shellcheck shell=bash
# Functions that run systemd as PID 1 of new namespaces, in another root. Exit status 97 of
# prepare_group: this machine does not allow that; the reason is printed.

# prepare_group makes a control group of version 2, and sets $group.
prepare_group() {
	group=$(sed -n 's/^cgroup2* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -1)
	[[ $EUID == 0 && -n $group ]] || { echo "needs root and control groups of version 2"; exit 97; }
	group=$group/lightmetal-test-$$
	mkdir "$group" || exit 97
}

# boot_in_group SECONDS COMMAND... runs a command as PID 1 of new namespaces, which calls
# run_systemd_in. Its output goes to DIR/result/boot.
boot_in_group() {
	local status=0 seconds=$1
	shift
	mkdir -p "$group"
	(
		echo "$BASHPID" >"$group/cgroup.procs"
		timeout -s KILL "$seconds" unshare --mount --pid --ipc --uts --cgroup --fork --kill-child \
			"$@" </dev/null >"$dir/result/boot" 2>&1 || exit $?
	) 2>/dev/null || status=$?
	find "$group" -depth -type d -exec rmdir {} +
	return $status
}

# mount_root ROOT BUS RESULT mounts what systemd needs in a root, BUS as /sys/bus/pci, and RESULT as
# /result.
mount_root() {
	local root=$1 name
	mount -t proc none "$root/proc"
	mount -t sysfs none "$root/sys"
	mount -t cgroup2 none "$root/sys/fs/cgroup"
	mount --bind "$2" "$root/sys/bus/pci"
	for name in run tmp dev; do mount -t tmpfs none "$root/$name"; done
	mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/result"
	for name in null zero full random urandom tty; do
		: >"$root/dev/$name"
		mount --bind "/dev/$name" "$root/dev/$name"
	done
	mount --bind "$3" "$root/result"
}

# exec_systemd ROOT TARGET replaces this process by systemd.
exec_systemd() {
	exec chroot "$1" env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --system --unit="$2" --show-status=no
}

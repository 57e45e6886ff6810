package main

import (
	"strconv"

	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file contains the functions that lminit needs as PID 1, which is the first process that the
// kernel starts.

// runAsPID1 mounts the file systems of the kernel, replays all images, and then halts, reboots or
// powers off the machine. It does not return.
func runAsPID1() {
	mountKernelFileSystems()
	// Disable the reset by Control-Alt-Delete. From now on, the kernel instead sends SIGINT to this
	// process when these keys are pressed.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)
	path, rest := splitConfigFlag(args.CommandLine())
	if path == "" && unix.Access(bootConfigurationPath, unix.F_OK) == nil {
		path = bootConfigurationPath
	}
	s := supervisor{configPath: path, commandLineFlags: rest}
	exit, finalAction := s.supervise()
	writeText(1, "lmrun: exit "+strconv.Itoa(exit)+"\n")
	if path != "" {
		printLine("lminit: " + finalAction)
	}
	// Kill all other processes, because they could write to the file systems after unix.Sync.
	_ = unix.Kill(-1, unix.SIGKILL)
	unix.Sync()
	// Unmount in reverse order, because a file system can be mounted on a directory of a file
	// system that was mounted earlier.
	for i := len(s.preparations) - 1; i >= 0; i-- {
		if p := &s.preparations[i]; p.directive.name == "mount" {
			_ = unix.Unmount(p.values[1], 0)
		}
	}
	_ = unix.Reboot(rebootCommand(finalAction))
	unix.Exit(exit) // reached only if unix.Reboot fails, for example in a container
}

// mountKernelFileSystems mounts /proc, /sys and /dev, except those that are already mounted. If one
// cannot be mounted, it prints the error and continues.
func mountKernelFileSystems() {
	mounts := [...]struct{ kind, path string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
	}
	for _, m := range mounts {
		_ = unix.Mkdir(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			printLine("lminit: cannot mount " + m.path + ": " + err.Error())
		}
	}
}

// rebootCommand returns the argument for which reboot(2) performs the given final action: halt,
// reboot or poweroff.
func rebootCommand(finalAction string) int {
	switch finalAction {
	case "halt":
		return unix.LINUX_REBOOT_CMD_HALT
	case "reboot":
		return unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.LINUX_REBOOT_CMD_POWER_OFF
}

package main

import (
	"strconv"

	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file contains the work of lminit as PID 1, the first process of a machine.

// runAsPID1 mounts the kernel's file systems, supervises the replays, and then halts, reboots or
// powers off the machine. It does not return.
func runAsPID1() {
	mountKernelFileSystems()
	// Have Control-Alt-Delete send SIGINT to this process instead of resetting the machine.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)
	path, rest := splitConfigFlag(args.CommandLine())
	if path == "" && unix.Access(bootConfigurationPath, unix.F_OK) == nil {
		path = bootConfigurationPath
	}
	s := supervisor{configPath: path, flags: rest}
	exit, finalAction := s.supervise()
	writeText(1, "lmrun: exit "+strconv.Itoa(exit)+"\n")
	if path != "" {
		printLine("lminit: " + finalAction)
	}
	// End all other processes, since they could write to the file systems after Sync.
	_ = unix.Kill(-1, unix.SIGKILL)
	unix.Sync()
	// Unmount in reverse order, since a file system may be mounted inside an earlier one.
	for i := len(s.preparations) - 1; i >= 0; i-- {
		if p := &s.preparations[i]; p.kind.name == "mount" {
			_ = unix.Unmount(p.values[1], 0)
		}
	}
	_ = unix.Reboot(rebootCommand(finalAction))
	unix.Exit(exit) // reached only in a container, where Reboot fails
}

// mountKernelFileSystems mounts /proc, /sys and /dev, unless they are already mounted.
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

// rebootCommand returns the argument of reboot(2) for a final action.
func rebootCommand(finalAction string) int {
	switch finalAction {
	case "halt":
		return unix.LINUX_REBOOT_CMD_HALT
	case "reboot":
		return unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.LINUX_REBOOT_CMD_POWER_OFF
}

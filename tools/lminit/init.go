package main

import (
	"strconv"

	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// This file has what lminit does as a machine's first process.

// runAsPID1 supervises the replays and then halts, reboots or powers off the machine. It
// does not return.
func runAsPID1() {
	mountKernelFileSystems()
	// From now on Control-Alt-Delete sends SIGINT instead of an immediate reset.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)
	path, rest := splitConfigFlag(args.CommandLine())
	if path == "" && unix.Access(bootConfigurationPath, unix.F_OK) == nil {
		path = bootConfigurationPath
	}
	s := supervisor{configPath: path, flags: rest}
	exit, then := s.supervise()
	writeText(1, "lmrun: exit "+strconv.Itoa(exit)+"\n")
	if path != "" {
		printLine("lminit: " + then)
	}
	// End all other processes, so that nothing writes any more.
	_ = unix.Kill(-1, unix.SIGKILL)
	unix.Sync()
	// Unmount in reverse order, since one may be mounted in another.
	for i := len(s.preparations) - 1; i >= 0; i-- {
		if p := &s.preparations[i]; p.kind.name == "mount" {
			_ = unix.Unmount(p.values[1], 0)
		}
	}
	_ = unix.Reboot(rebootCommand(then))
	unix.Exit(exit) // a container may not reboot
}

// mountKernelFileSystems mounts /proc, /sys and /dev unless they are mounted.
func mountKernelFileSystems() {
	mounts := [...]struct{ kind, path string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
	}
	for _, m := range mounts {
		_ = unix.Mkdir(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			printLine("lminit: mounting " + m.path + ": " + err.Error())
		}
	}
}

// rebootCommand returns the argument of reboot(2) for an ending.
func rebootCommand(then string) int {
	switch then {
	case "halt":
		return unix.LINUX_REBOOT_CMD_HALT
	case "reboot":
		return unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.LINUX_REBOOT_CMD_POWER_OFF
}

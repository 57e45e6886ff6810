package main

import (
	"slices"
	"strconv"
	"time"

	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// runAsPID1 is lminit as the first process that the kernel starts. It does not return.
func runAsPID1() {
	mountKernelFileSystems()
	// The kernel sends SIGINT for Control-Alt-Delete instead of a reset.
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
	// Other processes could write to the file systems after they are synced.
	_ = unix.Kill(-1, unix.SIGKILL)
	if !flushFileSystems(s.preparations, flushLimit) {
		printLine("lminit: a disk has not stored its data within " + flushLimit.String())
	}
	_ = unix.Reboot(rebootCommand(finalAction))
	unix.Exit(exit) // reached only if unix.Reboot fails, for example in a container
}

// flushLimit is how long PID 1 waits for disks: one that hangs must not prevent the reboot.
const flushLimit = 10 * time.Second

var syncDisks = unix.Sync // tests set another function

// flushFileSystems syncs, and unmounts in reverse order, because one file system can be mounted on
// another. It reports whether this ended within the limit.
func flushFileSystems(preparations []preparation, limit time.Duration) (ended bool) {
	done := make(chan struct{})
	go func() {
		syncDisks()
		for _, p := range slices.Backward(preparations) {
			if p.directive.name == "mount" {
				_ = unix.Unmount(p.values[1], 0)
			}
		}
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// mountKernelFileSystems skips those that are mounted already. It prints errors and continues.
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

func rebootCommand(finalAction string) int {
	switch finalAction {
	case "halt":
		return unix.LINUX_REBOOT_CMD_HALT
	case "reboot":
		return unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.LINUX_REBOOT_CMD_POWER_OFF
}

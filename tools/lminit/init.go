package main

import (
	"strconv"

	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// process1 is lminit as a machine's first process. It does not return.
func runAsPID1() {
	for _, m := range [...]struct{ kind, path string }{{"proc", "/proc"}, {"sysfs", "/sys"},
		{"devtmpfs", "/dev"}} {
		_ = unix.Mkdir(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			printLine("lminit: mounting " + m.path + ": " + err.Error())
		}
	}
	// Control-Alt-Delete is SIGINT then, instead of a reset at once.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF)
	path, rest := splitConfigFlag(args.CommandLine())
	if path == "" && unix.Access(bootConfiguration, unix.F_OK) == nil {
		path = bootConfiguration
	}
	s := supervisor{path: path, flags: rest}
	exit, then := s.supervise()
	writeText(1, "lmrun: exit "+strconv.Itoa(exit)+"\n")
	if path != "" {
		printLine("lminit: " + then)
	}
	_ = unix.Kill(-1, unix.SIGKILL)
	unix.Sync()
	for i := len(s.preparations) - 1; i >= 0; i-- {
		if p := &s.preparations[i]; p.kind.name == "mount" {
			_ = unix.Unmount(p.values[1], 0)
		}
	}
	command := map[string]int{"halt": unix.LINUX_REBOOT_CMD_HALT,
		"reboot": unix.LINUX_REBOOT_CMD_RESTART}[then]
	if command == 0 {
		command = unix.LINUX_REBOOT_CMD_POWER_OFF
	}
	_ = unix.Reboot(command)
	unix.Exit(exit) // in a container that may not
}

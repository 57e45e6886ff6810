package main

import (
	"strconv"
	"syscall"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// initMain is lmrun as process 1. It does not return.
//
// The replay runs in a child, so that whatever becomes of it, a seal that
// kills included, is reported and the machine goes down in order.
func initMain() {
	for _, m := range [...]struct{ kind, path string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		_ = unix.Mkdir(m.path, 0o755)
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			print(2, "lmrun: mounting "+m.path+": "+err.Error()+"\n")
		}
	}
	exit := hal.Internal.Exit()
	if args, err := arguments(); err != nil {
		print(2, "lmrun: "+err.Error()+"\n")
	} else {
		exit = child(args)
	}
	print(1, "lmrun: exit "+strconv.Itoa(exit)+"\n")
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// child runs lmrun with the same arguments and gives its exit status; one that
// a signal ended counts as a bus fault for SIGBUS, else as internal.
func child(args []string) int {
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
	if err != nil {
		print(2, "lmrun: starting the replay: "+err.Error()+"\n")
		return hal.Internal.Exit()
	}
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR || ended != pid && err == nil:
		case err != nil:
			return hal.Internal.Exit()
		case status.Exited():
			return status.ExitStatus()
		case status.Signaled():
			print(2, "lmrun: the replay was ended by signal "+unix.SignalName(status.Signal())+"\n")
			if status.Signal() == unix.SIGBUS {
				return hal.BusFault.Exit()
			}
			return hal.Internal.Exit()
		}
	}
}

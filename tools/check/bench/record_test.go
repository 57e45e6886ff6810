package main

import (
	"os/exec"
	"runtime"
	"testing"

	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// TestProgramMayEndWhileItIsStopped kills a traced program while it is stopped. This also happens
// if another thread of the process exits: the kernel then ends the stopped thread.
func TestProgramMayEndWhileItIsStopped(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.Command("/bin/sleep", "0")
	command.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	if err := command.Start(); err != nil {
		t.Skip("this process may not trace another: ", err)
	}
	stops := 0
	err := fail.Try(func() {
		timeStops(command.Process.Pid, func(pid, signal int) error {
			if stops++; stops < 10 {
				return unix.PtraceSyscall(pid, signal)
			}
			fail.On(unix.Kill(pid, unix.SIGKILL))
			return unix.ESRCH
		})
	})
	if err != nil || stops != 10 {
		t.Errorf("error %v after %d stops, want none after 10", err, stops)
	}
}

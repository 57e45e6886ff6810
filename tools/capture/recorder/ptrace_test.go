//go:build linux && (amd64 || arm64)

package recorder

import (
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPtraceResultsArriveEvenIfTheStackMoves: the stack of a goroutine may grow, and thereby move,
// during a ptrace request. The test makes requests at many depths, so that this happens in one of
// them; the result must be on the new stack.
func TestPtraceResultsArriveEvenIfTheStackMoves(t *testing.T) {
	lost := make(chan int)
	go func() {
		runtime.LockOSThread() // only the tracer's thread may make requests; its stack is small yet
		pid, err := syscall.ForkExec("/proc/self/exe", []string{"traced"},
			&syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
		if err == nil {
			_, _, err = waitForStop(pid)
		}
		if err != nil {
			t.Error(err)
			lost <- 0
			return
		}
		lost <- countLostSignals(pid, 2000)
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _, _ = waitForStop(pid)
	}()
	if n := <-lost; n != 0 {
		t.Errorf("%d of 2000 requests returned no signal", n)
	}
}

// countLostSignals queries the signal of a stopped thread at each depth of the stack, and returns
// how often the result is missing.
func countLostSignals(tid, depth int) (lost int) {
	if info, err := signalInfoOf(tid); err != nil || unix.Signal(info[0]) != unix.SIGTRAP {
		lost++
	}
	if depth > 1 {
		lost += countLostSignals(tid, depth-1)
	}
	return lost
}

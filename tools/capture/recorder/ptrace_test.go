//go:build linux && (amd64 || arm64)

package recorder

import (
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatTheKernelWritesArrivesWhereAStackMoves: a goroutine's stack grows within
// a request, at one depth or another, and what the request gives is where it grew to.
func TestWhatTheKernelWritesArrivesWhereAStackMoves(t *testing.T) {
	lost := make(chan int)
	go func() {
		runtime.LockOSThread() // the tracer's, with a stack that has not grown yet
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
		lost <- lostAt(pid, 2000)
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _, _ = waitForStop(pid)
	}()
	if n := <-lost; n != 0 {
		t.Errorf("%d of 2000 times nothing came", n)
	}
}

// lostAt counts at how many depths of the stack a stopped thread's signal does not arrive.
func lostAt(tid, depth int) (lost int) {
	if info, err := signalInfoOf(tid); err != nil || unix.Signal(info[0]) != unix.SIGTRAP {
		lost++
	}
	if depth > 1 {
		lost += lostAt(tid, depth-1)
	}
	return lost
}

package main

import (
	goruntime "runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Calls come on threads of C, each locked to a goroutine. Go hands its processors from thread to
// thread for them and may start more threads, which must happen before the process is sealed.

// threadsSpare is how many threads Go may need beyond those that run at once: one waits in a
// system call, the others have released a processor and do not sleep yet.
const threadsSpare = 4

// makeThreads makes Go start threads now. They stay when their goroutine ends. Reading the memory
// statistics stops all processors, and so waits for threads that are still starting.
func makeThreads() {
	var begun, ended sync.WaitGroup
	count := goruntime.GOMAXPROCS(0) + threadsSpare
	begun.Add(count)
	for range count {
		ended.Go(func() {
			goruntime.LockOSThread()
			begun.Done()
			begun.Wait() // each keeps its thread until all have one
			goruntime.UnlockOSThread()
		})
	}
	ended.Wait()
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption blocks, on this thread, the signal by which Go interrupts a goroutine anywhere.
// Its first arrival maps memory (Go 1.26, runtime/preempt_xreg.go). The signal actions of the
// host process stay as they are.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

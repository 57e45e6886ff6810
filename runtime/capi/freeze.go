package main

import (
	goruntime "runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Threads come in from C, each locked to its goroutine, so that Go hands its
// processors from thread to thread and may want more of them. What it would
// make later it makes before the seal.

// threadsSpare are the threads beside those that run at once: one waits in a
// system call, the others have let go of a processor and are not at rest yet.
const threadsSpare = 4

// makeThreads has Go make threads now. They stay when their goroutine ends. To
// read the memory statistics Go stops all processors, and so waits for those
// that another thread was still being made for.
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

// blockPreemption keeps the signal away from this thread by which Go interrupts
// a goroutine anywhere. Its first arrival maps memory (Go 1.26,
// runtime/preempt_xreg.go). The actions of the host's process stay as they are.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

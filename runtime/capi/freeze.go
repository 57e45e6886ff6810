package main

import (
	goruntime "runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A function of the archive runs on the C thread that calls it. For such a call Go's scheduler may
// start more threads of its own. A sealed process must not start threads; therefore lm_freeze makes
// Go start all threads that it may need.

// threadsSpare is the number of threads that Go may need in addition to GOMAXPROCS running threads:
// one thread that waits in a system call, and threads that have released a processor of Go but do
// not sleep yet.
const threadsSpare = 4

// makeThreads makes Go start GOMAXPROCS + threadsSpare threads. The threads continue to exist when
// their goroutines end. Then makeThreads reads the memory statistics. This stops the world (all
// Ps), and so waits until the last threads have started.
func makeThreads() {
	var started, ended sync.WaitGroup
	count := goruntime.GOMAXPROCS(0) + threadsSpare
	started.Add(count)
	for range count {
		ended.Go(func() {
			goruntime.LockOSThread()
			started.Done()
			started.Wait() // each goroutine keeps its thread until every goroutine has a thread
			goruntime.UnlockOSThread()
		})
	}
	ended.Wait()
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption blocks SIGURG on this thread. Go preempts goroutines by this signal. The first
// SIGURG makes Go map memory (Go 1.26, runtime/preempt_xreg.go), which a sealed process must not
// do. blockPreemption does not change the signal actions of the host process.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

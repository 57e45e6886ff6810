package main

// This file prepares the threads of the process for runs. lm_freeze calls the functions below.
//
// The Go code of a call runs on the C thread that makes the call. In addition, Go's scheduler may
// start threads of its own at any call. The kernel kills a sealed process that starts a thread.
// Therefore lm_freeze makes Go start all threads that Go may need later.

import (
	goruntime "runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// spareThreads is the number of threads that Go may need in addition to GOMAXPROCS running threads:
// one thread that waits in a system call, and a few threads that have just stopped running Go code
// but do not sleep yet.
const spareThreads = 4

// startSpareThreads makes Go start GOMAXPROCS + spareThreads threads. It locks one goroutine to
// each thread. The threads continue to exist when the goroutines have ended. Last,
// startSpareThreads reads Go's memory statistics, because this waits until all of the new threads
// are running: to read the statistics, Go stops all of its processors.
func startSpareThreads() {
	var started, ended sync.WaitGroup
	count := goruntime.GOMAXPROCS(0) + spareThreads
	started.Add(count)
	for range count {
		ended.Go(func() {
			goruntime.LockOSThread()
			started.Done()
			started.Wait() // keep this thread until every goroutine has a thread of its own
			goruntime.UnlockOSThread()
		})
	}
	ended.Wait()
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption blocks SIGURG on the calling thread. Go preempts goroutines with this signal. At
// the first SIGURG, Go maps memory (Go 1.26, runtime/preempt_xreg.go), and the kernel kills a
// sealed process that maps memory. blockPreemption changes no signal handler, because the process
// may do other work.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

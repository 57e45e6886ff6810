package main

// The Go code of a call runs on the C thread that makes the call, but Go's scheduler may start
// threads of its own at any call, and the kernel kills a sealed process that starts one. lm_freeze
// makes Go start all of them before.

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// gomaxprocsMutex is locked while waitForSysmon has changed GOMAXPROCS.
var gomaxprocsMutex sync.Mutex

// First and longest sleep of waitForSysmon.
const (
	firstSysmonSleepNs = 100_000
	sysmonSleepMaxNs   = 10_000_000
)

// waitForSysmon waits until sysmon, a thread of Go's scheduler, runs: a busy machine may start it
// after the seal, which forbids its first system calls (glibc: rseq, set_robust_list, mmap).
func waitForSysmon() {
	gomaxprocsMutex.Lock()
	defer gomaxprocsMutex.Unlock()
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	// With one processor, the goroutine runs only after sysmon has taken the processor from this
	// thread, which sleeps in a system call (Go 1.26, function retake of its runtime).
	var isRunning atomic.Bool
	go isRunning.Store(true)
	for ns := int64(firstSysmonSleepNs); !isRunning.Load(); ns = min(2*ns, sysmonSleepMaxNs) {
		duration := unix.NsecToTimespec(ns)
		_ = unix.Nanosleep(&duration, nil)
	}
}

// spareThreads is how many threads Go may need in addition to GOMAXPROCS: one that waits in a
// system call, and three that have stopped running Go code but do not sleep yet.
const spareThreads = 4

// startSpareThreads locks one goroutine to each thread; the threads remain when the goroutines end.
// ReadMemStats waits until every thread that has a processor (P) of Go's scheduler runs; sysmon has
// none.
func startSpareThreads() {
	var started, ended sync.WaitGroup
	count := goruntime.GOMAXPROCS(0) + spareThreads
	started.Add(count)
	for range count {
		ended.Go(func() {
			goruntime.LockOSThread()
			started.Done()
			// No two of the goroutines use the same thread.
			started.Wait()
			goruntime.UnlockOSThread()
		})
	}
	ended.Wait()
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption blocks SIGURG, with which Go preempts goroutines, on the calling thread: at the
// first one, Go maps memory (Go 1.26, runtime/preempt_xreg.go). Another handler would affect all
// threads of the process.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

package main

// This file prepares the threads of the process for runs. lm_freeze calls the functions below.
//
// The Go code of a call runs on the C thread that makes the call. In addition, Go's scheduler may
// start threads of its own at any call. The kernel kills a sealed process that starts a thread.
// Therefore lm_freeze makes Go start all threads that Go may need later.

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// waitForSysmon locks gomaxprocsMutex before it changes GOMAXPROCS, and unlocks it after it has
// restored GOMAXPROCS.
var gomaxprocsMutex sync.Mutex

// Durations of the sleeps in waitForSysmon, in nanoseconds: the first one, and the longest.
const (
	firstSysmonSleepNs = 100_000
	sysmonSleepMaxNs   = 10_000_000
)

// waitForSysmon waits until `sysmon`, a thread of Go's scheduler, is running. The Go runtime starts
// sysmon when the process starts, but on a busy machine the kernel may run sysmon only after the
// seal. The C library makes system calls when a thread begins (glibc: rseq, set_robust_list, mmap).
// The kernel kills a sealed process for such a call.
//
// waitForSysmon lets Go use only one processor, starts a goroutine, and sleeps in a system call.
// Only sysmon can take the processor from a thread in a system call (Go 1.26, runtime/proc.go,
// function retake). Therefore the goroutine cannot run before sysmon does.
func waitForSysmon() {
	gomaxprocsMutex.Lock()
	defer gomaxprocsMutex.Unlock()
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	var isRunning atomic.Bool
	go isRunning.Store(true)
	for ns := int64(firstSysmonSleepNs); !isRunning.Load(); ns = min(2*ns, sysmonSleepMaxNs) {
		duration := unix.NsecToTimespec(ns)
		_ = unix.Nanosleep(&duration, nil)
	}
}

// spareThreads is the number of threads that Go may need in addition to GOMAXPROCS running threads:
// one thread that waits in a system call, and three that have stopped running Go code but do not
// sleep yet.
const spareThreads = 4

// startSpareThreads makes Go start GOMAXPROCS + spareThreads threads, by locking one goroutine to
// each thread. When the goroutines end, the threads remain. Last, startSpareThreads reads Go's
// memory statistics. To read them, Go first stops all of its processors. For that, Go waits until
// every new thread that has a processor is running. The thread sysmon has no processor: see
// waitForSysmon.
func startSpareThreads() {
	var started, ended sync.WaitGroup
	count := goruntime.GOMAXPROCS(0) + spareThreads
	started.Add(count)
	for range count {
		ended.Go(func() {
			goruntime.LockOSThread()
			started.Done()
			// Wait until all goroutines run, so that no two of them use the same thread.
			started.Wait()
			goruntime.UnlockOSThread()
		})
	}
	ended.Wait()
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption blocks SIGURG on the calling thread. Go preempts goroutines with this signal. At
// the first SIGURG, Go maps memory (Go 1.26, runtime/preempt_xreg.go), and the kernel kills a
// sealed process that maps memory. blockPreemption only blocks the signal: another handler for
// SIGURG would affect all threads of the process.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

package runtime

import (
	"math"
	goruntime "runtime"
	"time"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze prepares the process for runs that allocate no memory: it locks the commands and the arena
// into memory, turns the garbage collector off, and grows the stack of the calling goroutine, which
// should also call Run. The error is a *hal.Fault.
//
// The kernel may still evict payload, default data of inputs, and the program itself. A run then
// waits until it has read the page again, and fails with hal.IO if it cannot read the image file.
// LockMemory locks these, too.
//
// Freeze changes no threads, signals or scheduling, for processes that do other work. A process
// that only replays should call DedicateProcess first.
func (r *Replay) Freeze() error {
	// mlock also allocates all pages, so that a run causes no page faults in them.
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return hal.NewFault(hal.Denied, "cannot lock commands and arena into memory: "+
				err.Error()+hal.MemlockAdvice)
		}
	}
	setGCPercent(-1)
	setMemoryLimit(math.MaxInt64)
	// Go's first timer opens the files of the network poller (epoll): here, and not during a run.
	time.Sleep(time.Nanosecond)
	// Once GOMAXPROCS was set, Go no longer opens files to read the CPU limits of the process.
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	_ = growStack()
	hal.ReserveFaults()
	return nil
}

// growStack grows the stack to more than a run needs. Only a garbage collection would shrink it.
// Not inlined: its frame grows the stack.
//
//go:noinline
func growStack() (room [16 << 10]byte) { return room }

// DedicateProcess sets the process up for replays only. It must be called first in main, with only
// one goroutine, which then stays on one thread; Go starts no more threads. The program must not
// call runtime.LockOSThread, and must wait only in raw system calls, as package hal does (GO.md).
func DedicateProcess() {
	// Reducing a larger number costs 200 KiB, so lminit starts programs with GOMAXPROCS=1.
	goruntime.GOMAXPROCS(1)
	hal.SetPanicOnFault(true)
	// Go preempts goroutines with SIGURG, which would interrupt raw system calls. At the first, Go
	// maps memory (Go 1.26, runtime/preempt_xreg.go). Go still preempts at calls of functions.
	ignore := [4]uint64{1} // struct sigaction: SIG_IGN, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&ignore)),
		0, 8, 0, 0)
}

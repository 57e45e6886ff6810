package runtime

// This file prepares the process for runs, and turns panics of runs into codes.

import (
	"math"
	goruntime "runtime"
	"time"
	"unsafe"

	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze prepares for runs that allocate nothing: it locks commands and arena into memory, turns
// the garbage collector off, and grows the stack of the calling goroutine to the size that a run
// needs. The error is a *hal.Fault.
//
// Freeze does not lock the payload in the page cache, the default data of inputs for which Input
// was not called, or the program itself. The kernel may evict these pages. A run that needs an
// evicted page waits until the kernel has read the page again, and ends with hal.IO if that fails.
//
// Freeze does not change threads, signals and scheduling of the process, because the process may
// do other work. A process that does no other work should also call DedicateProcess.
func (r *Replay) Freeze() error {
	// Lock the memory that runs use. This also allocates each of its pages, so that no run causes
	// a page fault there.
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return hal.NewFault(hal.Denied, "cannot lock commands and arena into memory: "+
				err.Error()+"; raise RLIMIT_MEMLOCK (`ulimit -l`)")
		}
	}
	// Turn the garbage collector off. The limit of GOMEMLIMIT must be removed too, because Go
	// collects garbage at this limit even if the collector is off.
	setGCPercent(-1)
	setMemoryLimit(math.MaxInt64)
	// Use a timer once, because the first timer makes Go open the files of its network poller. Go
	// also starts timers by itself, for example to return memory to the kernel, so that a run
	// could otherwise open the files.
	time.Sleep(time.Nanosecond)
	// Set the number of processors to its present value. Unless a program sets it, Go opens files
	// from time to time to read the CPU limits.
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	// Grow the stack now, so that no run has to grow it.
	_ = reserveStack()
	return nil
}

// reserveStack grows the stack of the goroutine to more than a run needs. The stack keeps this
// size, because Go shrinks stacks only when it collects garbage, and the collector is off.
//
//go:noinline
func reserveStack() (room [16 << 10]byte) { return room }

// DedicateProcess prepares a process that does nothing but replay. The program must call it at its
// start, from its only goroutine. Afterwards the goroutine stays on one thread, and Go starts no
// further threads, on two conditions: the program does not call runtime.LockOSThread, and it waits
// only by raw system calls, as package hal does.
func DedicateProcess() {
	// Let Go use one processor. Releasing the caches of a second one costs 200 KiB of memory;
	// therefore lminit starts programs with GOMAXPROCS=1.
	goruntime.GOMAXPROCS(1)
	// Turn memory faults into panics, which runs recover.
	hal.PanicOnFault(true)
	// Ignore SIGURG, the signal by which Go preempts a goroutine between function calls. SIGURG
	// would interrupt raw system calls, and Go maps memory when the first one arrives (Go 1.26,
	// runtime/preempt_xreg.go). Go can still preempt the goroutine at function calls.
	ignore := [4]uint64{1} // struct sigaction: SIG_IGN, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&ignore)),
		0, 8, 0, 0)
}

// runGuarded executes a sequence. If the sequence panics, runGuarded returns a code: hal.IO if a
// read of the image file faulted, hal.BusFault if an access to a device faulted, and hal.Internal
// for any other panic, which is a defect of this program or of a mock device.
func (r *Replay) runGuarded(sequence int) hal.Code {
	code, ended := r.executeRecovered(sequence)
	payload := r.view.Payload
	switch {
	case ended.Cause == nil:
		return code
	case ended.FaultedIn(hal.AddressOf(payload), uint64(len(payload))):
		r.failure = Result{FileTruncated: true}
		return hal.IO
	case ended.IsFault && (ended.Address == 0 || r.isDeviceFault(&ended)):
		return hal.BusFault
	}
	return hal.Internal
}

// executeRecovered executes a sequence. If SetLimit limits the run, it also checks the time at the
// end of the sequence. If the sequence panics, executeRecovered stops the panic and returns a
// description of it in ended. It does not share code with recoverPanic, which calls a function
// value: the analysis of tools/check/house can follow only direct calls.
func (r *Replay) executeRecovered(sequence int) (code hal.Code, ended hal.Panic) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	r.commandsToClockRead = r.clockInterval
	code = r.executeSequence(sequence)
	if code == hal.OK && r.clockInterval == limitedClockInterval {
		code = r.checkTimeLimit()
	}
	return code, ended
}

// isDeviceFault reports whether the access that faulted was an access to a device. It was one if
// its address is in a mapped window, if the command accesses a port, or if the command is a Point,
// which accesses only registers of the device. For a port the address is not checked, because only
// the port knows its memory.
func (r *Replay) isDeviceFault(fault *hal.Panic) bool {
	c := r.walk.Next
	for i := range r.apertures {
		a := &r.apertures[i]
		isInWindow := r.windows[i] != 0 && fault.FaultedIn(r.windows[i], a.Size)
		isOfPort := a.Port != nil && int(c.Window) == i
		if isInWindow || isOfPort {
			return true
		}
	}
	return c.Opcode == gen.OpcodePoint
}

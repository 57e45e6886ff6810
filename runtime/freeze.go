package runtime

// This file prepares the process for runs that allocate no memory. It also converts a panic of a
// run into a result code.

import (
	"math"
	goruntime "runtime"
	"time"
	"unsafe"

	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze prepares the process for runs that allocate no memory. It locks the commands and the arena
// into memory, turns the garbage collector off, and grows the stack of the calling goroutine to the
// size that a run needs. Therefore the same goroutine should call Run. The error is a *hal.Fault.
//
// Freeze does not lock three things: the payload in the page cache, the default data of inputs for
// which the caller did not call Input, and the program itself. The kernel may evict their pages
// from memory. A run that needs an evicted page waits until the kernel has read the page again. If
// the kernel cannot read a page of the image file, the run fails with hal.IO. LockMemory locks
// these three things too.
//
// Freeze does not change the threads, signals and scheduling of the process, because the process
// may do other work. A process that does no other work should also call DedicateProcess, before
// anything else.
func (r *Replay) Freeze() error {
	// Lock the arena and the envelope. The envelope contains the commands. mlock also allocates
	// all pages of this memory, so that a run causes no page faults in it.
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return hal.NewFault(hal.Denied, "cannot lock commands and arena into memory: "+
				err.Error()+hal.MemlockAdvice)
		}
	}
	// Turn the garbage collector off. Then remove the memory limit (GOMEMLIMIT), because Go
	// collects garbage at this limit even if the collector is off.
	setGCPercent(-1)
	setMemoryLimit(math.MaxInt64)
	// Sleep, to make Go start its first timer now. With the first timer of a process, Go opens file
	// descriptors for its network poller (epoll). Without this sleep, the first timer could be one
	// of Go's own, for example to return memory to the kernel, and start during a run.
	time.Sleep(time.Nanosecond)
	// Set GOMAXPROCS to its present value. This stops Go from adjusting GOMAXPROCS: otherwise Go
	// opens files from time to time, to read the CPU limits of the process.
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	// Grow the stack now, because Go would allocate memory if the stack had to grow during a run.
	_ = growStack()
	hal.ReserveFaults()
	return nil
}

// growStack grows the stack of the calling goroutine to more than a run needs, because its own
// stack frame has 16 KiB. Afterwards the stack keeps its size, because Go shrinks stacks only when
// it collects garbage, and the garbage collector is off.
//
//go:noinline
func growStack() (room [16 << 10]byte) { return room }

// DedicateProcess changes settings of Go and of the process for a program that only replays. The
// program must call DedicateProcess first in main, while it has only one goroutine. Afterwards this
// goroutine stays on one thread, and Go starts no more threads. Therefore the program must not call
// runtime.LockOSThread, and must wait only in raw system calls, as package hal does.
func DedicateProcess() {
	// Let Go use only one processor. If Go has already started with more processors, reducing their
	// number costs 200 KiB of memory. Therefore lminit starts programs with GOMAXPROCS=1.
	goruntime.GOMAXPROCS(1)
	// Convert memory faults into panics, from which runs can recover.
	hal.SetPanicOnFault(true)
	// Ignore SIGURG. With this signal, Go preempts a goroutine at any instruction. SIGURG would
	// interrupt raw system calls, and at the first SIGURG Go maps memory (Go 1.26,
	// runtime/preempt_xreg.go). Go can still preempt the goroutine when it calls a function.
	ignore := [4]uint64{1} // struct sigaction: SIG_IGN, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&ignore)),
		0, 8, 0, 0)
}

// runCatchingFaults executes a sequence and returns its code. If the sequence panics,
// runCatchingFaults recovers and converts the panic into a code:
//   - hal.IO if a read of the mapped image file faulted, because the file has been truncated
//   - hal.BusFault if an access to a device faulted, or if the address of the fault is unknown
//   - hal.Internal otherwise, because the panic is a defect of this program or of a mock device
func (r *Replay) runCatchingFaults(sequence int) hal.Code {
	code, ended := r.executeAndRecover(sequence)
	payload := r.view.Payload
	switch {
	case ended.Cause == nil:
		return code
	case ended.FaultedIn(hal.AddressOf(payload), uint64(len(payload))):
		r.failureDetails = Result{FileTruncated: true}
		return hal.IO
	case ended.IsFault && (ended.Address == 0 || r.isDeviceFault(&ended)):
		return hal.BusFault
	}
	return hal.Internal
}

// executeAndRecover executes a sequence, and returns the panic from which it recovered, if any.
// With a limit from SetLimit, it also looks at the clock at the end.
//
// executeAndRecover does not call callAndRecover, because callAndRecover calls a function value. A
// test in tools/check/house analyses which functions a run can call, and follows only direct calls.
func (r *Replay) executeAndRecover(sequence int) (code hal.Code, recovered hal.Panic) {
	defer hal.Recover(hal.SetPanicOnFault(true), &recovered)
	r.walk.Budget = r.budgetUs
	code = r.executeSequence(sequence)
	if code == hal.OK && r.budgetUs == budgetWithLimitUs {
		code = r.checkTimeLimit()
	}
	return code, recovered
}

// isDeviceFault reports whether an access to a device caused a memory fault. There are three cases:
//   - The address of the fault is in a mapped window of the image.
//   - The command that faulted is a Point, which accesses only registers of the device.
//   - The command that faulted accesses a hal.Port instead of mapped memory. In this case any
//     address counts, because only the Port itself knows its memory.
func (r *Replay) isDeviceFault(fault *hal.Panic) bool {
	c := r.walk.Next
	for i := range r.apertures {
		a := &r.apertures[i]
		address := r.windowAddresses[i]
		isInWindow := address != 0 && fault.FaultedIn(address, a.Size)
		isOfPort := a.Port != nil && int(c.Window) == i
		if isInWindow || isOfPort {
			return true
		}
	}
	return c.Opcode == gen.OpcodePoint
}

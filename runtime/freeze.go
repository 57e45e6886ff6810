package runtime

// Freeze, and how runs turn panics into codes.

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
// Not locked are the payload in the page cache, default data of inputs for which Input was not
// called, and the program itself. The kernel may drop such pages; a run then waits until they are
// read again, or ends with IO if they cannot be.
//
// Threads, signals and scheduling of the process stay as they are, because the process may do
// other work. A process that does not should call DedicateProcess.
func (r *Replay) Freeze() error {
	// Lock the memory that runs use; this also makes every page present and private.
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return hal.NewFault(hal.Denied, "locking commands and arena into memory: "+err.Error()+
				"; raise RLIMIT_MEMLOCK (ulimit -l)")
		}
	}
	// Turn the collector off; GOMEMLIMIT would start it all the same.
	setGCPercent(-1)
	setMemoryLimit(math.MaxInt64)
	// Use a timer once: the first one makes Go open the files of its poller, and Go has timers of
	// its own, such as the one that returns memory to the kernel.
	time.Sleep(time.Nanosecond)
	// Fix the number of processors: otherwise Go reads the CPU limits from time to time, for which
	// it opens files.
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	// Grow the stack now, so that no run does.
	_ = reserveStack()
	return nil
}

// reserveStack uses more stack than a run does. Go shrinks a stack only during a collection, and
// there are no more collections.
//
//go:noinline
func reserveStack() (room [16 << 10]byte) { return room }

// DedicateProcess is for a program that only replays, to be called at its start. Afterwards the
// program has one goroutine, which never changes its thread and never makes Go start another, as
// long as it is not locked to its thread and waits only by raw system calls, as package hal does.
func DedicateProcess() {
	// One processor: giving up the caches of a second one costs 200 KiB.
	goruntime.GOMAXPROCS(1)
	// Memory faults become panics, which runs recover.
	hal.PanicOnFault(true)
	// The kernel ignores the signal by which Go interrupts a goroutine anywhere. It would cut raw
	// system calls short, and its first arrival maps memory (Go 1.26, runtime/preempt_xreg.go).
	// Go still stops the goroutine at function calls.
	ignore := [4]uint64{1} // struct sigaction: SIG_IGN, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&ignore)),
		0, 8, 0, 0)
}

// runGuarded executes a sequence and turns a panic into a code: IO for a read of the image file
// that faults, BusFault for an access to a device that does, Internal for any other panic, which
// is a defect of this program or of a device model.
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

// executeRecovered executes a sequence and, if SetLimit limits the run, reads the clock at its
// end. It also returns the panic that ended the sequence, if one did. It calls no function value,
// so that tools/house can follow every call of a run.
func (r *Replay) executeRecovered(sequence int) (code hal.Code, ended hal.Panic) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	r.commandsToClockRead = r.clockInterval
	code = r.executeSequence(sequence)
	if code == hal.OK && r.clockInterval == limitedClockInterval {
		code = r.checkTimeLimit()
	}
	return code, ended
}

// isDeviceFault reports whether the access that faulted was to a device: to a mapped window, to
// the memory of the port that the command accesses, which only the port knows, or by a Point,
// which accesses nothing but registers of the device.
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

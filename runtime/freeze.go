package runtime

import (
	"math"
	goruntime "runtime"
	"time"
	"unsafe"

	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze makes a replay ready for runs that allocate nothing: arena and
// commands are locked into memory with every page present and private, the
// collector is off, the number of Go's processors is fixed (a fixed one ends Go's
// periodic look at the CPU limits, which opens files), and the calling goroutine
// has all the stack it may need. Not locked are the payload in the page cache, recorded inputs
// that no call of Input has put into the arena, and the text of the program: the kernel may
// drop pages of them, and a run then waits until they are read again, or ends with IO if they
// cannot be. Threads, signals and scheduling of the process
// stay as they are: it may have other work, and if it has none, Alone is for it.
// The error is a *hal.Fault.
func (r *Replay) Freeze() error {
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return hal.NewFault(hal.Denied, "locking commands and arena into memory: "+err.Error()+
				"; raise RLIMIT_MEMLOCK (ulimit -l)")
		}
	}
	setGCPercent(-1)
	setMemoryLimit(math.MaxInt64) // or GOMEMLIMIT would start the collector all the same
	// The first timer makes Go open the files by which it waits for others, and
	// Go has timers of its own: memory is given back by one.
	time.Sleep(time.Nanosecond)
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	_ = reserveStack()
	return nil
}

// reserveStack takes more than a run does, so that no run makes Go look for a
// larger stack. A stack shrinks in a collection only, and there are none.
//
//go:noinline
func reserveStack() (room [16 << 10]byte) { return room }

// Alone is for a program whose only work is to replay, at its start. Go keeps to one
// processor: a second one's caches cost 200 KiB to give up. The kernel drops the signal
// by which Go interrupts a goroutine anywhere, which cuts raw system calls short, and at
// its first arrival maps memory (Go 1.26, runtime/preempt_xreg.go); Go still stops
// the goroutine where it calls a function. Then no goroutine ever changes its thread,
// and Go asks for no further one, as long as there is one goroutine, which stays unlocked
// from its thread and waits by raw system calls: those of package hal. Bus errors
// are panics, to be recovered.
func DedicateProcess() {
	goruntime.GOMAXPROCS(1)
	hal.PanicOnFault(true)
	ignore := [4]uint64{1} // struct sigaction: handler SIG_IGN, flags, restorer, mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), uintptr(unsafe.Pointer(&ignore)),
		0, 8, 0, 0)
}

// guarded executes a sequence and turns a panic into a code: IO for a read of the image file
// that fails, BusFault for an access to a device that does, Internal for anything else, which
// is a defect of this program or of a device's code.
func (r *Replay) guarded(sequence int) hal.Code {
	code, ended := r.recovered(sequence)
	payload := r.view.Payload
	switch {
	case ended.Cause == nil:
		return code
	case ended.In(hal.AddressOf(payload), uint64(len(payload))):
		r.failure = Result{FileLost: true}
		return hal.IO
	case ended.IsFault && (ended.Address == 0 || r.isDevice(&ended)):
		return hal.BusFault
	}
	return hal.Internal
}

// recovered executes a sequence and returns the panic that ended it, if one did.
func (r *Replay) recovered(sequence int) (code hal.Code, ended hal.Panic) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	r.due = r.every
	if code = r.executeSequence(sequence); code == hal.OK && r.every == commandsPerClockCheck {
		code = r.checkClock()
	}
	return code, ended
}

// isDevice reports whether an access that faulted was one to a device: to a window where it
// is mapped now, by the port of the command's window, which alone knows its memory, or by a
// Point, whose only accesses are to registers of the device.
func (r *Replay) isDevice(fault *hal.Panic) bool {
	c := r.walk.Next
	for i := range r.apertures {
		a := &r.apertures[i]
		inWindow := r.windows[i] != 0 && fault.In(r.windows[i], a.Size)
		if inWindow || a.Port != nil && int(c.Window) == i {
			return true
		}
	}
	return c.Opcode == gen.OpcodePoint
}

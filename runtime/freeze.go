package runtime

import (
	goruntime "runtime"
	"runtime/debug"
	"time"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze makes the process ready for runs that allocate nothing: the arena
// and the commands are locked into memory with every page of it present and private, the collector
// is off, GOMAXPROCS is fixed (a fixed value ends Go's periodic look at the CPU
// limits, which opens files), the threads that Go may need exist, and the
// calling goroutine stays on its thread with all the stack it may need. The
// error is a *hal.Fault.
func (r *Replay) Freeze() error {
	for _, memory := range [...][]byte{r.view.Envelope, r.arena} {
		if err := unix.Mlock(memory); err != nil {
			return &hal.Fault{Code: hal.Denied, Reason: "locking commands and arena into memory: " + err.Error() + "; raise RLIMIT_MEMLOCK (ulimit -l)"}
		}
	}
	processors := goruntime.GOMAXPROCS(0)
	// The first timer makes Go open the files by which it waits for others, and
	// Go has timers of its own: memory is given back by one.
	time.Sleep(time.Nanosecond)
	makeThreads(processors + threadsSpare)
	debug.SetGCPercent(-1)
	goruntime.GOMAXPROCS(processors)
	goruntime.LockOSThread()
	blockPreemption()
	reserveStack()
	return nil
}

// stackReserved is more than a run takes, so that no run makes Go look for a
// larger stack. A stack shrinks in a collection only, and there are none.
const stackReserved = 16 << 10

func reserveStack() {
	var room [stackReserved]byte
	touch(&room)
}

//go:noinline
func touch(room *[stackReserved]byte) { room[0] = 1 }

// threadsSpare are the threads beside those that run at once: one waits in a
// system call, the others have let go of a processor and are not at rest yet.
const threadsSpare = 4

// makeThreads has Go make threads now that it would make later: a wait in the
// kernel hands the processor on to another thread, and where none is idle Go
// clones one, which Seal forbids. Threads stay when their goroutine ends. To
// read the memory statistics Go stops all processors, and so waits for those
// that another thread was still being made for.
func makeThreads(count int) {
	ready, leave := make(chan bool), make(chan bool)
	for range count {
		go func() {
			goruntime.LockOSThread()
			ready <- true
			<-leave
			goruntime.UnlockOSThread()
			ready <- true
		}()
	}
	for range count {
		<-ready
	}
	close(leave)
	for range count {
		<-ready
	}
	var statistics goruntime.MemStats
	goruntime.ReadMemStats(&statistics)
}

// blockPreemption keeps the signal away from this thread by which Go interrupts
// a goroutine anywhere. Its first arrival maps memory to keep registers in (Go
// 1.26, runtime/preempt_xreg.go), and each is a disturbance. Go still stops the
// goroutine where it calls a function, which no command goes long without.
func blockPreemption() {
	set := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{1 << (unix.SIGURG - 1)}}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

// guarded executes a sequence and turns a bus error, of the device or of a
// truncated file, into a code.
func (r *Replay) guarded(sequence int) (code hal.Code) {
	defer guard(debug.SetPanicOnFault(true), &code)
	return r.execute(sequence)
}

// guard, deferred, gives a code instead of a panic, and lets faults end the
// process again where they did before.
func guard(panics bool, code *hal.Code) {
	debug.SetPanicOnFault(panics)
	if fault := recover(); fault != nil {
		*code = hal.Internal
		if _, isFault := fault.(interface{ Addr() uintptr }); isFault {
			*code = hal.BusFault
		}
	}
}

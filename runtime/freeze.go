package runtime

import (
	goruntime "runtime"
	"runtime/debug"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Freeze makes the process ready for runs that allocate nothing: the arena is
// locked into memory, every page of it present and private, the collector is off, GOMAXPROCS is fixed (a
// fixed value ends Go's periodic look at the CPU limits, which opens files),
// and the calling goroutine stays on its thread. The error is a *hal.Fault.
func (r *Replay) Freeze() error {
	if len(r.arena) > 0 {
		if err := unix.Mlock(r.arena); err != nil {
			return &hal.Fault{Code: hal.Denied, Reason: "locking the arena into memory: " + err.Error() + "; raise RLIMIT_MEMLOCK (ulimit -l)"}
		}
	}
	debug.SetGCPercent(-1)
	goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	goruntime.LockOSThread()
	return nil
}

// guarded executes a sequence and turns a bus error, of the device or of a
// truncated file, into a code.
func (r *Replay) guarded(sequence int) (code hal.Code) {
	panics := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(panics)
		if fault := recover(); fault != nil {
			code = hal.Internal
			if _, isFault := fault.(interface{ Addr() uintptr }); isFault {
				code = hal.BusFault
			}
		}
	}()
	return r.execute(sequence)
}

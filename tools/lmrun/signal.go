package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file makes signals end lmrun after the current run. No goroutine waits for signals, since
// that would need another thread. Instead, the kernel calls a handler in assembly, which sets
// the variable stopping.

// stopping is not 0 after a signal: the current run is then the last one. Further signals have
// no effect, therefore they can neither skip the sequence safe nor leave DMA enabled. The
// current run fails if it takes longer than runtime.StopGrace from then on. With -deadline, the
// deadline of the run applies instead.
var stopping atomic.Uint32

// stopSignals lists the signals that end lmrun after the current run. SIGQUIT and SIGKILL end
// the process immediately.
var stopSignals = [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

const (
	// actionOnStack is SA_ONSTACK: the handler runs on Go's signal stack, because the stack of
	// a goroutine is too small for the signal frame.
	actionOnStack = 0x08000000
	// actionRestorer is SA_RESTORER: the field restorer is set.
	actionRestorer = 0x04000000
)

// sigaction is the argument of the system call rt_sigaction. Its layout is the same on amd64
// and arm64 (Linux, arch/x86/include/uapi/asm/signal.h, and
// arch/arm64/include/uapi/asm/signal.h with include/linux/signal_types.h).
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// signalHandlers returns two addresses of code in signal_*.s: of the handler that sets stopping,
// and of the restorer, to which the handler returns. The restorer is 0 on an architecture where
// the kernel provides that code.
func signalHandlers() (handler, restorer uintptr)

// stopOnSignal installs the handler for all stopSignals. It does not set SA_RESTART: a signal
// must interrupt the sleep of a run, since the time limit of the run changes.
func stopOnSignal() error {
	handler, restorer := signalHandlers()
	action := sigaction{handler: handler, flags: actionOnStack, restorer: restorer}
	if restorer != 0 {
		action.flags |= actionRestorer
	}
	for _, signal := range stopSignals {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal),
			uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
		if errno != 0 {
			return hal.NewFault(hal.Internal, "cannot install the signal handler: "+errno.Error())
		}
	}
	return nil
}

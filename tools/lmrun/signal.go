package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// A signal ends lmrun after the current run. Package os/signal would start another thread; here the
// kernel calls a handler in assembly, which sets stopRequested.

// stopRequested is 0 until one of stopSignals arrives. Then no further run starts, and the current
// run fails after runtime.StopGraceNs, unless -deadline sets its limit. `safe` still runs after a
// failure, and DMA is stopped.
var stopRequested atomic.Uint32

// stopSignals does not contain SIGQUIT, which ends the process immediately, as SIGKILL does.
var stopSignals = [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

// Flags of struct sigaction (asm/signal.h of Linux).
const (
	// SA_ONSTACK: use the signal stack that Go has set for the thread. The stack of a goroutine is
	// too small for a signal frame.
	actionOnStack  = 0x08000000
	actionRestorer = 0x04000000 // SA_RESTORER: the field restorer is set
)

// sigaction is the kernel's struct sigaction, whose layout is the same on amd64 and arm64
// (arch/x86/include/uapi/asm/signal.h, arch/arm64/include/uapi/asm/signal.h and
// include/linux/signal_types.h in Linux).
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// signalHandlerAddresses returns the function that the kernel calls for a signal, and the one to
// which it returns: 0 on arm64, where the kernel provides it.
func signalHandlerAddresses() (handler, restorer uintptr)

// installSignalHandler does not set SA_RESTART: a signal ends a system call that waits, for example
// for the other end of a pipe.
func installSignalHandler() error {
	handler, restorer := signalHandlerAddresses()
	action := sigaction{handler: handler, flags: actionOnStack, restorer: restorer}
	if restorer != 0 {
		action.flags |= actionRestorer
	}
	files.StopRequested = &stopRequested
	for _, signal := range append(stopSignals[:], unix.SIGALRM) {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal),
			uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action.mask), 0, 0)
		if errno != 0 {
			return hal.NewFault(hal.Internal, "cannot install the signal handler: "+errno.Error())
		}
	}
	return nil
}

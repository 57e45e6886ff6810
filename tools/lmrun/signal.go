package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file lets signals end the runs in order. No goroutine waits for them, since that
// would take a thread: the kernel calls a handler in assembly, which sets stopping.

// stopping is not 0 after a signal: the current run is the last. Further signals change
// nothing, so that none skips the sequence safe or leaves DMA enabled. A run that continues
// for longer than runtime.StopGrace fails, unless -deadline bounds it.
var stopping atomic.Uint32

// stopSignals request an orderly end. SIGQUIT and SIGKILL end the process at once.
var stopSignals = [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

const (
	actionOnStack  = 0x08000000 // SA_ONSTACK: Go's stack for signals, a goroutine's is too small
	actionRestorer = 0x04000000 // SA_RESTORER
)

// sigaction is struct sigaction as the kernel reads it, the same on both architectures
// (Linux, arch/x86/include/uapi/asm/signal.h, and arch/arm64/include/uapi/asm/signal.h with
// include/linux/signal_types.h).
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// signalHandlers returns the address of the handler in signal_*.s, which sets stopping, and
// of the code that a handler returns to, 0 if the kernel has that itself.
func signalHandlers() (handler, restorer uintptr)

// stopOnSignal installs the handler. Without SA_RESTART, a signal interrupts the wait of a
// run, which then checks how much time is left.
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
			return hal.NewFault(hal.Internal, "installing the signal handler: "+errno.Error())
		}
	}
	return nil
}

package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// stopping is not 0 after a signal: the run that goes on is the last. Further
// signals change nothing, so that none skips the sequence safe or leaves DMA going.
// A run that still goes on after runtime.StopGrace fails, unless -deadline bounds it.
var stopping atomic.Uint32

// stopSignals ask for an orderly end. SIGQUIT and SIGKILL remain, for one that is not.
var stopSignals = [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

const (
	actionOnStack  = 0x08000000 // Go's stack for signals: a goroutine's is too small
	actionRestorer = 0x04000000
)

// signalHandlers gives the address of the handler in signal_*.s, which sets stopping,
// and of what a handler returns to where the kernel has nothing for that.
func signalHandlers() (handler, restorer uintptr)

// stopOnSignal makes signals end the runs in order. They come to no goroutine,
// since one that waits for them would take a thread. There is no SA_RESTART: a wait
// of a run ends early, and looks how much time is left.
func stopOnSignal() error {
	// struct sigaction as the kernel has it, the same on both architectures: handler,
	// flags, restorer (0: the kernel's own), mask (linux,
	// arch/x86/include/uapi/asm/signal.h and arch/arm64/include/uapi/asm/signal.h
	// with include/linux/signal_types.h).
	handler, restorer := signalHandlers()
	action := [4]uintptr{handler, actionOnStack, restorer}
	if restorer != 0 {
		action[1] |= actionRestorer
	}
	for _, signal := range stopSignals {
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal),
			uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action[3]), 0, 0); errno != 0 {
			return hal.NewFault(hal.Internal, "taking signals: "+errno.Error())
		}
	}
	return nil
}

package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file installs a signal handler, so that lmrun ends after the current run when it receives a
// signal. This file does not use package os/signal, which would start another thread. Instead, the
// kernel calls a handler in assembly, which sets the variable stopRequested.

// stopRequested is 0 until one of stopSignals arrives. After that, lmrun starts no further run. The
// current run fails if it continues for longer than runtime.StopGraceNs, unless -deadline sets its
// limit. Further signals have no effect: lmrun still runs the sequence `safe` after a failure, and
// stops DMA.
var stopRequested atomic.Uint32

// stopSignals lists the signals after which lmrun finishes the current run and then ends. SIGQUIT
// and SIGKILL are not in this list: they end the process immediately.
var stopSignals = [...]unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP}

// Flags of struct sigaction, from the header asm/signal.h of Linux.
const (
	// actionOnStack is SA_ONSTACK. It makes the handler run on the signal stack that Go has set
	// for the thread, because the stack of a goroutine is too small for a signal frame.
	actionOnStack = 0x08000000
	// actionRestorer is SA_RESTORER. It makes the kernel use the field `restorer` of struct
	// sigaction.
	actionRestorer = 0x04000000
)

// sigaction is struct sigaction of the kernel. It is an argument of the system call rt_sigaction.
// Its layout is the same on amd64 and arm64 (see arch/x86/include/uapi/asm/signal.h,
// arch/arm64/include/uapi/asm/signal.h and include/linux/signal_types.h in Linux).
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// signalHandlerAddresses returns the addresses of two functions in signal_amd64.s or
// signal_arm64.s. `handler` is the function that the kernel calls for a signal; it sets the
// variable stopRequested, except for SIGALRM. `restorer` is the function to which the handler
// returns; it is 0 on arm64, where the kernel provides it.
func signalHandlerAddresses() (handler, restorer uintptr)

// installSignalHandler installs the signal handler for all stopSignals and for SIGALRM. It does not
// set the flag SA_RESTART, so a signal interrupts the sleep of a run, and the run then applies its
// new time limit, runtime.StopGraceNs.
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

const alarmIntervalUs = 50_000

// setAlarm makes SIGALRM interrupt system calls, again and again, or no more if intervalUs is 0. If
// a stop signal arrives just before open(2), which waits for the other end of a FIFO, the alarm
// ends the wait.
func setAlarm(intervalUs int64) {
	interval := unix.Timeval{Usec: intervalUs}
	timer := unix.Itimerval{Interval: interval, Value: interval}
	unix.RawSyscall(unix.SYS_SETITIMER, uintptr(unix.ITIMER_REAL),
		uintptr(unsafe.Pointer(&timer)), 0)
}

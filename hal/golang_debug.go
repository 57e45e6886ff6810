//go:build nolinkname

package hal

// This file makes memory faults recoverable in programs that are built with -tags nolinkname.

import "runtime/debug"

// PanicOnFault sets what a memory fault does in this goroutine. If on is true, the fault
// becomes a panic, which the program can recover. If on is false, the fault ends the
// process. PanicOnFault returns the previous setting.
func PanicOnFault(on bool) (previous bool) { return debug.SetPanicOnFault(on) }

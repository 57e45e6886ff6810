//go:build nolinkname

package hal

// This file makes memory faults recoverable by calling runtime/debug, in programs that are built
// with `-tags nolinkname`. The import of runtime/debug makes these programs 57 KB larger.

import "runtime/debug"

// SetPanicOnFault sets what a memory fault does in this goroutine. If `on` is true, the fault
// becomes a panic, which the program can recover. If `on` is false, the fault ends the process.
// SetPanicOnFault returns the previous setting.
func SetPanicOnFault(on bool) (previous bool) { return debug.SetPanicOnFault(on) }

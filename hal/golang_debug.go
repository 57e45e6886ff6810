//go:build nolinkname

package hal

// This file makes memory faults recoverable by calling runtime/debug, in programs that are built
// with `-tags nolinkname`. The import of runtime/debug makes these programs 57 KB larger.

import "runtime/debug"

// PanicOnFault sets what a memory fault does in this goroutine. If `on` is true, the fault becomes
// a panic, which the program can recover. If `on` is false, the fault ends the process.
// PanicOnFault returns the previous setting.
func PanicOnFault(on bool) (previous bool) { return debug.SetPanicOnFault(on) }

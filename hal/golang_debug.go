//go:build nolinkname

package hal

import "runtime/debug"

// PanicOnFault sets whether a fault at any address is a panic of this goroutine rather than
// the end of the process, and returns what was set before.
func PanicOnFault(on bool) (before bool) { return debug.SetPanicOnFault(on) }

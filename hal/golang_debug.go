//go:build nolinkname

package hal

import "runtime/debug"

// PanicOnFault sets whether a fault at any address is a panic of this goroutine instead
// of the end of the process, and returns the previous setting.
func PanicOnFault(on bool) (before bool) { return debug.SetPanicOnFault(on) }

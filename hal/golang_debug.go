//go:build nolinkname

package hal

import "runtime/debug"

// SetPanicOnFault sets whether a memory fault in this goroutine is a panic or ends the process, and
// returns the previous setting.
func SetPanicOnFault(on bool) (previous bool) { return debug.SetPanicOnFault(on) }

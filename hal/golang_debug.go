//go:build nolinkname

package hal

import "runtime/debug"

// PanicOnFault sets how a memory fault in this goroutine ends: if on, in a panic that can
// be recovered, else in the end of the process. It returns the previous setting.
func PanicOnFault(on bool) (previous bool) { return debug.SetPanicOnFault(on) }

//go:build !nolinkname

package hal

import _ "unsafe" // go:linkname requires this import

// SetPanicOnFault sets whether a memory fault in this goroutine is a panic or ends the process, and
// returns the previous setting.
//
// It is SetPanicOnFault of runtime/debug, linked by name: an import would add 57 KB (os, fmt,
// reflect). See runtime/GO.md. If a later Go rejects it, build with `-tags nolinkname`.
//
//go:linkname SetPanicOnFault runtime/debug.setPanicOnFault
func SetPanicOnFault(on bool) (previous bool)

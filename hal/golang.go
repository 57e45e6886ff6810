//go:build !nolinkname

package hal

// This file declares SetPanicOnFault, which makes memory faults recoverable. It does not import
// runtime/debug.

import _ "unsafe" // go:linkname requires this import

// SetPanicOnFault sets what a memory fault does in this goroutine. If `on` is true, the fault
// becomes a panic, which the program can recover. If `on` is false, the fault ends the process.
// SetPanicOnFault returns the previous setting.
//
// This function is debug.SetPanicOnFault of Go's package runtime/debug. This file links to that
// function by name. An import of runtime/debug would add 57 KB to the program, because
// runtime/debug imports os, fmt and reflect. runtime/GO.md describes this use of go:linkname. If a
// later Go version rejects it, build with `-tags nolinkname`.
//
//go:linkname SetPanicOnFault runtime/debug.setPanicOnFault
func SetPanicOnFault(on bool) (previous bool)

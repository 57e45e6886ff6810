//go:build !nolinkname

package hal

// This file makes memory faults recoverable without importing runtime/debug.

import _ "unsafe" // go:linkname requires this import

// PanicOnFault sets what a memory fault does in this goroutine. If on is true, the fault
// becomes a panic, which the program can recover. If on is false, the fault ends the
// process. PanicOnFault returns the previous setting.
//
// It is the function debug.SetPanicOnFault of Go's package runtime/debug. This file links
// to it by name, because an import of runtime/debug also imports os, fmt and reflect,
// which add 57 KB to the program. runtime/GO.md describes this use of go:linkname. If a
// later Go version rejects it, build with -tags nolinkname.
//
//go:linkname PanicOnFault runtime/debug.setPanicOnFault
func PanicOnFault(on bool) (previous bool)

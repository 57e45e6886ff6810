//go:build !nolinkname

package hal

// This file declares SetPanicOnFault, which makes memory faults recoverable. It links to a function
// of runtime/debug without importing that package.

import _ "unsafe" // go:linkname requires this import

// SetPanicOnFault sets what a memory fault does in this goroutine. If `on` is true, the fault
// becomes a panic, which the program can recover. If `on` is false, the fault ends the process.
// SetPanicOnFault returns the previous setting.
//
// This function is SetPanicOnFault of Go's package runtime/debug. The linker finds it by name. An
// import of runtime/debug would add 57 KB to the program, because runtime/debug imports os, fmt and
// reflect. runtime/GO.md describes this use of go:linkname. If a later Go version rejects the use,
// build with `-tags nolinkname`.
//
//go:linkname SetPanicOnFault runtime/debug.setPanicOnFault
func SetPanicOnFault(on bool) (previous bool)

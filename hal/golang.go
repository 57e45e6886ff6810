//go:build !nolinkname

package hal

import _ "unsafe" // for go:linkname

// PanicOnFault sets whether a fault at any address is a panic of this goroutine instead
// of the end of the process, and returns the previous setting. runtime/debug exports the
// same function, but imports os, fmt and reflect: 57 KB. runtime/GO.md describes this use
// of go:linkname. If a later Go version rejects it, build with -tags nolinkname.
//
//go:linkname PanicOnFault runtime/debug.setPanicOnFault
func PanicOnFault(on bool) (before bool)

//go:build !nolinkname

package hal

import _ "unsafe" // for go:linkname

// PanicOnFault sets how a memory fault in this goroutine ends: if on, in a panic that can
// be recovered, else in the end of the process. It returns the previous setting. The
// package runtime/debug exports the same function, but its imports os, fmt and reflect
// add 57 KB to the program. runtime/GO.md describes this use of go:linkname. If a later
// Go version rejects go:linkname, build with -tags nolinkname.
//
//go:linkname PanicOnFault runtime/debug.setPanicOnFault
func PanicOnFault(on bool) (previous bool)

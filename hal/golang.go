//go:build !nolinkname

package hal

import _ "unsafe" // for go:linkname

// PanicOnFault sets whether a fault at any address is a panic of this goroutine rather than
// the end of the process, and returns what was set before. Package runtime/debug, which has
// it too, would bring os, fmt and reflection: 57 KB. Go's own runtime names the function for
// it (runtime/GO.md). Should a later Go refuse that, build with -tags nolinkname.
//
//go:linkname PanicOnFault runtime/debug.setPanicOnFault
func PanicOnFault(on bool) (before bool)

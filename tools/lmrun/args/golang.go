//go:build !nolinkname

package args

import _ "unsafe" // go:linkname requires this import

// commandLineArguments is os.Args. Package os would make the program 128 KB larger, so the
// directive links the function of Go's runtime from which os gets them (see runtime/GO.md).
//
//go:linkname commandLineArguments os.runtime_args
func commandLineArguments() []string

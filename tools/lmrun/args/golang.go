//go:build !nolinkname

package args

import _ "unsafe" // go:linkname requires this import

// commandLineArguments returns the name of the program followed by the arguments of this process.
// The result is the same as os.Args, but importing package os would make the program 128 KB larger.
// The directive below links commandLineArguments to the function of Go's runtime from which package
// os gets the arguments (see runtime/GO.md).
//
//go:linkname commandLineArguments os.runtime_args
func commandLineArguments() []string

//go:build !nolinkname

package args

import _ "unsafe" // for go:linkname

// processArguments returns the arguments of the process, with the program's name first. It is
// linked to a function that Go's runtime provides for package os (runtime/GO.md). To import
// package os would make the program 128 KB larger.
//
//go:linkname processArguments os.runtime_args
func processArguments() []string

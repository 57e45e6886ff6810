//go:build !nolinkname

package args

import _ "unsafe" // for go:linkname

// processArguments returns the command line. Package os, which has it too, would bring
// 128 KB of program. Go's own runtime names this function for package os
// (runtime/GO.md).
//
//go:linkname processArguments os.runtime_args
func processArguments() []string

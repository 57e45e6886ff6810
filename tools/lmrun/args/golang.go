//go:build !nolinkname

package args

import _ "unsafe" // for go:linkname

// Package os would bring 128 KB with it. Go's own runtime names this function for it
// (runtime/GO.md).
//
//go:linkname processArguments os.runtime_args
func processArguments() []string

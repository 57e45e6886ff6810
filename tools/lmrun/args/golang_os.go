//go:build nolinkname

package args

import "os"

// With the tag nolinkname, commandLineArguments needs no internal function of Go.
func commandLineArguments() []string { return os.Args }

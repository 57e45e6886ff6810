//go:build nolinkname

package args

import "os"

// commandLineArguments returns the name of the program followed by the arguments of this process.
// Builds with the tag nolinkname use this implementation, which needs no internal function of Go.
func commandLineArguments() []string { return os.Args }

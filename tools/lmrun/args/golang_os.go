//go:build nolinkname

package args

import "os"

// processArguments returns the name of the program followed by the arguments of this process. The
// build tag nolinkname selects this function, which depends on no internal function of Go.
func processArguments() []string { return os.Args }

//go:build nolinkname

package args

import "os"

func processArguments() []string { return os.Args }

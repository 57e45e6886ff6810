//go:build nolinkname

package args

import "os"

func all() []string { return os.Args }

//go:build nojson

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file replaces json.go if lmrun is built with the tag nojson. In such a build,
// rejectOmittedOptions rejects -json. Therefore lmrun never calls the function appendJSON below.

const (
	hasJSON   = false
	jsonUsage = ""
)

func appendJSON([]byte, args.Options, *outcome, hal.Code) []byte { return nil }

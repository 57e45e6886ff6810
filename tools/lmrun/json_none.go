//go:build nojson

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file replaces json.go if lmrun is built with the tag nojson. checkBuild rejects -json in
// such a build, therefore jsonText is never called.

const (
	hasJSON   = false
	jsonUsage = ""
)

func jsonText(args.Options, outcome, hal.Code) string { return "" }

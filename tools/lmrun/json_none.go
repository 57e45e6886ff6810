//go:build nojson

package main

import (
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
)

// This file replaces json.go in a program without -json, which checkBuild has rejected.

const (
	hasJSON   = false
	jsonUsage = ""
)

func jsonText(args.Options, outcome, hal.Code) string { return "" }

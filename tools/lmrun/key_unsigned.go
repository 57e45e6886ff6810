//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

const keyUsage = ""

// checkSignature refuses every file: this program knows nothing of signatures,
// and must not pass over the wish for one.
func checkSignature(*runtime.File, string) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build one with `go build -tags signed`")
}

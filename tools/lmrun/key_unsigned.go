//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// This file replaces key_signed.go if lmrun is built without the tag signed.

const keyUsage = ""

// checkSignature always fails. It is called only if -key is given, and to ignore -key would
// replay an image whose signature nothing has checked.
func checkSignature(*runtime.File, string) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build one with `go build -tags signed`")
}

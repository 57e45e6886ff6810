//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
)

// This file replaces key_signed.go if lmrun is built without the tag signed.

const keyUsage = ""

// checkSignature always returns an error. It is called only if -key is given. If lmrun ignored
// -key instead, it would replay an image without the requested check of the signature.
func checkSignature(*runtime.File, string) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build it with `-tags signed`")
}

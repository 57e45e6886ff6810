//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
)

// This file replaces key_signed.go if lmrun is built without the tag signed. Such an lmrun cannot
// check signatures.

const (
	hasSignatureCheck = false
	keyFlagUsage      = ""
)

// checkSignature always returns an error. lmrun calls checkSignature only if -key is given. Without
// this error, lmrun would ignore -key and replay an image with any signature.
func checkSignature(*runtime.File, args.Options) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build it with `-tags signed`")
}

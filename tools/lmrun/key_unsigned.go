//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

// This file replaces key_signed.go and counter.go if lmrun is built without the tag signed. Such an
// lmrun cannot check signatures.

const keyFlagUsage = ""

// checkSignature always returns an error. lmrun calls checkSignature only if -key is given. Without
// this error, lmrun would ignore -key and replay an image with any signature.
func checkSignature(*runtime.File, args.Options) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build it with `-tags signed`")
}

// counterUpdate takes the place of the type in counter.go. -version-counter needs -key, which
// checkSignature rejects.
type counterUpdate struct{ newFile files.Outputs }

func (*counterUpdate) openNewFile(path string, version uint32) error { return nil }
func (*counterUpdate) raiseVersion() error                           { return nil }
func (*counterUpdate) discard()                                      {}

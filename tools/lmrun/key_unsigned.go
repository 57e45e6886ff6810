//go:build !signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"
)

const keyFlagUsage = ""

// checkSignature rejects -key, which would otherwise accept an image with any signature.
func checkSignature(*runtime.File, args.Options) error {
	return hal.NewFault(hal.Denied,
		"-key: this lmrun cannot check signatures; build it with `-tags signed`")
}

// counterUpdate does nothing: -version-counter needs -key.
type counterUpdate struct{ newFile files.Outputs }

func (*counterUpdate) openNewFile(path string, version uint32) error { return nil }
func (*counterUpdate) raiseVersion() error                           { return nil }
func (*counterUpdate) discard()                                      {}

//go:build signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/files"
)

// This file checks signatures, in a program that was built with the tag signed.

const keyUsage = `
  -key FILE           public keys in hex, one a line; replay only what one of them has signed`

const keysMax = 4 << 20 // bytes of a file of keys

// checkSignature returns an error unless a key in the file path has signed the image.
func checkSignature(file *runtime.File, path string) error {
	text, err := files.Read(path, keysMax)
	if err != nil {
		return hal.FileFault(path, err)
	}
	keys, err := signed.ParseKeys(string(text))
	if err != nil {
		return hal.NewFault(hal.CodeOf(err), path+": "+err.(*hal.Fault).Reason)
	}
	return file.Inspect(keys.CheckSignature)
}

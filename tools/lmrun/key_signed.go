//go:build signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/lmrun/files"
)

// This file checks the signatures of images. Only builds with the tag signed contain it.

const keyUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed`

const maxKeyFileBytes = 4 << 20 // maximum size of the file that -key names

// checkSignature checks that one of the public keys in the file at keyPath verifies the signature
// of the image, and otherwise returns an error.
func checkSignature(file *runtime.File, keyPath string) error {
	publicKeys, err := files.Read(keyPath, maxKeyFileBytes)
	if err != nil {
		return hal.FileFault(keyPath, err)
	}
	keys, err := signed.ParseKeys(string(publicKeys))
	if err != nil {
		return hal.NewFault(hal.CodeOf(err), keyPath+": "+err.(*hal.Fault).Reason)
	}
	return file.Inspect(keys.CheckSignature)
}

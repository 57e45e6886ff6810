//go:build signed

package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/lmrun/files"
)

// This file checks the signatures of images. Only the build tag signed includes it.

const keyUsage = `
  -key FILE           public keys in hex, one a line; rejects an image that none of them signed`

const maxKeyFileBytes = 4 << 20 // size limit of the file named by -key

// checkSignature returns an error unless the image is signed with one of the public keys in
// the file at keyPath.
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

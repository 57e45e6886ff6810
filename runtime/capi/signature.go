//go:build signed

package main

// This file checks signatures, in archives with the build tag signed.

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature returns an error unless the file was signed with one of the public keys.
// publicKeys contains one key in each line.
func checkSignature(file *runtime.File, publicKeys string) error {
	keys, err := signed.ParseKeys(publicKeys)
	if err != nil {
		return err
	}
	return file.Inspect(keys.CheckSignature)
}

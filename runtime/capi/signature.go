//go:build signed

package main

// This file checks the signatures of files. It is only part of archives with the build tag signed.

import (
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
)

// checkSignature returns an error unless the signature of the file belongs to one of the public
// keys. The text publicKeys contains one key in each line.
func checkSignature(file *runtime.File, publicKeys string) error {
	keys, err := signed.ParseKeys(publicKeys)
	if err != nil {
		return err
	}
	return file.Inspect(keys.CheckSignature)
}
